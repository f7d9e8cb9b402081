// Products on tensor cores with more freedom than a gemm problem has; only where target.tensor_cores()
// (opencl/capabilities/tensor_cores.h).
#pragma once

#include "ops/gemm/gemm.h"

namespace ocl::ops {

// Rows and columns of the result that a group computes.
struct ProductTile {
  int m, n;
};

// Large tiles need fewer bytes for a product; smaller ones while large ones would leave units without work or be half
// empty. `layers`: results of rows x columns; `medium`: between 128 x 128 and 64 x 64.
ProductTile choose_product_tile(int64_t rows, int64_t columns, int64_t layers, const PlanTarget& target,
                                ProductTile medium);

// The matrices of a batch in rows of `inner`: matrix i of row r begins at r * a_outer + i * a[0] (a and c), r * b_outer
// + i / b_group * b[0] (b).
struct MatrixRows {
  int64_t inner, a_outer, b_outer, c_outer, b_group = 1;
};

// As gemm(), for float32 and the half types; c and d are of dtype `out`: the operands' or float32.
void multiply_rows_of_matrices(Queue& queue, const GemmProblem& p, const GemmOperands& o, const MatrixRows& rows,
                               DType out);

}  // namespace ocl::ops
