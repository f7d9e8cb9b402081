// CPU devices whose driver has threads of its own, cut into sub-devices by the driver. (Devices whose commands run on
// threads of this process need no sub-devices: their executors have threads of their own.)
#pragma once

#include "base/cpu_parts.h"

#include <CL/cl.h>

#include <string>
#include <vector>

namespace ocl {

// Pure. How many compute units each part gets: in proportion to its processors, at least one; empty: there are fewer
// compute units than parts.
std::vector<cl_device_partition_property> sub_device_sizes(unsigned compute_units,
                                                           const std::vector<cpu_parts::Part>& parts);

// One sub-device for each of the parts; they live as long as the process. By NUMA domain where the parts are nodes and
// the driver knows them, otherwise by counts: which processors each gets is then the driver's choice. Empty: it cannot
// be cut so, and `why` says why.
std::vector<cl_device_id> sub_devices(cl_device_id device, const std::vector<cpu_parts::Part>& parts, std::string& why);

}  // namespace ocl
