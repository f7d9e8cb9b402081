// Counting elements by bin.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// counts[b] = number of x in bin b of `bins` equal bins of [low, high], the upper end belonging to the last bin; others
// and NaN are not counted. x: row-major, real; counts: row-major, any real type. Whole numbers are binned by whole
// arithmetic, low and high cut to integers.
void histogram(Queue& queue, const TensorView& x, double low, double high, const TensorView& counts);

// counts[v] = number of elements equal to v, or the sum of their weights (row-major like x, float32 or float64, data
// may be null). x: row-major integers in [0, counts.numel()). Deterministic: weights are added in the order of x within
// fixed chunks.
void bin_count(Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& counts);

}  // namespace ocl::ops
