// Devices that can do less, or have more compute units, than the one that is there, so that every branch of the
// planners and every refusal of a kernel can be run on any machine: TORCH_OCL_SIMULATE="local_memory=32768,fp64=0".
//
//   compute_units=N                  any number of at least 1; the threads that run kernels stay what they are
//   local_memory=B, max_work_group=N bytes and work-items, at most what the device has
//   fp64=0, fp16=0, sub_groups=0, float_atomics=0, int64_atomics=0
//
// A launch that would not fit on the simulated device fails as it would there, and no kernel is compiled with what the
// device lacks.
#pragma once

#include "opencl/capabilities/capabilities.h"

#include <string>
#include <string_view>
#include <vector>

namespace ocl {

class Device;

// What is left of `c` where `text` says so. Each part of the text that cannot be taken adds a line to `problems` and
// changes nothing.
Capabilities simulate(Capabilities c, std::string_view text, std::vector<std::string>& problems);

// The same by TORCH_OCL_SIMULATE; problems are reported once on stderr.
Capabilities simulate_by_environment(Capabilities c);

// Whether TORCH_OCL_SIMULATE is set, so that what drivers would not refuse has to be refused by us.
bool capabilities_simulated();

// The beginning of every program: takes away the macros of what is missing, and the type double.
std::string simulated_source(const Capabilities& c);

// Test hook: while it lives, `device` has the capabilities that `text` leaves of its own. Only compute_units,
// local_memory and max_work_group, which no compiled program depends on. Errors: InvalidArgument with the
// problems of the text. Nothing else may use the device at the beginning and the end.
class SimulatedCapabilities {
 public:
  SimulatedCapabilities(Device& device, std::string_view text);
  ~SimulatedCapabilities();
  SimulatedCapabilities(const SimulatedCapabilities&) = delete;

 private:
  Device& device_;
  Capabilities real_;
};

}  // namespace ocl
