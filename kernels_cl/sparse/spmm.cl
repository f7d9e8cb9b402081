// y = alpha * A x + beta * y: a sparse matrix A of m rows, in compressed rows, times a dense matrix x of n columns.
//   X        dtype of A's values, x and y: float32, float64, float16 or bfloat16
//   ACC      type of the sums
//   INDEX    int or long
//   W        columns that a work-item does at once
// x has rows of `stride` elements, y of n; both have their columns side by side. A work-item does `block` rows of one
// group of W columns; it may read, but not write, beyond the last column.
#include "common/types.clh"

#ifndef X
#define X float32
#define ACC float32
#define INDEX long
#define W 16
#endif
#define A VALUE(ACC)

TASK_KERNEL void spmm(global const INDEX* rows, global const INDEX* columns, global const STORAGE(X) * values,
                      global const STORAGE(X) * x, global STORAGE(X) * y, long m, long n, long stride, long block,
                      A alpha, A beta) {
  const long groups = (n + W - 1) / W, id = (long)get_global_id(0), first = id / groups * block;
  const long column = id % groups * W, last = MIN_OF(first + block, m);
  for (long row = first; row < last; ++row) {
    VALUE_V(ACC, W) sum = (VALUE_V(ACC, W))0;
    const long end = rows[row + 1];
#if W == 1
    for (long k = rows[row]; k < end; ++k)
      sum += LOAD(X, ACC, values, k) * LOAD(X, ACC, x, (long)columns[k] * stride + column);
    sum *= alpha;
    if (beta != 0) sum += beta * LOAD(X, ACC, y, row * n + column);
    STORE(X, ACC, y, row * n + column, sum);
#else
    for (long k = rows[row]; k < end; ++k)
      sum += LOAD(X, ACC, values, k) * LOADV(X, ACC, W, x, (long)columns[k] * stride + column);
    sum *= alpha;
    if (beta != 0) sum += beta * LOADV(X, ACC, W, y, row * n + column);
    if (column + W <= n) {
      STOREV(X, ACC, W, y, row * n + column, sum);
    } else {
      A lanes[W];
      CAT(vstore, W)(sum, 0, lanes);
      for (long lane = 0; column + lane < n; ++lane) STORE(X, ACC, y, row * n + column + lane, lanes[lane]);
    }
#endif
  }
}
