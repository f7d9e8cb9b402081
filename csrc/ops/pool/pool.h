// Maximum and average pooling in 1 to 3 dimensions, fixed and adaptive windows, forward and backward.
//   fixed:    output o covers input positions o * stride - padding + k * dilation, k < kernel, that lie inside the
//   input adaptive: output o covers [floor(o * in / out), ceil((o + 1) * in / out))
// Tensors are dense [N, C, D, H, W], row-major or channels last (all of a call alike); floating types.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

enum class PoolKind { max, average };

struct PoolProblem {
  PoolKind kind = PoolKind::max;
  DType dtype = DType::float32;
  bool adaptive = false, channels_last = false;
  int64_t batch = 1, channels = 1;
  // (D, H, W); unused leading axes are 1 (padding 0).
  std::array<int64_t, 3> input{1, 1, 1}, output{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
  bool count_include_pad = true;  // average: padding counts in the divisor
  int64_t divisor = 0;            // average: divisor instead of the window's size; 0: none
};

// index (int64, may be null only for averages) holds the position of the maximum in its input plane. A NaN wins: the
// last of the window; of equal values the first.
void pool_forward(Queue& queue, const PoolProblem& problem, const void* x, void* y, void* index);
// dx is written in full. index as left by the forward pass.
void pool_backward(Queue& queue, const PoolProblem& problem, const void* grad, const void* index, void* dx);

}  // namespace ocl::ops
