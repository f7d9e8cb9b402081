// Softmax, SIMT kernels; formulas in softmax.cl. rows_*: one work-group per row (inner = 1), a power-of-two number of items up to 256.
// columns_*: one work-item per (outer, inner) position.
#include "common/lanes.clh"

#define X STORAGE(X_DTYPE)
#define Y STORAGE(Y_DTYPE)
#define MOST_ITEMS 256

typedef struct {
  long outer, n, inner;
} SoftmaxShape;

static inline acc reduced(acc v, __local acc* shared, int maximum) {
  const int item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[item] = v;
  for (int half_ = get_local_size(0) / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_) shared[item] = maximum ? fmax(shared[item], shared[item + half_]) : shared[item] + shared[item + half_];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return shared[0];
}

__kernel void rows_forward(TENSOR(const X, x), TENSOR(Y, y), SoftmaxShape s) {
  OPEN(const X, x);
  OPEN(Y, y);
  __local acc shared[MOST_ITEMS];
  x += get_group_id(0) * s.n;
  y += get_group_id(0) * s.n;
  acc m = -INFINITY, sum = 0;
  for (long i = get_local_id(0); i < s.n; i += get_local_size(0)) m = fmax(LOADX(X_DTYPE, x, i), m);
  m = reduced(m, shared, 1);
  for (long i = get_local_id(0); i < s.n; i += get_local_size(0)) sum += exp(LOADX(X_DTYPE, x, i) - m);
  sum = reduced(sum, shared, 0);
  const acc finish = LOG ? log(sum) : 1 / sum;
  for (long i = get_local_id(0); i < s.n; i += get_local_size(0)) {
    const acc v = LOADX(X_DTYPE, x, i) - m;
    STOREX(Y_DTYPE, y, i, LOG ? v - finish : exp(v) * finish);
  }
}

__kernel void rows_backward(TENSOR(const Y, g), TENSOR(const Y, y), TENSOR(X, dx), SoftmaxShape s) {
  OPEN(const Y, g);
  OPEN(const Y, y);
  OPEN(X, dx);
  __local acc shared[MOST_ITEMS];
  g += get_group_id(0) * s.n;
  y += get_group_id(0) * s.n;
  dx += get_group_id(0) * s.n;
  acc sum = 0;
  for (long i = get_local_id(0); i < s.n; i += get_local_size(0))
    sum += LOG ? LOADX(Y_DTYPE, g, i) : LOADX(Y_DTYPE, g, i) * LOADX(Y_DTYPE, y, i);
  sum = reduced(sum, shared, 0);
  for (long i = get_local_id(0); i < s.n; i += get_local_size(0)) {
    const acc v = LOADX(Y_DTYPE, y, i), d = LOADX(Y_DTYPE, g, i);
    STOREX(X_DTYPE, dx, i, LOG ? d - exp(v) * sum : v * (d - sum));
  }
}

#define EACH_COLUMN for (long i = get_global_id(0); i < s.outer * s.inner; i += get_global_size(0))
#define COLUMN_BASE (i / s.inner * s.n * s.inner + i % s.inner)

__kernel void columns_forward(TENSOR(const X, x), TENSOR(Y, y), SoftmaxShape s) {
  OPEN(const X, x);
  OPEN(Y, y);
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

__kernel void columns_backward(TENSOR(const Y, g), TENSOR(const Y, y), TENSOR(X, dx), SoftmaxShape s) {
  OPEN(const Y, g);
  OPEN(const Y, y);
  OPEN(X, dx);
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
