// Abilities that another process tries first.
#include "opencl/capabilities/probes.h"

#include "opencl/capabilities/float_atomics.h"
#include "opencl/capabilities/fma.h"
#include "opencl/capabilities/prefetch.h"
#include "opencl/device.h"
#include "opencl/program/compiler_process.h"
#include "opencl/program/kept_answers.h"
#include "opencl/program/program_cache.h"

#include "support.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace ocl;
using namespace ocl::testing;

TEST(Probes, TheCompilerIsBesideTheseTests) {
  EXPECT_TRUE(CompilerProcess::exists());
  EXPECT_FALSE(CompilerProcess::inside());
}

TEST(Probes, AnswersOfTheOtherProcessAreThoseOfThisOne) {
  if (device().guarded()) GTEST_SKIP() << "this driver may not survive being asked here";
  EXPECT_EQ(has_prefetch(device()), may_have_prefetch(device()) && prefetches(device()));
  EXPECT_EQ(float_atomics(device()) == FloatAtomics::extension,
            may_have_float_atomics(device()) && adds_right(device(), FloatAtomics::extension));
  EXPECT_TRUE(device().probes().passed_here("opens"));
  EXPECT_THROW(device().probes().passed_here("levitation"), InvalidArgument);
}

TEST(Probes, MultiplyAddRoundsOnce) {
  if (may_lack_fma(device())) GTEST_SKIP() << "the compiler process finds it out on this driver";
  EXPECT_TRUE(has_fma(device()));
  EXPECT_TRUE(multiplies_and_adds(device()));
}

TEST(Probes, AnswersAreKept) {
  if (!program_cache::enabled()) GTEST_SKIP() << "the disk cache is off";
  const std::string key = program_cache::key(device(), "test of answers", std::to_string(os::process_id()));
  EXPECT_FALSE(kept_answers::get(key));
  kept_answers::keep(key, "no: signal 11");
  EXPECT_EQ(kept_answers::get(key), "no: signal 11");
  std::filesystem::remove(std::filesystem::path(program_cache::folder()) / "answers" / key);
}

TEST(CompilerProcess, AsksForTheRightDevice) {
  CompilerProcess process;
  process.ask(device(), "opens");
  process.ask(device(), "levitation");
  process.last();
  EXPECT_EQ(process.answer(), CompilerProcess::Answer::yes);
  EXPECT_EQ(process.answer(), CompilerProcess::Answer::unable);
  EXPECT_EQ(process.end(), os::ChildProcess::End::clean);
}
