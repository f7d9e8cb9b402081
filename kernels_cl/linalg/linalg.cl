// Factorizations and substitutions of batches of small matrices or of the diagonal blocks and panels of large ones. One
// work-group per matrix
// (a single work-item on CPUs), or one work-item per right-hand side. Strides are in elements; matrices usually lie
// column after column.
// Defines: DTYPE (float32 or float64), LANES (of its vectors: 16 or 8).
#ifndef DTYPE
#define DTYPE float32
#define LANES 16
#endif
#include "params/linalg.h"
#include "common/types.clh"

#define S VALUE(DTYPE)

#define AT(m, a, i, j) a[(i) * m.row_stride + (j) * m.column_stride]

// A = L L^T, in place of the lower triangle; info: 1 + the first column whose pivot is not positive, plus `first`, 0
// when there is none.
kernel void cholesky(global S* a, Matrices m, global int* info, int first) {
  const long b = get_group_id(0);
  const int lane = get_local_id(0), lanes = get_local_size(0);
  a += b * m.batch_stride;
  for (long j = 0; j < m.columns; ++j) {
    S pivot = AT(m, a, j, j);
    for (long k = 0; k < j; ++k) pivot -= AT(m, a, j, k) * AT(m, a, j, k);
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (!(pivot > 0)) {
      if (lane == 0 && info[b] == 0) info[b] = first + (int)j + 1;
      return;
    }
    const S root = sqrt(pivot);
    if (lane == 0) AT(m, a, j, j) = root;
    for (long i = j + 1 + lane; i < m.rows; i += lanes) {
      S x = AT(m, a, i, j);
      for (long k = 0; k < j; ++k) x -= AT(m, a, i, k) * AT(m, a, j, k);
      AT(m, a, i, j) = x / root;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}

#if CPU_STYLE
// What fits in the cache beside its vectors: matrices of at most BLOCK columns.
#define BLOCK 64
#define V CAT(S, LANES)
#define LANE(v, l) (((S*)(v))[l])

// The same for m.columns <= BLOCK, a task per matrix: columns in vectors, each less its products with those before it.
CPU_KERNEL void cholesky_block(global S* a, Matrices m, global int* info, int first) {
  const long b = get_global_id(0);
  const int n = (int)m.columns, vectors = (n + LANES - 1) / LANES;
  a += b * m.batch_stride;
  V l[BLOCK][BLOCK / LANES];
  int done = 0;
  for (; done < n; ++done) {
    V* x = l[done];
    const int v0 = done / LANES;
    for (int v = 0; v < vectors; ++v) x[v] = (V)0;
    for (int i = done; i < n; ++i) LANE(x, i) = AT(m, a, i, done);
    for (int k = 0; k < done; ++k) {
      const V factor = (V)LANE(l[k], done);
      for (int v = v0; v < vectors; ++v) x[v] -= factor * l[k][v];
    }
    const S pivot = LANE(x, done);
    if (!(pivot > 0)) {
      if (info[b] == 0) info[b] = first + done + 1;
      break;
    }
    const S root = sqrt(pivot);
    for (int v = v0; v < vectors; ++v) x[v] /= root;
    LANE(x, done) = root;
  }
  for (int j = 0; j < done; ++j)
    for (int i = j; i < n; ++i) AT(m, a, i, j) = LANE(l[j], i);
}
#endif

// A = P L U of a panel [rows, columns], in place; pivots[b * pivot_stride + j]: 1 + the row exchanged with row j, both
// counted from `first`.
// Rows are exchanged inside the panel only.
kernel void lu_panel(global S* a, Matrices m, global int* pivots, long pivot_stride, global int* info, int first,
                     int search, local S* best, local long* where) {
  const long b = get_group_id(0), steps = MIN_OF(m.rows, m.columns);
  const int lane = get_local_id(0), lanes = get_local_size(0);
  a += b * m.batch_stride;
  pivots += b * pivot_stride;
  for (long j = 0; j < steps; ++j) {
    S largest = -1;
    long at = j;
    for (long i = j + lane; search && i < m.rows; i += lanes) {
      const S x = fabs(AT(m, a, i, j));
      if (x > largest) {
        largest = x;
        at = i;
      }
    }
    best[lane] = largest;
    where[lane] = at;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (int l = 0; search && l < lanes; ++l)
      if (best[l] > largest || (best[l] == largest && where[l] < at)) {
        largest = best[l];
        at = where[l];
      }
    if (lane == 0) pivots[j] = first + (int)at + 1;
    for (long c = lane; at != j && c < m.columns; c += lanes) {
      const S x = AT(m, a, j, c);
      AT(m, a, j, c) = AT(m, a, at, c);
      AT(m, a, at, c) = x;
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    const S pivot = AT(m, a, j, j);
    if (pivot == 0) {
      if (lane == 0 && info[b] == 0) info[b] = first + (int)j + 1;
    } else {
      for (long i = j + 1 + lane; i < m.rows; i += lanes) AT(m, a, i, j) /= pivot;
      // a lane updates the rows whose multipliers it has made
      for (long c = j + 1; c < m.columns; ++c) {
        const S x = AT(m, a, j, c);
        for (long i = j + 1 + lane; i < m.rows; i += lanes) AT(m, a, i, c) -= AT(m, a, i, j) * x;
      }
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}

// Exchanges row i with row pivots[i] - 1, for i from first to last - 1 or backwards, in every column.
kernel void swap_rows(global S* a, Matrices m, global const int* pivots, long pivot_stride, long first, long last,
                      int backwards) {
  const long e = get_global_id(0), b = e / m.columns, c = e - b * m.columns;
  a += b * m.batch_stride;
  for (long n = first; n < last; ++n) {
    const long i = backwards ? first + last - 1 - n : n, other = pivots[b * pivot_stride + i] - 1;
    if (other == i) continue;
    const S x = AT(m, a, i, c);
    AT(m, a, i, c) = AT(m, a, other, c);
    AT(m, a, other, c) = x;
  }
}

// B := T^-1 B for a small triangular T; one work-item per column of B.
kernel void solve_triangular(global const S* t, Matrices mt, global S* x, Matrices mx, int upper, int unit) {
  const long e = get_global_id(0), b = e / mx.columns, n = mx.rows;
  t += b * mt.batch_stride;
  x += b * mx.batch_stride + (e - b * mx.columns) * mx.column_stride;
  for (long step = 0; step < n; ++step) {
    const long j = upper ? n - 1 - step : step;
    S value = x[j * mx.row_stride];
    if (!unit) {
      value /= AT(mt, t, j, j);
      x[j * mx.row_stride] = value;
    }
    const long begin = upper ? 0 : j + 1, end = upper ? j : n;
    for (long i = begin; i < end; ++i) x[i * mx.row_stride] -= AT(mt, t, i, j) * value;
  }
}

#if CPU_STYLE
// The same for mx.rows <= BLOCK; a task per LANES columns of B.
CPU_KERNEL void solve_triangular_block(global const S* t, Matrices mt, global S* x, Matrices mx, int upper, int unit) {
  const long groups = (mx.columns + LANES - 1) / LANES, b = get_global_id(0) / groups,
             first = (get_global_id(0) - b * groups) * LANES;
  const int n = (int)mx.rows, lanes = (int)MIN_OF((long)LANES, mx.columns - first),
            whole = lanes == LANES && mx.column_stride == 1;
  t += b * mt.batch_stride;
  x += b * mx.batch_stride + first * mx.column_stride;
  V rows[BLOCK];
  for (int i = 0; i < n; ++i) {
    __global const S* row = x + i * mx.row_stride;
    if (whole)
      rows[i] = CAT(vload, LANES)(0, row);
    else
      for (int l = 0; l < LANES; ++l) LANE(rows + i, l) = l < lanes ? row[l * mx.column_stride] : (S)0;
  }
  for (int step = 0; step < n; ++step) {
    const int j = upper ? n - 1 - step : step, begin = upper ? 0 : j + 1, end = upper ? j : n;
    if (!unit) rows[j] /= AT(mt, t, j, j);
    const V value = rows[j];
    for (int i = begin; i < end; ++i) rows[i] -= AT(mt, t, i, j) * value;
  }
  for (int i = 0; i < n; ++i) {
    __global S* row = x + i * mx.row_stride;
    if (whole)
      CAT(vstore, LANES)(rows[i], 0, row);
    else
      for (int l = 0; l < lanes; ++l) row[l * mx.column_stride] = LANE(rows + i, l);
  }
}
#endif

// permutation[b, i] := the row that the exchanges bring to place i; it holds 0, 1, 2, ... before.
kernel void unpack_pivots(global const int* pivots, global long* permutation, long batch, long steps, long rows) {
  const long b = get_global_id(0);
  for (long i = 0; i < steps; ++i) {
    const long other = pivots[b * steps + i] - 1;
    if (other < 0 || other >= rows) continue;
    const long x = permutation[b * rows + i];
    permutation[b * rows + i] = permutation[b * rows + other];
    permutation[b * rows + other] = x;
  }
}
