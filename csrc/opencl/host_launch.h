// Kernels on the threads of this process (host_threads.h): a launch is cut along one dimension into pieces, which its team enqueues at
// the same time, each as a launch of its own with a global offset, on a queue of its own. Programs of such devices begin with host_launch_source(), which gives
// the work-item functions of OpenCL C (get_group_id, get_num_groups, get_global_id, get_global_size, get_global_offset) their values of
// the whole launch: kernels cannot tell the pieces.
#pragma once

#include "opencl/host_threads.h"
#include "opencl/launch.h"
#include "opencl/queue.h"

#include <memory>

namespace ocl {

class HostLaunch {
 public:
  HostLaunch(cl_context context, cl_device_id device);

  // Issues a launch (host_backlog.h). Errors: ocl::Error for ranges that do not fit; those of the arguments and of the execution come with the
  // queue's next finish().
  void issue(Queue& queue, const Arguments& arguments, const Range& global, const Range& local);

  // Copies (the ranges may overlap) and fills with whole patterns, ended on return. As commands of the backlog only.
  void copy(void* destination, const void* source, size_t bytes);
  void fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes);
  // Nanoseconds of one thread's time that copying so much takes, as far as it is known.
  float copy_time(size_t bytes) const;

  static const char* source();

 private:
  struct Launch;
  cl_int run(Kernel& kernel, const Launch& launch);
  cl_command_queue queue_of(unsigned member);

  cl_context context_;
  cl_device_id device_;
  HostThreads& team_;
  std::unique_ptr<std::atomic<cl_command_queue>[]> queues_;  // one per member and for callers without the team, made at first use
  std::atomic<float> copy_time_{0}, fill_time_{0};           // of a block, in nanoseconds
};

// To be called before PoCL loads code for itself, `count` pieces of it: general code of the kernels of a program whose binary it is asked
// for. Its room for loaded code is limited, and launches must know what has been unloaded (LoadedKernels in host_launch.cpp).
void note_loaded_code(size_t count);

}  // namespace ocl
