// How many threads and how much memory the process takes.
#include "base/processors.h"

#include "base/os.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace ocl {
namespace {

using processors::Decision;
using processors::Facts;

Facts machine(unsigned count) {
  Facts facts;
  facts.machine = facts.allowed = count;
  return facts;
}

TEST(Processors, AllOfTheMachine) {
  const Decision d = processors::decide(machine(64));
  EXPECT_EQ(d.threads, 64u);
  EXPECT_EQ(d.reason, "the processors of the machine");
  EXPECT_FALSE(d.asked);
}

TEST(Processors, TheLeastCounts) {
  Facts facts = machine(64);
  facts.allowed = 16;
  EXPECT_EQ(processors::decide(facts).threads, 16u);
  EXPECT_EQ(processors::decide(facts).reason, "the process's affinity mask");
  facts.quota = 7.6;
  EXPECT_EQ(processors::decide(facts).threads, 8u);
  EXPECT_NE(processors::decide(facts).reason.find("7.6"), std::string::npos);
  facts.openmp = 6;
  EXPECT_EQ(processors::decide(facts).reason, "OMP_NUM_THREADS");
  facts.driver = 3, facts.driver_variable = "POCL_MAX_PTHREAD_COUNT";
  EXPECT_EQ(processors::decide(facts).threads, 3u);
  EXPECT_EQ(processors::decide(facts).reason, "POCL_MAX_PTHREAD_COUNT");
  facts.asked = 40;
  EXPECT_EQ(processors::decide(facts).threads, 40u);
  facts.asked = 0;
  EXPECT_EQ(processors::decide(facts).threads, 0u);
}

TEST(Processors, NeverLessThanOne) {
  Facts facts = machine(4);
  facts.quota = 0.1;
  EXPECT_EQ(processors::decide(facts).threads, 1u);
  facts.quota = 1e30;
  EXPECT_EQ(processors::decide(facts).threads, 4u);
}

// The warning about one thread is for those whom nobody told.
TEST(Processors, OneThreadThatSomebodyAskedFor) {
  Facts facts = machine(8);
  facts.allowed = 1;
  EXPECT_FALSE(processors::decide(facts).asked);
  facts.openmp = 1;
  EXPECT_TRUE(processors::decide(facts).asked);
  facts.openmp = 2;
  EXPECT_FALSE(processors::decide(facts).asked);
  facts.quota = 1;
  EXPECT_TRUE(processors::decide(facts).asked);
}

TEST(Processors, RanksOfOneMachineShareThem) {
  Facts facts = machine(10);
  facts.torchrun = true, facts.openmp = 1;  // which torchrun sets
  unsigned sum = 0;
  facts.ranks = 4;
  for (facts.rank = 0; facts.rank < 4; ++facts.rank) {
    const Decision d = processors::decide(facts);
    EXPECT_TRUE(d.threads == 2 || d.threads == 3) << d.threads;
    EXPECT_TRUE(d.asked);
    sum += d.threads;
  }
  EXPECT_EQ(sum, 10u);
  facts.rank = 1, facts.ranks = 64;
  EXPECT_EQ(processors::decide(facts).threads, 1u);
  facts.ranks = 2, facts.quota = 4;
  EXPECT_EQ(processors::decide(facts).threads, 2u);
}

TEST(Processors, WhatSomebodySaidIsNotShared) {
  Facts facts = machine(16);
  facts.ranks = 2, facts.rank = 1, facts.torchrun = true;
  facts.openmp = 12;
  EXPECT_EQ(processors::decide(facts).threads, 12u);
  facts.openmp = 1, facts.torchrun = false;
  EXPECT_EQ(processors::decide(facts).threads, 1u);
  facts.openmp = 0, facts.driver = 10, facts.driver_variable = "POCL_MAX_PTHREAD_COUNT";
  EXPECT_EQ(processors::decide(facts).threads, 10u);
  facts.asked = 3;
  EXPECT_EQ(processors::decide(facts).threads, 3u);
}

class HostMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    // ctest runs the tests of this class beside each other.
    root_ = ::testing::TempDir() + "host_memory_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    write("/proc/meminfo",
          "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapTotal: 9 kB\nSwapFree: 8 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(HostMemory, OfTheMachine) {
  const processors::Memory memory = processors::memory(root_);
  EXPECT_EQ(memory.physical, 1000u << 10);
  EXPECT_EQ(memory.total, 1000u << 10);
  EXPECT_EQ(memory.available, 608u << 10);
}

TEST_F(HostMemory, OfTheControlGroup) {
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/memory.max", "409600\n");
  write("/sys/fs/cgroup/memory.current", "102400\n");
  const processors::Memory memory = processors::memory(root_);
  EXPECT_EQ(memory.physical, 1000u << 10);
  EXPECT_EQ(memory.total, 400u << 10);
  EXPECT_EQ(memory.available, 308u << 10);
}

TEST(Os, LimitsOfSystemsWithoutControlGroups) {
  EXPECT_GT(os::installed_memory(), size_t{1} << 20);
  const os::Limits limits = os::limits();
  EXPECT_GE(limits.processors, 0);
  EXPECT_GT(limits.memory, 0u);
#if defined(_WIN32)
  EXPECT_GT(limits.available, 0u);
  EXPECT_EQ(processors::memory("no such folder").physical, os::installed_memory());
  EXPECT_EQ(processors::memory("no such folder").total, std::min<uint64_t>(os::installed_memory(), limits.memory));
#else
  EXPECT_EQ(limits.available, 0u);
#endif
}

TEST(Os, PresentPages) {
  const size_t page = os::page_size(), bytes = 64 * page;
  auto* pages = static_cast<char*>(os::map_pages(bytes));
  ASSERT_NE(pages, nullptr);
  EXPECT_EQ(os::present_bytes(pages, bytes), 0u);
  pages[0] = pages[5 * page] = 1;
  EXPECT_EQ(os::present_bytes(pages, bytes), 2 * page);
  os::unmap(pages, bytes);
}

}  // namespace
}  // namespace ocl
