// Copies that change the order of dimensions in memory: transposes, permutes, N C pixels to N pixels C and back.
#pragma once

#include "ops/core/context.h"

#include <span>

namespace ocl::ops {

// One dimension of a copy; strides in elements.
struct PermuteDimension {
  int64_t size, from, to;
};

// to[sum of index * to] = from[sum of index * from] for bit patterns of `element_bytes` (1, 2, 4, 8 or 16); the two do
// not overlap. Returns false, having done nothing, unless some dimension has stride 1 in `to` and another one has
// stride 1 in `from`, or on CPU devices the same one 1 or -1 (what remains are few long runs, gathers and broadcasts),
// or when there are more than 8 dimensions.
bool permute(Queue& queue, size_t element_bytes, const void* from, void* to,
             std::span<const PermuteDimension> dimensions);

// y[n, j, i] = x[n, i, j]; x is [batch, rows, columns].
void transpose_planes(Queue& queue, size_t element_bytes, int64_t batch, int64_t rows, int64_t columns, const void* x,
                      void* y);

}  // namespace ocl::ops
