#include "opencl/launch.h"

#include "opencl/environment.h"
#include "opencl/host_launch.h"

namespace ocl::detail {

Location locate_for(Kernel& kernel, unsigned index, const void* address) {
  if (!address) return {};
  const Location location = find_location(address);
  if (location.device == &kernel.device()) [[likely]]
    return location;
  // The texts users know from CUDA; the argument says which tensor when an operator did not check by itself.
  const std::string here = "ocl:" + std::to_string(kernel.device().index());
  const std::string there = location.device ? "ocl:" + std::to_string(location.device->index()) : "cpu";
  throw std::invalid_argument("Expected all tensors to be on the same device, but found at least two devices, " + here + " and " + there +
                              "! (argument " + std::to_string(index) + " of the OpenCL kernel " + kernel.name() + ")");
}

void set_argument(Kernel& kernel, unsigned index, size_t bytes, const void* value) {
  cl_int code = clSetKernelArg(kernel.handle(), index, bytes, value);
  if (code != CL_SUCCESS) [[unlikely]]
    throw_error(code, ("clSetKernelArg(" + kernel.name() + ", " + std::to_string(index) + ")").c_str());
}

void set_address(Kernel& kernel, unsigned index, const void* address) {
  cl_int code = clSetKernelArgSVMPointer(kernel.handle(), index, address);
  if (code != CL_SUCCESS) [[unlikely]]
    throw_error(code, ("clSetKernelArgSVMPointer(" + kernel.name() + ", " + std::to_string(index) + ")").c_str());
}

void set_buffer(Kernel& kernel, unsigned index, const void* address, const Location& location) {
  if (location.buffer && kernel.device().takes_addresses())
    set_address(kernel, index, static_cast<const char*>(address) - location.offset);
  else
    set_argument(kernel, index, sizeof(cl_mem), location.buffer ? &location.buffer : nullptr);
}

void enqueue(Queue& queue, Kernel& kernel, const Range& global, const Range& local) {
  static const bool synchronous = environment::flag("TORCH_OCL_SYNC");
  queue.command({Command::Kind::kernel, kernel.name().c_str()}, "clEnqueueNDRangeKernel", [&](cl_event* event) {
    if (HostLaunch* host = queue.device().host_launch()) return host->run(queue.handle(), kernel, global, local);
    return clEnqueueNDRangeKernel(queue.handle(), kernel.handle(), global.dimensions, nullptr, global.size.data(),
                                  local.dimensions ? local.size.data() : nullptr, 0, nullptr, event);
  });
  if (synchronous) queue.finish();
}

}  // namespace ocl::detail
