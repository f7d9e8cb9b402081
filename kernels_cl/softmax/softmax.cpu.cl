// Softmax over the middle dimension of [outer, n, inner], CPU kernels.
//   softmax: y = e / sum e, e = exp(x - max x);   log softmax: y = x - max x - log(sum e)
//   backward: dx = y (g - sum g y);               dx = g - exp(y) sum g
// rows_*: inner = 1, a task is a range of rows, lanes along the row, which stays in the cache between the sweeps.
// columns_*: lanes are neighbouring inner positions, a task is a range of (outer, block of LANES columns).
// A NaN reaches the whole row through the sum.
// Programs: rows_forward rows_backward | columns_forward columns_backward | rows_logsumexp columns_logsumexp
#include "common/programs.clh"
#include "softmax/softmax.clh"

#define EACH_TASK(total, i)                                             \
  for (long i = (total) * get_group_id(0) / get_num_groups(0),          \
            end_ = (total) * (get_group_id(0) + 1) / get_num_groups(0); \
       i < end_; ++i)

static inline accv greater_of(accv a, accv b) { return a > b ? a : b; }
static inline acc greatest_of_row(__global const X* in, long n) {
#define TERM(i) LOADXV(X_DTYPE, in, i)
  REDUCE_ROW(m, n, TERM, greater_of, -INFINITY)
#undef TERM
  return greatest_lane(m);
}

#if HOLDS(0)
CPU_KERNEL void rows_forward(global const X* x, global Y* y, SoftmaxShape s) {
  const long n = s.n, whole = n / LANES * LANES;
  const maskv tail = KEEP(n - whole);
  EACH_TASK(s.outer, r) {
    __global const X* in = x + r * n;
    __global Y* out = y + r * n;
    const acc top = greatest_of_row(in, n);
    accv sums = (accv)0;
    for (long i = 0; i < whole; i += LANES) {
      const accv e = exp_nonpositive(LOADXV(X_DTYPE, in, i) - top);
#if !LOG && KEEP_EXP
      STOREXV(Y_DTYPE, out, i, e);
#endif
      sums += e;
    }
    const accv last = LOADXV(X_DTYPE, in, whole) - top, last_e = exp_nonpositive(last);
    sums += tail ? last_e : (accv)0;
#if LOG
    const acc shift = log_normal((accv)sum_lanes(sums)).s0;
#define FINISH(v) ((v) - shift)
#else
    const acc scale = 1 / sum_lanes(sums);
#define FINISH(v) ((v) * scale)
#endif
    for (long i = 0; i < whole; i += LANES) {
#if LOG
      STOREXV(Y_DTYPE, out, i, FINISH(LOADXV(X_DTYPE, in, i) - top));
#elif KEEP_EXP
      STOREXV(Y_DTYPE, out, i, FINISH(LOADXV(Y_DTYPE, out, i)));
#else
      STOREXV(Y_DTYPE, out, i, FINISH(exp_nonpositive(LOADXV(X_DTYPE, in, i) - top)));
#endif
    }
    if (whole < n) STORE_FIRST(Y_DTYPE, out, whole, FINISH(LOG ? last : last_e), n - whole);
  }
}
#endif

// Gradient of one vector: g, y and the row's sum.
static inline accv backward_of(accv g, accv y, accv sum) { return LOG ? g - exp_fast(y) * sum : y * (g - sum); }

#if HOLDS(0)
CPU_KERNEL void rows_backward(global const Y* g, global const Y* y, global X* dx, SoftmaxShape s) {
  const long n = s.n, whole = n / LANES * LANES;
  EACH_TASK(s.outer, r) {
    __global const Y *gradient = g + r * n, *in = y + r * n;
    const accv last_g = LOADXV(Y_DTYPE, gradient, whole), last_y = LOADXV(Y_DTYPE, in, whole);
#if LOG
#define TERM(i) LOADXV(Y_DTYPE, gradient, i)
#else
#define TERM(i) (LOADXV(Y_DTYPE, gradient, i) * LOADXV(Y_DTYPE, in, i))
#endif
    SUM_ROW(sums, n, TERM)
#undef TERM
    const accv sum = (accv)sum_lanes(sums);
    for (long i = 0; i < whole; i += LANES)
      STOREXV(X_DTYPE, dx, r * n + i, backward_of(LOADXV(Y_DTYPE, gradient, i), LOADXV(Y_DTYPE, in, i), sum));
    if (whole < n) STORE_FIRST(X_DTYPE, dx, r * n + whole, backward_of(last_g, last_y, sum), n - whole);
  }
}
#endif

// Stores a block of columns, clipped to the inner dimension.
#define STORE_COLUMNS(D, p, i, v)  \
  if (keep >= LANES) {             \
    STOREXV(D, p, i, v);           \
  } else {                         \
    STORE_FIRST(D, p, i, v, keep); \
  }

#define EACH_BLOCK                                   \
  const long blocks = (s.inner + LANES - 1) / LANES; \
  EACH_TASK(s.outer* blocks, task) {                 \
    const long column = task % blocks * LANES, keep = s.inner - column, base = task / blocks * s.n * s.inner + column;

#if HOLDS(1)
CPU_KERNEL void columns_forward(global const X* x, global Y* y, SoftmaxShape s) {
  EACH_BLOCK
  accv m = (accv)-INFINITY, sums = (accv)0;
  for (long k = 0; k < s.n; ++k) m = greater_of(LOADXV(X_DTYPE, x, base + k * s.inner), m);
  for (long k = 0; k < s.n; ++k) sums += exp_nonpositive(LOADXV(X_DTYPE, x, base + k * s.inner) - m);
#if LOG
  const accv shift = log_normal(sums);
#else
  const accv scale = 1 / sums;
#endif
  for (long k = 0; k < s.n; ++k) {
    const accv v = LOADXV(X_DTYPE, x, base + k * s.inner) - m;
#if LOG
    STORE_COLUMNS(Y_DTYPE, y, base + k * s.inner, v - shift);
#else
    STORE_COLUMNS(Y_DTYPE, y, base + k * s.inner, exp_nonpositive(v) * scale);
#endif
  }
}
}

CPU_KERNEL void columns_backward(global const Y* g, global const Y* y, global X* dx, SoftmaxShape s) {
  EACH_BLOCK
  accv sum = (accv)0;
  for (long k = 0; k < s.n; ++k) {
    const accv v = LOADXV(Y_DTYPE, g, base + k * s.inner);
    sum += LOG ? v : v * LOADXV(Y_DTYPE, y, base + k * s.inner);
  }
  for (long k = 0; k < s.n; ++k) {
    const long at = base + k * s.inner;
    const accv v = backward_of(LOADXV(Y_DTYPE, g, at), LOADXV(Y_DTYPE, y, at), sum);
    STORE_COLUMNS(X_DTYPE, dx, at, v);
  }
}
}
#endif

// y = max x + log(sum exp(x - max x)); a maximum that is infinite is not subtracted, so that rows of -inf give -inf and
// rows with inf give inf.
static inline acc finite_or_0(acc top) { return isinf(top) ? (acc)0 : top; }

#if HOLDS(2)
CPU_KERNEL void rows_logsumexp(global const X* x, global Y* y, SoftmaxShape s) {
  const long n = s.n, whole = n / LANES * LANES;
  const maskv tail = KEEP(n - whole);
  EACH_TASK(s.outer, r) {
    __global const X* in = x + r * n;
    const acc top = finite_or_0(greatest_of_row(in, n));
    accv sums = (accv)0;
    for (long i = 0; i < whole; i += LANES) sums += exp_fast(LOADXV(X_DTYPE, in, i) - top);
    sums += tail ? exp_fast(LOADXV(X_DTYPE, in, whole) - top) : (accv)0;
    STORE(Y_DTYPE, ACC, y, r, log(sum_lanes(sums)) + top);
  }
}

CPU_KERNEL void columns_logsumexp(global const X* x, global Y* y, SoftmaxShape s) {
  EACH_BLOCK
  accv m = (accv)-INFINITY, sums = (accv)0;
  for (long k = 0; k < s.n; ++k) m = greater_of(LOADXV(X_DTYPE, x, base + k * s.inner), m);
  const accv top = fabs(m) == INFINITY ? (accv)0 : m;
  for (long k = 0; k < s.n; ++k) sums += exp_fast(LOADXV(X_DTYPE, x, base + k * s.inner) - top);
  const accv result = log(sums) + top;
  STORE_COLUMNS(Y_DTYPE, y, task / blocks * s.inner + column, result);
}
}
#endif
