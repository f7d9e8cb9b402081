// Fractional max pooling: windows of fixed size at positions drawn at random (Graham 2014, "Fractional max-pooling").
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// Dense planes [planes, D, H, W]; two dimensions have depth 1. samples: [planes, axes], numbers of [0, 1) in the
// element type, of which `sample[d]` is that of axis d (-1: the axis is not pooled).
struct FractionalPoolProblem {
  DType dtype = DType::float32;
  int64_t planes = 0;
  std::array<int32_t, 3> input{1, 1, 1}, output{1, 1, 1}, kernel{1, 1, 1}, sample{-1, -1, -1};
  int32_t axes = 2;
};

// y = greatest element of each window, index = its place in the plane (the last NaN, else the first greatest). Errors:
// InvalidArgument for types that are not floating.
void fractional_max_pool(Queue& queue, const FractionalPoolProblem& problem, const void* x, const void* samples,
                         void* y, void* index);

}  // namespace ocl::ops
