// Layer, RMS and group normalisation of dense row-major tensors, forward and backward.
//   y = (x - mean) * rstd * weight + bias,   rstd = 1 / sqrt(var + eps)     (RMS: mean = 0, var = mean of squares)
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// x is [rows, n]; weight and bias [n] of type `parameter`, null when absent; mean and rstd [rows] in
// compute_type(dtype).
struct LayerNormProblem {
  DType dtype = DType::float32, parameter = DType::float32;
  int64_t rows = 1, n = 1;
  bool rms = false;  // no mean (may be null)
  double eps = 1e-5;
};
void layer_norm_forward(Queue& queue, const LayerNormProblem& problem, const void* x, const void* weight,
                        const void* bias, void* y, void* mean, void* rstd);
// Results may be null when not wanted; y must not overlap x, nor dx its operands.
void layer_norm_backward(Queue& queue, const LayerNormProblem& problem, const void* grad, const void* x,
                         const void* mean, const void* rstd, const void* weight, void* grad_input, void* grad_weight,
                         void* grad_bias);

// x is [batch, channels, inner], channels a multiple of groups; weight and bias [channels]; mean and rstd [batch,
// groups].
struct GroupNormProblem {
  DType dtype = DType::float32, parameter = DType::float32;
  int64_t batch = 1, channels = 1, inner = 1, groups = 1;
  double eps = 1e-5;
};
void group_norm_forward(Queue& queue, const GroupNormProblem& problem, const void* x, const void* weight,
                        const void* bias, void* y, void* mean, void* rstd);
void group_norm_backward(Queue& queue, const GroupNormProblem& problem, const void* grad, const void* x,
                         const void* mean, const void* rstd, const void* weight, void* grad_input, void* grad_weight,
                         void* grad_bias);

}  // namespace ocl::ops
