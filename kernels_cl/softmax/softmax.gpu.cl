// Softmax and logsumexp, GPU kernels; formulas in softmax/softmax.cpu.cl.
//   rows_*     one work-group of ITEMS per row (inner = 1). With KEPT > 0 a row has at most ITEMS * KEPT elements and
//   stays in registers, loaded by
//              VECTOR (1, or 4 where rows are aligned and of whole vectors); with KEPT = 0 it is read twice.
//   columns_*  one work-item per (outer, inner) position
//   *_logsumexp  y[outer, inner] = log(sum exp(x - top)) + top; top: the maximum, 0 where that is infinite. Rows are
//   read twice.
// Programs: rows_forward rows_backward columns_forward columns_backward | rows_logsumexp columns_logsumexp
#include "params/softmax.h"
#include "common/four.clh"
#include "common/lanes.clh"
#include "common/programs.clh"

#ifndef ITEMS
#define ITEMS 256
#define KEPT 0
#define VECTOR 1
#endif

#define X STORAGE(X_DTYPE)
#define Y STORAGE(Y_DTYPE)
#define ROWS_KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

// Sum or maximum over the group: every FIRSTS-th value by one of FIRSTS work-items, then what they have by all.
#define FIRSTS (ITEMS / 16)
static inline acc reduced(acc v, __local acc* shared, int maximum) {
  const int item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[item] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < FIRSTS) {
    for (int i = item + FIRSTS; i < ITEMS; i += FIRSTS) v = maximum ? fmax(v, shared[i]) : v + shared[i];
    shared[item] = v;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  v = shared[0];
  for (int i = 1; i < FIRSTS; ++i) v = maximum ? fmax(v, shared[i]) : v + shared[i];
  return v;
}

#if HOLDS(0)
#if KEPT
#define CHUNKS (KEPT / VECTOR)
#define CHUNK_AT(c) (((c) * ITEMS + (int)get_local_id(0)) * VECTOR)
#if VECTOR == 4
#define LOAD_CHUNK(D, p, i, r) LOAD_FOUR(D, ACC, p, i, r)
#define STORE_CHUNK(D, p, i, r) STORE_FOUR(D, ACC, p, i, r)
#else
#define LOAD_CHUNK(D, p, i, r) (r)[0] = LOADX(D, p, i)
#define STORE_CHUNK(D, p, i, r) STOREX(D, p, i, (r)[0])
#endif
#define EACH_KEPT _Pragma("unroll") for (int k = 0; k < KEPT; ++k)
#define EACH_CHUNK _Pragma("unroll") for (int c = 0; c < CHUNKS; ++c)

// The work-item's part of a row, `pad` past its end.
static inline void load_x(__global const X* p, int n, acc pad, acc* v) {
  EACH_KEPT v[k] = pad;
  EACH_CHUNK if (CHUNK_AT(c) < n) LOAD_CHUNK(X_DTYPE, p, CHUNK_AT(c), v + c * VECTOR);
}
static inline void load_y(__global const Y* p, int n, acc* v) {
  EACH_KEPT v[k] = 0;
  EACH_CHUNK if (CHUNK_AT(c) < n) LOAD_CHUNK(Y_DTYPE, p, CHUNK_AT(c), v + c * VECTOR);
}

ROWS_KERNEL void rows_forward(global const X* x, global Y* y, SoftmaxShape s) {
  __local acc shared[ITEMS];
  const int n = (int)s.n;
  y += get_group_id(0) * s.n;
  acc v[KEPT], m = -INFINITY, sum = 0;
  load_x(x + get_group_id(0) * s.n, n, -INFINITY, v);
  EACH_KEPT m = fmax(v[k], m);
  m = reduced(m, shared, 1);
  EACH_KEPT {
    const acc d = v[k] - m, e = exp(d);
    sum += e;
    v[k] = LOG ? d : e;
  }
  sum = reduced(sum, shared, 0);
  const acc finish = LOG ? log(sum) : 1 / sum;
  EACH_KEPT v[k] = LOG ? v[k] - finish : v[k] * finish;
  EACH_CHUNK if (CHUNK_AT(c) < n) STORE_CHUNK(Y_DTYPE, y, CHUNK_AT(c), v + c * VECTOR);
}

ROWS_KERNEL void rows_backward(global const Y* g, global const Y* y, global X* dx, SoftmaxShape s) {
  __local acc shared[ITEMS];
  const int n = (int)s.n;
  dx += get_group_id(0) * s.n;
  acc d[KEPT], v[KEPT], sum = 0;
  load_y(g + get_group_id(0) * s.n, n, d);
  load_y(y + get_group_id(0) * s.n, n, v);
  EACH_KEPT sum += LOG ? d[k] : d[k] * v[k];
  sum = reduced(sum, shared, 0);
  EACH_KEPT v[k] = LOG ? d[k] - exp(v[k]) * sum : v[k] * (d[k] - sum);
  EACH_CHUNK if (CHUNK_AT(c) < n) STORE_CHUNK(X_DTYPE, dx, CHUNK_AT(c), v + c * VECTOR);
}

#else
ROWS_KERNEL void rows_forward(global const X* x, global Y* y, SoftmaxShape s) {
  __local acc shared[ITEMS];
  x += get_group_id(0) * s.n;
  y += get_group_id(0) * s.n;
  // The sum follows the maximum, four elements at a time. An item that has seen nothing but -infinity has the sum 0.
  acc m = -INFINITY, sum = 0;
  for (long i = get_local_id(0); i < s.n; i += 4 * ITEMS) {
    acc v[4], top = m, part = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[k] = i + k * ITEMS < s.n ? LOADX(X_DTYPE, x, i + k * ITEMS) : (acc)-INFINITY;
      top = fmax(v[k], top);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) part += v[k] == -INFINITY ? (acc)0 : exp(v[k] - top);
    sum = part + (m == top ? sum : sum * exp(m - top));
    m = top;
  }
  const acc own = m;
  m = reduced(m, shared, 1);
  sum = reduced(own == m ? sum : sum * exp(own - m), shared, 0);
  const acc finish = LOG ? log(sum) : 1 / sum;
  for (long i = get_local_id(0); i < s.n; i += ITEMS) {
    const acc v = LOADX(X_DTYPE, x, i) - m;
    STOREX(Y_DTYPE, y, i, LOG ? v - finish : exp(v) * finish);
  }
}

ROWS_KERNEL void rows_backward(global const Y* g, global const Y* y, global X* dx, SoftmaxShape s) {
  __local acc shared[ITEMS];
  g += get_group_id(0) * s.n;
  y += get_group_id(0) * s.n;
  dx += get_group_id(0) * s.n;
  acc sum = 0;
  for (long i = get_local_id(0); i < s.n; i += ITEMS)
    sum += LOG ? LOADX(Y_DTYPE, g, i) : LOADX(Y_DTYPE, g, i) * LOADX(Y_DTYPE, y, i);
  sum = reduced(sum, shared, 0);
  for (long i = get_local_id(0); i < s.n; i += ITEMS) {
    const acc v = LOADX(Y_DTYPE, y, i), d = LOADX(Y_DTYPE, g, i);
    STOREX(X_DTYPE, dx, i, LOG ? d - exp(v) * sum : v * (d - sum));
  }
}
#endif
#endif

#define EACH_COLUMN for (long i = get_global_id(0); i < s.outer * s.inner; i += get_global_size(0))
#define COLUMN_BASE (i / s.inner * s.n * s.inner + i % s.inner)

#if HOLDS(0)
kernel void columns_forward(global const X* x, global Y* y, SoftmaxShape s) {
  EACH_COLUMN {
    const long base = COLUMN_BASE;
    acc m = -INFINITY, sum = 0;
    for (long k = 0; k < s.n; ++k) m = fmax(LOADX(X_DTYPE, x, base + k * s.inner), m);
    for (long k = 0; k < s.n; ++k) sum += exp(LOADX(X_DTYPE, x, base + k * s.inner) - m);
    const acc finish = LOG ? log(sum) : 1 / sum;
    for (long k = 0; k < s.n; ++k) {
      const acc v = LOADX(X_DTYPE, x, base + k * s.inner) - m;
      STOREX(Y_DTYPE, y, base + k * s.inner, LOG ? v - finish : exp(v) * finish);
    }
  }
}

kernel void columns_backward(global const Y* g, global const Y* y, global X* dx, SoftmaxShape s) {
  EACH_COLUMN {
    const long base = COLUMN_BASE;
    acc sum = 0;
    for (long k = 0; k < s.n; ++k) {
      const acc d = LOADX(Y_DTYPE, g, base + k * s.inner);
      sum += LOG ? d : d * LOADX(Y_DTYPE, y, base + k * s.inner);
    }
    for (long k = 0; k < s.n; ++k) {
      const acc v = LOADX(Y_DTYPE, y, base + k * s.inner), d = LOADX(Y_DTYPE, g, base + k * s.inner);
      STOREX(X_DTYPE, dx, base + k * s.inner, LOG ? d - exp(v) * sum : v * (d - sum));
    }
  }
}
#endif

#if HOLDS(1)
static inline acc finite_or_0(acc m) { return fabs(m) == INFINITY ? (acc)0 : m; }

ROWS_KERNEL void rows_logsumexp(global const X* x, global Y* y, SoftmaxShape s) {
  __local acc shared[ITEMS];
  x += get_group_id(0) * s.n;
  acc m = -INFINITY, sum = 0;
  for (long i = get_local_id(0); i < s.n; i += ITEMS) m = fmax(LOADX(X_DTYPE, x, i), m);
  const acc top = finite_or_0(reduced(m, shared, 1));
  for (long i = get_local_id(0); i < s.n; i += ITEMS) sum += exp(LOADX(X_DTYPE, x, i) - top);
  sum = reduced(sum, shared, 0);
  if (get_local_id(0) == 0) STOREX(Y_DTYPE, y, get_group_id(0), log(sum) + top);
}

kernel void columns_logsumexp(global const X* x, global Y* y, SoftmaxShape s) {
  EACH_COLUMN {
    const long base = COLUMN_BASE;
    acc m = -INFINITY, sum = 0;
    for (long k = 0; k < s.n; ++k) m = fmax(LOADX(X_DTYPE, x, base + k * s.inner), m);
    const acc top = finite_or_0(m);
    for (long k = 0; k < s.n; ++k) sum += exp(LOADX(X_DTYPE, x, base + k * s.inner) - top);
    STOREX(Y_DTYPE, y, i, log(sum) + top);
  }
}
#endif
