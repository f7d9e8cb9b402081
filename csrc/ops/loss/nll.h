// Negative log likelihood: l = -weight[t] * input[n, t, p] for target t = target[n, p]; classes are dimension 1.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// The numbers are at::Reduction's.
enum class LossReduction : int8_t { none = 0, mean = 1, sum = 2 };

// input [N, C, P] with strides in elements; target int64 [N, P] dense; weight [C] dense or null. An element whose
// target is ignore_index counts as 0; a target that is no class gives NaN and an error at the next synchronisation
// (core/device_errors.h); nothing outside the input is read.
struct NllProblem {
  DType dtype = DType::float32;
  int64_t batch = 1, classes = 1, inner = 1;
  int64_t batch_stride = 1, class_stride = 1, inner_stride = 1;
  int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::mean;
};

// output [N, P] dense, or one element: the sum, or the sum divided by the sum of weights (NaN without elements).
// total_weight: one element, the sum of weights; 0 without reduction.
void nll_forward(Queue& queue, const NllProblem& problem, const void* input, const void* target, const void* weight,
                 void* output, void* total_weight);

// dx, dense [N, C, P], written in full. grad: one element, or [N, P] dense without reduction.
void nll_backward(Queue& queue, const NllProblem& problem, const void* grad, const void* target, const void* weight,
                  const void* total_weight, void* dx);

}  // namespace ocl::ops
