// Losses of probabilities refuse numbers outside [0, 1].
#pragma once

#include "ops/core/context.h"
#include "ops/core/device_errors.h"

namespace ocl::ops {

// x: n dense elements of a floating type. An element outside [0, 1], or NaN, is reported by check_device_errors() as
// `site` says.
void check_unit_range(Queue& queue, DType dtype, const void* x, int64_t n, const ErrorSite& site);

}  // namespace ocl::ops
