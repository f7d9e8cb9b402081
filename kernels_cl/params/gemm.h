// Matrix products: c = activation(alpha * a b + beta * d).
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum {
  columns_of_task = 12,    // gemm_columns
  columns_packed = 256,    // steps of k that a task of its packing takes
  skinny_small = 32,       // gemm_dot and gemm_rows: rows; gemm_outer: k, at most
  skinny_outer_rows = 32,  // gemm_outer: rows of a task
  skinny_columns = 6       // gemm_dot: columns at a time
};

// Strides in elements; b strides are (batch, k, n).
typedef struct {
  int64_t m, n, k;
  int64_t a_batch, a_row, a_column;
  int64_t b_batch, b_row, b_column;
  int64_t c_batch, c_row, c_column;
  int64_t d_batch, d_row, d_column;
  int32_t add;         // beta != 0: d is read
  int32_t activation;  // 0 none, 1 relu, 2 gelu
} GemmArguments;
PARAMS_LAYOUT(GemmArguments, 128);

typedef struct {
  int64_t carry_batch, carry_row;  // strides of carry, columns are contiguous
  int32_t mc, nc, kc, block;       // sizes of tiles, slabs and blocks of rows of this launch
  int32_t a_mode, b_mode;
  int32_t dense;  // c's columns are contiguous
  int32_t batch;
  int32_t direct;  // a is read where it lies: elements along k are neighbours and of the compute type
  int32_t unused;
} PanelPlan;
PARAMS_LAYOUT(PanelPlan, 56);

// Slices of k, and where the matrices of a batch begin.
typedef struct {
  int64_t slice;                      // steps of k of one slice, a multiple of a slab
  int64_t batch;                      // number of matrices
  int64_t inner;                      // matrices between which lie the batch strides
  int64_t a_outer, b_outer, c_outer;  // strides from one such row of matrices to the next
  int32_t slices;
  int32_t a_mode, b_mode;  // 0: neighbouring work-items read along m (n); otherwise along k
  int32_t b_group;         // so many neighbouring matrices of a row share one b
} SlicePlan;
PARAMS_LAYOUT(SlicePlan, 64);

typedef struct {
  int64_t slice;      // steps of k of one slice
  int64_t batch;      // number of matrices
  int32_t slices;     // more than 1: sums go to partial[slice][batch][m][n]
  int32_t columns;    // of one task
  int32_t streaming;  // outer: c is aligned and large
  int32_t unused;
} SkinnyPlan;
PARAMS_LAYOUT(SkinnyPlan, 32);

PARAMS_END
