#include "opencl/launch.h"

#include "opencl/environment.h"

#include <atomic>

namespace ocl {

static std::atomic<LaunchObserver> launch_observer{nullptr};

void set_launch_observer(LaunchObserver observer) { launch_observer.store(observer); }

namespace detail {

void set_argument(Kernel& kernel, unsigned index, size_t bytes, const void* value) {
  cl_int code = clSetKernelArg(kernel.handle(), index, bytes, value);
  if (code != CL_SUCCESS) [[unlikely]]
    throw_error(code, ("clSetKernelArg(" + kernel.name() + ", " + std::to_string(index) + ")").c_str());
}

void enqueue(Queue& queue, Kernel& kernel, const Range& global, const Range& local) {
  static const bool synchronous = environment::flag("TORCH_OCL_SYNC");
  LaunchObserver observer = launch_observer.load(std::memory_order_relaxed);
  cl_event event = nullptr;
  cl_int code = clEnqueueNDRangeKernel(queue.handle(), kernel.handle(), global.dimensions, nullptr, global.size.data(),
                                       local.dimensions ? local.size.data() : nullptr, 0, nullptr, observer ? &event : nullptr);
  if (code != CL_SUCCESS) [[unlikely]]
    throw_error(code, ("clEnqueueNDRangeKernel(" + kernel.name() + ")").c_str());
  if (observer) observer(queue, kernel, event);
  if (synchronous) queue.finish();
  else queue.issued();
}

}  // namespace detail
}  // namespace ocl
