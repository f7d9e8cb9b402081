// Resampling of bytes in two dimensions as PyTorch's CPU does it: 16-bit weights, one axis after the other, rounded
// after each.
#pragma once

#include "ops/upsample/upsample.h"

#include <vector>

namespace ocl::ops {

// How an axis is resampled: y[o] = (sum over t of weight[o * taps + t] x[first[o] + t] + 2^(precision-1)) >> precision,
// cut to a byte. Weights that are not used are 0; first[o] + t stays inside for those that are.
struct ByteTable {
  int32_t taps = 1, precision = 0;
  std::vector<int32_t> first;
  std::vector<int16_t> weight;
};

// Pure. axis: of `problem` (D, H, W); linear and cubic modes, with and without antialiasing, and Lanczos.
ByteTable byte_table(const UpsampleProblem& problem, int axis);

// y = x resampled along H and W; an axis that keeps its size stays as it is. uint8.
void upsample_bytes(Queue& queue, const UpsampleProblem& problem, const void* x, void* y);

}  // namespace ocl::ops
