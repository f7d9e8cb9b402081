// What a control group allows limits devices that use the host's memory: there is an error before the system ends the
// process. In processes of their own, because a device asks once how much memory there is.
#include "base/processors.h"
#include "opencl/memory/caching_allocator.h"
#include "opencl/memory/out_of_memory.h"
#include "support.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace ocl {
namespace {

using testing::device;
using testing::queue;

constexpr size_t MiB = size_t{1} << 20;

// How a process of a test ended; 77: its memory is not the host's.
bool ended_well(int status) {
#if !defined(_WIN32)
  if (!WIFEXITED(status)) return false;
  status = WEXITSTATUS(status);
#endif
  return status == 0 || status == 77;
}

class MemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
    root_ = ::testing::TempDir() + "memory_limit_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    write("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 16000000 kB\nSwapFree: 0 kB\n");
    write("/proc/self/cgroup", "0::/\n");
    write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("/sys/fs/cgroup/memory.max", std::to_string(512 * MiB));
    write("/sys/fs/cgroup/memory.current", std::to_string(100 * MiB));
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text;
  }
  bool allocates(size_t bytes) {
    try {
      return device().allocator().allocate(bytes, queue());
    } catch (const OutOfMemory& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return false;
    }
  }
  // Ends the process with 77 where the memory is not the host's.
  void begin() {
    processors::set_root(root_);
    if (!device().capabilities().is_cpu) std::exit(77);
  }
  std::string root_;
};

#define EXPECT_IN_OWN_PROCESS(statement) EXPECT_EXIT(begin(); std::exit((statement) ? 0 : 1), ended_well, "")

TEST_F(MemoryLimit, IsTheDevicesMemory) {
  EXPECT_IN_OWN_PROCESS(device().capabilities().global_memory == 512 * MiB &&
                        device().capabilities().max_allocation <= 512 * MiB);
}

TEST_F(MemoryLimit, MoreThanIsLeftIsAnError) { EXPECT_IN_OWN_PROCESS(!allocates(450 * MiB) && allocates(200 * MiB)); }

// Pages count for the group only when they are written: what was promised and not written yet is counted here.
TEST_F(MemoryLimit, WhatIsNotWrittenYetCounts) {
  EXPECT_IN_OWN_PROCESS(allocates(150 * MiB) && allocates(150 * MiB) && !allocates(150 * MiB));
}

TEST_F(MemoryLimit, FreeMemoryIsWhatTheGroupHasLeft) {
  EXPECT_IN_OWN_PROCESS(device().allocator().memory_info() == std::make_pair(412 * MiB, 512 * MiB));
}

}  // namespace
}  // namespace ocl
