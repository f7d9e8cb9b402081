// Processes that work for this one (child_program.cpp): how they ended.
#include "base/os.h"

#include <gtest/gtest.h>

using namespace ocl;
using End = os::ChildProcess::End;

// Started, and told what to do.
class ChildProcess : public ::testing::Test {
 protected:
  void start(const char* wish) {
    ASSERT_FALSE(os::file_beside_library("ocl_child_program").empty());
    ASSERT_TRUE(process.started());
    ASSERT_TRUE(process.write(wish, 1));
  }
  os::ChildProcess process{os::file_beside_library("ocl_child_program")};
};

TEST_F(ChildProcess, EndsCleanly) {
  ASSERT_TRUE(process.started());
  EXPECT_EQ(process.end(60), End::clean);
  EXPECT_EQ(process.end_text(), "status 0");
  EXPECT_EQ(process.end(60), End::clean);
}

TEST_F(ChildProcess, FailsByItsStatus) {
  start("f");
  char answer;
  EXPECT_FALSE(process.read(&answer, 1));
  EXPECT_EQ(process.end(60), End::failed);
  EXPECT_EQ(process.end_text(), "status 8");
}

TEST_F(ChildProcess, FailsByAFault) {
  start("s");
  EXPECT_EQ(process.end(60), End::failed);
#if defined(_WIN32)
  EXPECT_EQ(process.end_text(), "exception c0000005");
#else
  EXPECT_EQ(process.end_text(), "signal 11");
#endif
}

TEST_F(ChildProcess, FailsByAbort) {
  start("a");
  EXPECT_EQ(process.end(60), End::failed);
  EXPECT_NE(process.end_text(), "status 0");
}

TEST_F(ChildProcess, EndsWithItsInput) {
  const char question[] = "what was written before the end is read";
  char answer[sizeof question] = {};
  start("e");
  ASSERT_TRUE(process.write(question, sizeof question));
  process.finish_writing();
  ASSERT_TRUE(process.read(answer, sizeof answer));
  EXPECT_STREQ(answer, question);
  EXPECT_EQ(process.end(60), End::clean);
}

TEST_F(ChildProcess, PrintsBesideTheChannel) {
  start("o");
  char answer = 0;
  ASSERT_TRUE(process.read(&answer, 1));
  EXPECT_EQ(answer, 'o');
  EXPECT_FALSE(process.read(&answer, 1));
  EXPECT_EQ(process.end(60), End::clean);
}

// One that does not end is stopped, which says nothing about it.
TEST_F(ChildProcess, IsStoppedInTheEnd) {
  start("l");
  EXPECT_EQ(process.end(0.05), End::stopped);
}

TEST_F(ChildProcess, IsNotStarted) {
  os::ChildProcess missing("/there/is/no/such/program");
  char answer;
  EXPECT_FALSE(missing.started() && missing.read(&answer, 1));
  EXPECT_NE(missing.end(60), End::clean);
}
