// The devices that this process sees: found in all platforms, ordered, cut into parts, chosen by
// TORCH_OCL_VISIBLE_DEVICES.
#pragma once

#include "base/cpu_parts.h"
#include "opencl/executor.h"

#include <string>
#include <vector>

namespace ocl {

struct FoundDevice {
  cl_platform_id platform;
  cl_device_id id;
  std::string label;  // platform name and version ("OpenCL 3.0 PoCL 3.1"), device name
  bool gpu;
  HostDriver host_driver;
  bool familiar;  // see Device
  const cpu_parts::Part* part = nullptr;
};

// Errors: ocl::Error where the loader or a platform fails. `problems`: what could not be used, a line each.
std::vector<FoundDevice> find_devices(std::vector<std::string>& problems);

}  // namespace ocl
