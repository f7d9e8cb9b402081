// Kernels on the threads of this process (thread_pool.h): a launch is cut into pieces (launch_grid.h), which its team
// enqueues at the same time, each member on a queue of its own. Kernels cannot tell the pieces from the whole: programs
// of such devices begin with source().
#pragma once

#include "cpu/launch_grid.h"
#include "cpu/thread_pool.h"
#include "opencl/launch.h"
#include "opencl/queue.h"

#include <CL/cl_ext.h>

#include <memory>

namespace ocl {

class CpuExecutor {
 public:
  CpuExecutor(HostDriver driver, cl_context context, cl_device_id device);

  // Of every queue of the device, whoever uses it.
  cl_command_queue_properties queue_properties() const {
    return driver_ == HostDriver::local_thread ? CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL : 0;
  }

  // Issues a launch (command_queue.h). Errors: ocl::Error for ranges that do not fit; those of the arguments and of the
  // execution come with the queue's next finish().
  void issue(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
             const CommandQueue::Joint& joint = {});

  // Executes a launch that does the work of `joined` commands of `queue`, ended on return. Errors as those of issue(),
  // all with the queue's next finish(). From CommandQueue::Joint::run only.
  void run_joined(Queue& queue, const Arguments& arguments, const Range& global, const Range& local, size_t joined);

  // Copies (the ranges may overlap) and fills with whole patterns, ended on return. As commands of the backlog only.
  void copy(void* destination, const void* source, size_t bytes);
  void fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes);
  // Nanoseconds of one thread's time that copying so much takes, as far as it is known.
  float copy_time(size_t bytes) const;

  // Whether the driver may be asked for the binary of a program only after the last launch. PoCL 3.1 then compiles
  // general code for every kernel and, because it is asked twice (for the size as well), never unloads it, which takes
  // from its limited room for loaded code (LoadedKernel in cpu_executor.cpp).
  bool binaries_at_end() const { return driver_ == HostDriver::basic; }

  HostDriver driver() const { return driver_; }
  const char* source() const { return LaunchGrid::source(driver_); }

 private:
  struct Launch;
  Launch launch_of(const Kernel& kernel, const Range& global, const Range& local) const;
  KernelFunction function_of(Kernel& kernel);
  cl_int call(KernelFunction function, const void* data, size_t bytes, const Launch& launch,
              std::atomic<float>& group_time);
  cl_int set_and_run(Queue& queue, Kernel& kernel, const void* data, size_t bytes, const Launch& launch,
                     std::atomic<float>& group_time);
  cl_int run(Kernel& kernel, const Launch& launch, std::atomic<float>& group_time);
  cl_command_queue queue_of(unsigned member);

  HostDriver driver_;
  cl_context context_;
  cl_device_id device_;
  ThreadPool& team_;
  size_t memory_bytes_;  // of kernels that are called, for each thread
  std::unique_ptr<std::atomic<cl_command_queue>[]>
      queues_;  // one per member and for callers without the team, made at first use
  std::atomic<float> copy_time_{0}, fill_time_{0};  // of a block, in nanoseconds
};

}  // namespace ocl
