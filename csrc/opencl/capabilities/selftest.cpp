#include "opencl/capabilities/selftest.h"

#include "opencl/device.h"

#include <chrono>

namespace ocl {

std::optional<double> run_selftest(Device& device, const char* file, const char* name, const Defines& defines,
                                   Range range, void* data, size_t bytes, Range local) {
  cl_int code = CL_SUCCESS;
  cl_mem buffer = clCreateBuffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, data, &code);
  if (code != CL_SUCCESS) return std::nullopt;
  std::optional<double> seconds;
  try {
    Kernel& kernel = get_kernel(device, file, name, defines, BuildTime::at_once);  // its time is not the kernel's
    const cl_ulong offset = 0;
    Arguments arguments(kernel);
    arguments.add_value(&buffer, sizeof(cl_mem));
    arguments.add(offset);
    Queue& queue = device.default_queue();
    queue.finish();
    const auto begin = std::chrono::steady_clock::now();
    enqueue(queue, arguments, range, local);
    queue.finish();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (clEnqueueReadBuffer(queue.handle(), buffer, CL_TRUE, 0, bytes, data, 0, nullptr, nullptr) == CL_SUCCESS)
      seconds = passed.count();
  } catch (const DriverError&) {
    seconds.reset();
  }
  clReleaseMemObject(buffer);
  return seconds;
}

}  // namespace ocl
