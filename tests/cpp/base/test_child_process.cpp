// Processes that work for this one: how they ended.
#include "base/os.h"

#include <gtest/gtest.h>

using namespace ocl;
using End = os::ChildProcess::End;

TEST(ChildProcess, EndsCleanly) {
  os::ChildProcess process("/bin/true");
  ASSERT_TRUE(process.started());
  EXPECT_EQ(process.end(60), End::clean);
  EXPECT_EQ(process.end_text(), "status 0");
  EXPECT_EQ(process.end(60), End::clean);
}

TEST(ChildProcess, FailsByItsStatus) {
  os::ChildProcess process("/bin/false");
  char answer;
  EXPECT_FALSE(process.read(&answer, 1));
  EXPECT_EQ(process.end(60), End::failed);
  EXPECT_EQ(process.end_text(), "status 1");
}

TEST(ChildProcess, EndsWithItsInput) {
  os::ChildProcess process("/bin/cat");
  const char question[] = "what was written before the end is read";
  char answer[sizeof question] = {};
  ASSERT_TRUE(process.write(question, sizeof question));
  process.finish_writing();
  ASSERT_TRUE(process.read(answer, sizeof answer));
  EXPECT_STREQ(answer, question);
  EXPECT_EQ(process.end(60), End::clean);
}

// One that does not end is stopped, which says nothing about it.
TEST(ChildProcess, IsStoppedInTheEnd) {
  const char* program = "/usr/bin/yes";
  os::ChildProcess process(program);
  if (!process.started()) GTEST_SKIP() << "there is no " << program;
  EXPECT_NE(process.end(0), End::clean);
}

TEST(ChildProcess, IsNotStarted) {
  os::ChildProcess process("/there/is/no/such/program");
  char answer;
  EXPECT_FALSE(process.started() && process.read(&answer, 1));
  EXPECT_NE(process.end(60), End::clean);
}
