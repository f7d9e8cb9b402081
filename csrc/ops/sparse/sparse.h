// Products of sparse matrices.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// y = alpha * A x + beta * y. A has m rows in compressed form: rows [m + 1] says where each begins among columns [nnz]
// and values [nnz]; rows and columns are both int32 or both int64, contiguous. x is [k, n] with stride 1 in its
// columns, y [m, n] contiguous. x, y and values have one dtype: float32, float64, float16 or bfloat16. With beta = 0 y
// is not read. Columns are not checked. Errors: InvalidArgument for other types.
void spmm(Queue& queue, const TensorView& rows, const TensorView& columns, const TensorView& values,
          const TensorView& x, const TensorView& y, double alpha, double beta);

}  // namespace ocl::ops
