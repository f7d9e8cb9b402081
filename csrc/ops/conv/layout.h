// Changes the memory order of a convolution operand between N C pixels and N pixels C.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// y[n, j, i] = x[n, i, j]; x is [batch, rows, columns], elements of `element_bytes` (1, 2, 4 or 8).
void transpose_planes(Queue& queue, size_t element_bytes, int64_t batch, int64_t rows, int64_t columns, const void* x, void* y);

}  // namespace ocl::ops
