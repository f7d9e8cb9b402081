// Inclusive scans along one dimension of a strided tensor.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

enum class Scan : uint8_t {
  cumsum,  // float32 carries in float64 where the device has it
  cumprod,
  logcumsumexp,  // real floating types
  cummax,        // values and indices; of equal values the last index; NaN propagates
  cummin,
};

// y[.., i, ..] = op over x[.., 0..i, ..] along `dim`. x, y and index have the same sizes and free strides; y may be x.
// index (int64) is written by cummax and cummin only.
// Errors: InvalidArgument for sizes that differ or complex input of logcumsumexp, cummax, cummin.
void scan(Queue& queue, Scan op, const TensorView& x, int dim, const TensorView& y, const TensorView& index = {});

}  // namespace ocl::ops
