// Kernels that tell the processor which memory they will read soon (PREFETCH_FIRST, PREFETCH_SECOND in
// kernels_cl/common/memory.clh).
#pragma once

#include "opencl/program/program.h"

namespace ocl {

class Device;

// Whether the device is CPU and its compiler knows the hint: a probe (probes.h).
bool has_prefetch(const Device& device);
bool may_have_prefetch(const Device& device);
bool prefetches(Device& device);  // tries it in this process

// PREFETCH: 1 where the hints do something.
Defines& add_prefetch_define(Defines& defines, const Device& device);

}  // namespace ocl
