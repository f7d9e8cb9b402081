// Factorizations and substitutions of batches of matrices, float32 and float64. They are unblocked: callers cut large
// matrices into panels and diagonal blocks and update the rest by matrix products.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// [batch, rows, columns] with strides in elements; a transposed matrix has its strides exchanged.
struct Matrices {
  void* data = nullptr;
  DType dtype = DType::float32;
  int64_t batch = 1, rows = 0, columns = 0;
  int64_t batch_stride = 0, row_stride = 0, column_stride = 0;

  Matrices transposed() const { return {data, dtype, batch, columns, rows, batch_stride, column_stride, row_stride}; }
};

// Errors of all: InvalidArgument for other dtypes. Empty batches and matrices do nothing.

// The lower triangle of a [n, n] becomes L of A = L L^T. info [batch], int32, zero before: first + 1 + the column whose
// pivot is not positive; that matrix is left half done.
void cholesky(Queue& queue, const Matrices& a, int32_t* info, int64_t first = 0);

// a [m, n] becomes L (unit diagonal, below it) and U of A = P L U with partial pivoting (LAPACK's getf2). pivots:
// int32, one row of min(m, n) every pivot_stride elements: 1 + first + the row exchanged with row i. info: first + 1 +
// the first column whose pivot is 0. search false: no pivoting, pivots are 1, 2, 3, ...
void lu(Queue& queue, const Matrices& a, int32_t* pivots, int64_t pivot_stride, int32_t* info, int64_t first = 0,
        bool search = true);

// Exchanges row i with row pivots[i] - 1 for i in [first, last), in order or backwards.
void swap_rows(Queue& queue, const Matrices& a, const int32_t* pivots, int64_t pivot_stride, int64_t first,
               int64_t last, bool backwards = false);

// b := t^-1 b for a triangular t [n, n], of which only the named triangle (without its diagonal when unit) is read.
void solve_triangular(Queue& queue, const Matrices& t, const Matrices& b, bool upper, bool unit);

// permutation [batch, rows] of int64, before the numbers 0, 1, ...: the exchanges pivots [batch, steps] in order.
void unpack_pivots(Queue& queue, const int32_t* pivots, int64_t* permutation, int64_t batch, int64_t steps,
                   int64_t rows);

}  // namespace ocl::ops
