// Kernels that are called as functions instead of enqueued.
#include "cpu/cpu_executor.h"
#include "cpu/kernel_function.h"

#include "opencl/memory/caching_allocator.h"
#include "base/environment.h"
#include "opencl/launch.h"
#include "opencl/program/entry_points.h"
#include "base/os.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

using namespace ocl;

// Whether kernels can be called is tested in this process alone, whatever another one has found.
static const bool tested_here = [] {
  if (!std::getenv("TORCH_OCL_CALL_KERNELS")) os::set_environment("TORCH_OCL_CALL_KERNELS", "1");
  return true;
}();

namespace {

struct Pair {
  int32_t a;
  float b[7];
};

Kernel& add_groups() { return get_kernel(Device::get(0), "selftest/function.cpu.cl", "add_groups", Defines()); }

void issue(void* y, int64_t n, const Range& global, const Range& local) {
  launch(Device::get(0).default_queue(), add_groups(), global, local, y, n, Pair{2, {0, 0, 0, 0, 0, 0, 0.5f}}, 0.25f,
         LocalMemory{64});
}

}  // namespace

TEST(KernelFunction, OfMarkedKernelsIsWritten) {
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != text.npos; };
  const EntryPoints none = write_entry_points("kernel void f(global int* x) {}", HostDriver::basic);
  EXPECT_FALSE(none.functions);
  const EntryPoints called = write_entry_points(
      "CPU_KERNEL void f(global int* x, local float* restrict m, const Pair p) {\n  local int n[16];\n}\n",
      HostDriver::basic);
  EXPECT_TRUE(called.functions);
  const std::string& text = called.source;
  EXPECT_FALSE(has(text, "CPU_KERNEL"));
  EXPECT_TRUE(has(text,
                  "static inline void f_group(HostGroup host_group, __global int *x_buffer, ulong x_offset, "
                  "ulong m_bytes, const Pair p);\n"));
  EXPECT_TRUE(has(text, "f_group(group, x_buffer, x_offset, m_bytes, p);"));
  EXPECT_TRUE(has(text, "f_address(__global ulong* out)"));
  EXPECT_TRUE(has(text, "__local float* restrict m = CALLABLE_MEMORY(float, m_bytes);"));
  EXPECT_TRUE(has(text, "__local int* n = CALLABLE_MEMORY(int, sizeof(int) * (16));"));
}

TEST(KernelFunction, EveryGroupOnce) {
  ASSERT_TRUE(tested_here);
  Device& device = Device::get(0);
  for (const std::array<size_t, 3> groups :
       {std::array<size_t, 3>{1, 1, 1}, {1000, 1, 1}, {3, 5, 7}, {2, 1, 129}, {70, 3, 1}}) {
    const size_t count = groups[0] * groups[1] * groups[2];
    std::vector<float> host(16 * count + 16);
    std::iota(host.begin(), host.end(), 0.0f);
    Workspace memory(device.default_queue(), host.size() * sizeof(float));
    device.default_queue().write(memory.data(), host.data(), host.size() * sizeof(float));
    issue(memory.data(), static_cast<int64_t>(16 * count), {groups[0], groups[1], groups[2]}, {1, 1, 1});
    std::vector<float> result(host.size());
    device.default_queue().read(result.data(), memory.data(), host.size() * sizeof(float));
    for (size_t i = 0; i < host.size(); ++i)
      ASSERT_EQ(result[i],
                host[i] + (i < 16 * count ? static_cast<float>(i / 16) * 2 + 0.5f + 0.25f * static_cast<float>(i % 16)
                                          : 0.0f))
          << i;
  }
}

TEST(KernelFunction, IsFoundWhereTheDeviceCallsKernels) {
  Device& device = Device::get(0);
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__linux__)
  const bool runs_here = device.executor() != nullptr;
  EXPECT_EQ(device.calls_kernels(), runs_here && device.cpu_style() && device.takes_addresses() &&
                                        environment::word("TORCH_OCL_CALL_KERNELS", "") == "1");
#endif
  if (!device.calls_kernels()) GTEST_SKIP() << "the device's kernels are enqueued";
  Workspace memory(device.default_queue(), 64);
  issue(memory.data(), 0, 1, 1);
  device.default_queue().finish();
  EXPECT_NE(CpuExecutor::function_of(add_groups()), nullptr);
}

TEST(KernelFunction, GroupsAreOfOneWorkItem) {
  Device& device = Device::get(0);
  if (!device.calls_kernels()) GTEST_SKIP() << "the driver checks groups";
  Workspace memory(device.default_queue(), 64);
  const auto launch_four = [&] {
    issue(memory.data(), 0, 8, 4);
    device.default_queue().finish();
  };
  EXPECT_THROW(launch_four(), DriverError);
  device.default_queue().finish();
}

TEST(KernelFunction, MemoryOfAThread) {
  char* memory = static_cast<char*>(kernel_function::thread_memory(1000));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  EXPECT_EQ(kernel_function::thread_memory(1000), memory);
  void* other = memory;
  std::thread([&] { other = kernel_function::thread_memory(1000); }).join();
  EXPECT_NE(other, memory);
  const size_t more = size_t{8} << 20;
  memory = static_cast<char*>(kernel_function::thread_memory(more));
  ASSERT_NE(memory, nullptr);
  memory[0] = memory[more - 1] = 1;
  EXPECT_EQ(kernel_function::thread_memory(1000), memory);
}

// The process's handler of bad addresses; Windows has none of this kind.
static auto fault_handler() {
#if defined(_WIN32)
  return nullptr;
#else
  struct sigaction now;
  sigaction(SIGSEGV, nullptr, &now);
  return now.sa_handler;
#endif
}

TEST(KernelFunction, FaultsOfCodeThatIsTriedAreSurvived) {
  const auto before = fault_handler();
  int calls = 0;
  EXPECT_TRUE(os::survives([](void* count) { ++*static_cast<int*>(count); }, &calls));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(os::survives([](void* address) { *static_cast<volatile int*>(address) = 1; }, nullptr));
  EXPECT_FALSE(os::survives([](void*) { __builtin_trap(); }, nullptr));
  EXPECT_EQ(fault_handler(), before);
}

// Handlers belong to the process: the second thread must not take the first one's for what was there before.
TEST(KernelFunction, FaultsOfTwoThreadsAreSurvived) {
  const auto before = fault_handler();
  std::atomic<int> survived{0};
  const auto fault_often = [&] {
    for (int i = 0; i < 2000; ++i)
      survived += os::survives([](void* address) { *static_cast<volatile int*>(address) = 1; }, nullptr);
  };
  std::thread other(fault_often);
  fault_often();
  other.join();
  EXPECT_EQ(survived, 0);
  EXPECT_EQ(fault_handler(), before);
}

// Only code of a library can be kept where it is.
TEST(KernelFunction, CodeThatStaysLoaded) {
  EXPECT_TRUE(os::keep_loaded(reinterpret_cast<const void*>(&clGetPlatformIDs)));
  void* pages = os::map_pages(os::page_size());
  ASSERT_NE(pages, nullptr);
  EXPECT_FALSE(os::keep_loaded(pages));
  os::unmap(pages, os::page_size());
}

TEST(KernelFunction, ArgumentsBehindEachOther) {
  Arguments arguments(add_groups());
  arguments.add(int32_t{7});
  arguments.add(Pair{1, {2}});
  arguments.add(double{3});
  std::vector<std::array<char, 3000>> large(1);
  large[0].fill('x');
  arguments.add(large[0]);
  arguments.add(int64_t{9});
  arguments.add(LocalMemory{100'000});
  arguments.add(static_cast<const void*>(nullptr));  // no buffer, and the offset of absent tensors
  arguments.add(int32_t{5});
  kernel_function::PackedArguments packed;
  const char* at = static_cast<const char*>(packed.pack(arguments.data(), arguments.bytes()));
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(at), 7);
  EXPECT_EQ(reinterpret_cast<const Pair*>(at + 16)->b[0], 2);
  EXPECT_EQ(*reinterpret_cast<const double*>(at + 48), 3);
  EXPECT_EQ(at[64 + 2999], 'x');
  at += 64 + 3008;
  EXPECT_EQ(*reinterpret_cast<const int64_t*>(at), 9);
  EXPECT_EQ(*reinterpret_cast<const uint64_t*>(at + 16), uint64_t{100'000});
  EXPECT_EQ(*reinterpret_cast<const uint64_t*>(at + 32), uint64_t{0});
  EXPECT_EQ(*reinterpret_cast<const uint64_t*>(at + 48), Arguments::absent);
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(at + 64), 5);
}
