// Batch normalisation over all dimensions but the channels (dimension 1):
//   y = (x - mean) * invstd * weight + bias,   invstd = 1 / sqrt(var + eps)
// x is [N, C, *]. Layouts: the inner dimensions collapse to one (unit stride: channels first; or the channels have unit
// stride and everything else one pitch: channels last). Statistics come from the batch (training) or from the running
// statistics.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// Whether the kernels take these strides; if not, make the tensor contiguous.
bool batch_norm_takes(const TensorView& x);

// Absent tensors have data == nullptr. weight, bias: [C], one dtype; running statistics: [C], one dtype; saved
// statistics: [C] in compute_type(x.dtype), written in training only. y must not overlap x.
struct BatchNormForward {
  TensorView x, y, weight{}, bias{}, running_mean{}, running_var{}, save_mean{}, save_invstd{};
  bool training = false;
  double momentum = 0.1, eps = 1e-5;
  bool relu = false;  // y = max(y, 0) in the same pass
};
void batch_norm_forward(Queue& queue, const BatchNormForward& arguments);

// Gradients that are absent are not computed. In training save_* are those of the forward pass; otherwise the running
// statistics count as constants. grad_input must not overlap x or grad.
struct BatchNormBackward {
  TensorView grad, x, weight{}, running_mean{}, running_var{}, save_mean{}, save_invstd{};
  TensorView grad_input{}, grad_weight{}, grad_bias{};
  bool training = false;
  double eps = 1e-5;
};
void batch_norm_backward(Queue& queue, const BatchNormBackward& arguments);

}  // namespace ocl::ops
