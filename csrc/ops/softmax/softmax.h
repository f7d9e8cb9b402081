// softmax and log_softmax over one dimension of a dense row-major tensor, seen as [outer, n, inner]; forward and
// backward.
//   softmax: y = exp(x - max) / sum exp(x - max)      log: y = x - max - log sum exp(x - max)
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

struct SoftmaxProblem {
  int64_t outer = 1, n = 1, inner = 1;
  DType input = DType::float32;   // x and its gradient
  DType output = DType::float32;  // y and its gradient; input half types may give float32
  bool log = false;
};
// [outer, n, inner] of dimension dim (may be negative; a scalar is [1, 1, 1]).
SoftmaxProblem softmax_problem(const TensorView& x, int64_t dim, DType output, bool log);

void softmax_forward(Queue& queue, const SoftmaxProblem& problem, const void* x, void* y);
// dx from the gradient of y and y itself.
void softmax_backward(Queue& queue, const SoftmaxProblem& problem, const void* grad, const void* y, void* dx);

// y[outer, inner] = log(sum exp(x)) over n; float32 or float64 in and out. `log` has no meaning here.
void logsumexp(Queue& queue, const SoftmaxProblem& problem, const void* x, void* y);
// Whether that uses the device well. A few long sums do not: several launches that share out each sum are faster.
bool prefers_logsumexp(const Device& device, const SoftmaxProblem& problem);

}  // namespace ocl::ops
