#include "opencl/sub_devices.h"

#include "opencl/error.h"

#include <algorithm>

namespace ocl {

std::vector<cl_device_partition_property> sub_device_sizes(unsigned compute_units,
                                                           const std::vector<cpu_parts::Part>& parts) {
  if (compute_units < parts.size()) return {};
  size_t all = 0, before = 0;
  for (const auto& part : parts) all += std::max<size_t>(1, part.processors.size());
  std::vector<cl_device_partition_property> sizes;
  size_t used = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    before += std::max<size_t>(1, parts[i].processors.size());
    // One is left for each of the parts behind this one.
    const size_t end = std::clamp(compute_units * before / all, used + 1, compute_units - (parts.size() - 1 - i));
    sizes.push_back(static_cast<cl_device_partition_property>(end - used));
    used = end;
  }
  return sizes;
}

static std::vector<cl_device_id> create(cl_device_id device, const std::vector<cl_device_partition_property>& how,
                                        size_t wanted, cl_int& code) {
  std::vector<cl_device_id> result(wanted);
  cl_uint count = 0;
  code = clCreateSubDevices(device, how.data(), 0, nullptr, &count);
  if (code != CL_SUCCESS || count != wanted) return {};
  code = clCreateSubDevices(device, how.data(), count, result.data(), nullptr);
  return code == CL_SUCCESS ? result : std::vector<cl_device_id>();
}

std::vector<cl_device_id> sub_devices(cl_device_id device, const std::vector<cpu_parts::Part>& parts,
                                      std::string& why) {
  cl_int code = CL_SUCCESS;
  if (parts.front().node >= 0) {
    auto result =
        create(device, {CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN, CL_DEVICE_AFFINITY_DOMAIN_NUMA, 0}, parts.size(), code);
    if (!result.empty()) return result;
  }
  cl_uint units = 0;
  check(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, nullptr), "clGetDeviceInfo");
  const auto sizes = sub_device_sizes(units, parts);
  if (sizes.empty()) {
    why = "it has " + std::to_string(units) + " compute units";
    return {};
  }
  std::vector<cl_device_partition_property> how;
  if (std::all_of(sizes.begin(), sizes.end(), [&](auto each) { return each * sizes.size() == units; })) {
    how = {CL_DEVICE_PARTITION_EQUALLY, sizes.front(), 0};
  } else {
    how = {CL_DEVICE_PARTITION_BY_COUNTS};
    how.insert(how.end(), sizes.begin(), sizes.end());
    how.insert(how.end(), {CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0});
  }
  auto result = create(device, how, parts.size(), code);
  if (result.empty()) why = std::string("clCreateSubDevices: ") + error_name(code);
  return result;
}

}  // namespace ocl
