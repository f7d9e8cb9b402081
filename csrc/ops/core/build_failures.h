// Algorithms whose program a driver did not build: the next one of the list takes their problems from then on.
#pragma once

#include "ops/core/dtype.h"

namespace ocl {
class Device;
}

namespace ocl::ops::build_failures {

// nullptr, or the reason for which `algorithm` (the address of its row) is left out for problems of this type. Costs
// one load while nothing has failed.
const char* reason(const void* algorithm, DType dtype, const Device& device);

// From now on there is a reason. `error`: the BuildError's text, told to the user once.
void add(const void* algorithm, const char* name, DType dtype, const Device& device, const char* error);

}  // namespace ocl::ops::build_failures
