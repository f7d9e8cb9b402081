// Reflection and replication padding of dense [planes, D, H, W]: output o of an axis is input source(o - left), where
// positions outside the input are mirrored at the border elements (reflect: the border itself is not repeated) or
// clamped to them.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

struct PadProblem {
  bool reflect = true;
  DType dtype = DType::float32;  // forward: any type of up to 8 bytes; backward: floating
  int64_t planes = 1;
  std::array<int64_t, 3> input{1, 1, 1}, output{1, 1, 1}, left{0, 0, 0};  // (D, H, W); left may be negative (crops)
};

void pad_forward(Queue& queue, const PadProblem& problem, const void* x, void* y);
void pad_backward(Queue& queue, const PadProblem& problem, const void* grad, void* dx);

}  // namespace ocl::ops
