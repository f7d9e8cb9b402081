// What drivers say of platforms and devices.
#pragma once

#include "opencl/capabilities/capabilities.h"

namespace ocl {

// "" where the driver has no answer.
std::string device_string(cl_device_id id, cl_device_info what);
std::string platform_string(cl_platform_id id, cl_platform_info what);

template <class T>
T device_value(cl_device_id id, cl_device_info what, T fallback = T{}) {
  T value = fallback;
  return clGetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : fallback;
}

Capabilities query_capabilities(cl_platform_id platform, cl_device_id id);

// Whether kernels of this project can run there at all; `why` says why not.
bool usable(cl_device_id id, std::string& why);

}  // namespace ocl
