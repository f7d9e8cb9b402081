#include "opencl/selftest.h"

#include "opencl/device.h"

namespace ocl {

bool run_selftest(Device& device, const char* file, const char* name, const Defines& defines, Range range, void* data, size_t bytes) {
  cl_int code = CL_SUCCESS;
  cl_mem buffer = clCreateBuffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, data, &code);
  if (code != CL_SUCCESS) return false;
  bool ran = false;
  try {
    Kernel& kernel = get_kernel(device, file, name, defines);
    const cl_ulong offset = 0;
    std::lock_guard lock(kernel.mutex());
    detail::set_argument(kernel, 0, sizeof buffer, &buffer);
    detail::set_argument(kernel, 1, sizeof offset, &offset);
    Queue& queue = device.default_queue();
    detail::enqueue(queue, kernel, range, Range(1));
    ran = clEnqueueReadBuffer(queue.handle(), buffer, CL_TRUE, 0, bytes, data, 0, nullptr, nullptr) == CL_SUCCESS;
  } catch (const Error&) {
  }
  clReleaseMemObject(buffer);
  return ran;
}

}  // namespace ocl
