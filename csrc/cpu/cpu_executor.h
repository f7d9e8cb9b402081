// The executor of CPU drivers without threads of their own: a launch is cut into pieces (launch_grid.h), which the
// workers of a thread pool (thread_pool.h) enqueue at the same time, each on a cl_command_queue of its own, or call as
// functions (kernel_function.h). Kernels cannot tell a piece from the whole: programs begin with source().
#pragma once

#include "cpu/command_queue.h"
#include "cpu/kernel_function.h"
#include "cpu/launch_grid.h"
#include "cpu/thread_pool.h"
#include "opencl/executor.h"
#include "opencl/launch.h"
#include "opencl/queue.h"

#include <CL/cl_ext.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace ocl {

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(HostDriver driver, cl_context context, cl_device_id device, ThreadPool& pool, CommandQueue& commands,
              unsigned compute_units, bool part);

  HostDriver driver() const override { return driver_; }
  unsigned workers() const override { return compute_units_; }
  cl_command_queue_properties queue_properties() const override {
    return driver_ == HostDriver::local_thread ? CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL : 0;
  }
  const char* source() const override { return LaunchGrid::source(driver_); }
  const char* function_source() const override { return kernel_function::source(); }
  // When PoCL 3.1 is asked for the binary of a program, it compiles general code for every kernel and, because it is
  // asked twice (for the size as well), never unloads it. That code takes from its limited room for loaded code
  // (LoadedKernel in cpu_executor.cpp).
  bool binaries_at_end() const override { return driver_ == HostDriver::basic; }
  std::unique_ptr<KernelState> new_kernel_state() const override;
  // Found by the kernel's first launch; null when the kernel is enqueued.
  static KernelFunction function_of(const Kernel& kernel);
  // A function that was found elsewhere (cpu/ahead.h), before the first launch.
  static void set_function(const Kernel& kernel, KernelFunction function);
  // Nanoseconds that a group of the kernel takes, from which launches are cut, for tests. Without effect on devices
  // that have no executor.
  static void set_group_time(const Kernel& kernel, float time);

  std::unique_ptr<FunctionTest> start_function_test(Device& device) const override {
    return std::make_unique<kernel_function::Test>(device, driver_);
  }

  void issue(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
             const Fusion& fusion) override;
  void run_fused(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
                 size_t fused) override;

  void copy(void* destination, const void* source, size_t bytes) override;
  void fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) override;
  float copy_time(size_t bytes) const override;

  Ticket submit(float expected, const HostCommand& command, const void* data, size_t bytes,
                const Fusion& fusion) override {
    return commands_.issue(expected, command, data, bytes, fusion);
  }
  bool complete(Ticket ticket) override { return commands_.complete(ticket); }
  void start() override { commands_.start(); }
  void wait(Ticket ticket) override { commands_.wait(ticket); }

 private:
  struct Launch;
  Launch launch_of(const Kernel& kernel, const Range& global, const Range& local) const;
  KernelFunction find_function(Kernel& kernel);
  cl_int call(KernelFunction function, const void* data, size_t bytes, const Launch& launch,
              std::atomic<float>& group_time);
  cl_int set_and_run(Queue& queue, Kernel& kernel, const void* data, size_t bytes, const Launch& launch,
                     std::atomic<float>& group_time);
  cl_int run(Kernel& kernel, const Launch& launch, std::atomic<float>& group_time);
  cl_command_queue queue_of(unsigned worker);
  std::unique_lock<std::mutex> one_part_at_a_time() const;

  HostDriver driver_;
  cl_context context_;
  cl_device_id device_;
  ThreadPool& pool_;
  CommandQueue& commands_;
  bool part_;               // of a CPU (part_executor.h)
  unsigned compute_units_;  // the pool's workers, or one fewer where callers only help
  size_t memory_bytes_;     // per-thread scratch of kernels that are called
  // One per worker and one for callers that run a launch without the pool, made at first use.
  std::unique_ptr<std::atomic<cl_command_queue>[]> queues_;
  std::atomic<float> copy_time_{0}, fill_time_{0};  // of a block, in nanoseconds
};

}  // namespace ocl
