// Limits of control groups, read from folders that stand for the file system.
#include "base/control_group.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace ocl {
namespace {

namespace fs = std::filesystem;
using control_group::no_limit;

class ControlGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            (std::string("control_group_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_.string() + path).substr(0, (root_.string() + path).rfind('/')));
    std::ofstream(root_.string() + path) << text;
  }
  double processors() const { return control_group::processors(root_.string()); }
  control_group::Memory memory(uint64_t free_swap = 0) const {
    return control_group::memory(root_.string(), free_swap);
  }

  void version_2(const std::string& group, const std::string& mounted = "/") {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
          "30 23 0:26 " +
              mounted + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void version_1(const std::string& group, const std::string& mounted = "/") {
    write("/proc/self/cgroup",
          "9:name=systemd:/\n4:memory:" + group + "\n2:cpu,cpuacct:" + group + "\n3:cpuset:/\n0::/\n");
    write("/proc/self/mountinfo",
          "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
          "32 31 0:29 " +
              mounted +
              " /sys/fs/cgroup/cpu,cpuacct rw shared:5 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
              "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
              "35 31 0:32 " +
              mounted +
              " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }

  fs::path root_;
};

TEST_F(ControlGroup, NothingThere) {
  EXPECT_EQ(processors(), 0);
  EXPECT_EQ(memory().limit, no_limit);
  EXPECT_EQ(memory().available, no_limit);
}

TEST_F(ControlGroup, Version2) {
  version_2("/batch/job 1");
  write("/sys/fs/cgroup/batch/job 1/cpu.max", "150000 100000\n");
  write("/sys/fs/cgroup/batch/job 1/memory.max", "1000000\n");
  write("/sys/fs/cgroup/batch/job 1/memory.current", "600000\n");
  write("/sys/fs/cgroup/batch/job 1/memory.stat",
        "anon 300000\nfile 300000\ninactive_file 200000\nactive_file 50000\n");
  EXPECT_EQ(processors(), 1.5);
  EXPECT_EQ(memory().limit, 1000000u);
  EXPECT_EQ(memory().available, 1000000u - (600000 - 250000));
}

TEST_F(ControlGroup, Version2Unlimited) {
  version_2("/batch");
  write("/sys/fs/cgroup/batch/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/batch/memory.max", "max\n");
  write("/sys/fs/cgroup/batch/memory.current", "600000\n");
  EXPECT_EQ(processors(), 0);
  EXPECT_EQ(memory().limit, no_limit);
  EXPECT_EQ(memory().available, no_limit);
}

TEST_F(ControlGroup, TheTightestOfNestedGroupsCounts) {
  version_2("/a/b/c");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "50000 20000\n");
  write("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.max", "5000\n");
  write("/sys/fs/cgroup/a/b/memory.current", "1000\n");
  write("/sys/fs/cgroup/a/memory.max", "9000\n");
  write("/sys/fs/cgroup/a/memory.current", "8000\n");
  EXPECT_EQ(processors(), 2.5);
  EXPECT_EQ(memory().limit, 5000u);
  EXPECT_EQ(memory().available, 1000u);  // the outer group is nearer to its limit
}

TEST_F(ControlGroup, Version1) {
  version_1("/user/job");
  write("/sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/user/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/user/memory.limit_in_bytes", "70000\n");
  write("/sys/fs/cgroup/memory/user/memory.usage_in_bytes", "30000\n");
  write("/sys/fs/cgroup/memory/user/memory.stat",
        "inactive_file 1\ntotal_inactive_file 7000\ntotal_active_file 3000\nhierarchical_memory_limit 70000\n");
  EXPECT_EQ(processors(), 3);
  EXPECT_EQ(memory().limit, 70000u);
  EXPECT_EQ(memory().available, 50000u);
}

// A container without a namespace for control groups: the paths are the host's, the mount shows its own group.
TEST_F(ControlGroup, MountedInPart) {
  version_1("/docker/1234/inner", "/docker/1234");
  write("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(processors(), 0.5);
  EXPECT_EQ(memory().limit, 4096u);
  version_1("/docker/123", "/docker/1234");  // not below it, though the name begins so: the mount's own group
  EXPECT_EQ(processors(), 0);
  EXPECT_EQ(memory().limit, 4096u);
  version_2("/../../elsewhere");
  write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(processors(), 1);
}

TEST_F(ControlGroup, SwapSpace) {
  version_2("/");
  write("/sys/fs/cgroup/memory.max", "1000\n");
  write("/sys/fs/cgroup/memory.current", "400\n");
  EXPECT_EQ(memory(5000).available, 5600u);
  write("/sys/fs/cgroup/memory.swap.max", "300\n");
  write("/sys/fs/cgroup/memory.swap.current", "100\n");
  EXPECT_EQ(memory(5000).available, 800u);
  EXPECT_EQ(memory(50).available, 650u);
  fs::remove_all(root_);
  version_1("/");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "400\n");
  write("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "1200\n");
  write("/sys/fs/cgroup/memory/memory.memsw.usage_in_bytes", "500\n");
  EXPECT_EQ(memory(5000).available, 700u);
}

TEST_F(ControlGroup, Garbage) {
  version_2("/a");
  for (const char* text : {"", "\n", "quota", "-5 100000", "100000 0", "100000", "0 100000", "nan nan", "max max"}) {
    write("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(processors(), 0) << text;
  }
  for (const char* text : {"", "-1", "lots", "max"}) {
    write("/sys/fs/cgroup/a/memory.max", text);
    EXPECT_EQ(memory().limit, no_limit) << text;
  }
  write("/sys/fs/cgroup/a/memory.max", "1000");
  write("/sys/fs/cgroup/a/memory.current", "5000");  // more than the limit
  write("/sys/fs/cgroup/a/memory.stat", "inactive_file many\n");
  EXPECT_EQ(memory().available, 0u);
  write("/proc/self/cgroup", "no colons\n:\n::\n");
  write("/proc/self/mountinfo", "1 2 3\n - \nx - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(memory().limit, no_limit);
  EXPECT_EQ(processors(), 0);
}

}  // namespace
}  // namespace ocl
