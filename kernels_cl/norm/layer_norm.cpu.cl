// Layer normalisation of rows [rows, n], CPU kernels: a task is a range of rows, lanes run along the row, which stays
// in the cache.
//   y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(mean((x - mean)^2) + eps);   RMS: mean = 0
//   backward, h = (x - mean) * rstd, u = g * weight:
//   dx = rstd * (u - mean(u) - h * mean(u h)) (RMS: without mean(u)),  grad_weight = sum_rows g h,  grad_bias =
//   sum_rows g
// Defines: X_DTYPE, W_DTYPE (weight, bias), RMS, LANES.
#include "common/lanes.clh"

#define X STORAGE(X_DTYPE)
#define W STORAGE(W_DTYPE)

#define EACH_ROW(rows)                                                 \
  for (long r = (rows) * get_group_id(0) / get_num_groups(0),          \
            end_ = (rows) * (get_group_id(0) + 1) / get_num_groups(0); \
       r < end_; ++r)
#define EACH_VECTOR for (long i = 0; i < n; i += LANES)

static inline accv square(accv v) { return v * v; }

CPU_KERNEL void layer_forward(global const X* restrict x, global X* restrict y, global const W* restrict weight,
                              global const W* restrict bias, global acc* restrict mean_out,
                              global acc* restrict rstd_out, long rows, long n, acc eps) {
  EACH_ROW(rows) {
    __global const X* in = x + r * n;
    acc mean = 0;
#if !RMS
#define TERM(i) LOADXV(X_DTYPE, in, i)
    SUM_ROW(sums, n, TERM)
#undef TERM
    mean = sum_lanes(sums) / n;
#endif
#define TERM(i) square(LOADXV(X_DTYPE, in, i) - mean)
    SUM_ROW(squares, n, TERM)
#undef TERM
    const acc rstd = 1 / sqrt(sum_lanes(squares) / n + eps);
    if (HAS(mean_out)) mean_out[r] = mean;
    rstd_out[r] = rstd;
    EACH_VECTOR {
      accv v = (LOADXV(X_DTYPE, in, i) - mean) * rstd;
      if (HAS(weight)) v *= LOADXV(W_DTYPE, weight, i);
      if (HAS(bias)) v += LOADXV(W_DTYPE, bias, i);
      if (i + LANES <= n) {
        STOREXV(X_DTYPE, y, r * n + i, v);
      } else {
        STORE_FIRST(X_DTYPE, y, r * n + i, v, n - i);
      }
    }
  }
}

// Parameter gradients of the task's rows go to partial[(group * 2 + field) * padded + i], field 0 weight, 1 bias
// (partial may be null).
CPU_KERNEL void layer_backward(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                               global const W* restrict weight, global const acc* restrict mean_in,
                               global const acc* restrict rstd_in, global acc* restrict partial, long rows, long n,
                               long padded) {
  __global acc *weights = partial + 2 * get_group_id(0) * padded, *biases = weights + padded;
  if (HAS(partial))
    for (long i = 0; i < 2 * padded; i += LANES) VSTOREX((accv)0, 0, weights + i);
  EACH_ROW(rows) {
    __global const X *in = x + r * n, *gradient = g + r * n;
    const acc mean = RMS ? 0 : mean_in[r], rstd = rstd_in[r];
    accv sums = (accv)0, dots = (accv)0;
    EACH_VECTOR {
      const accv d = LOADXV(X_DTYPE, gradient, i), h = (LOADXV(X_DTYPE, in, i) - mean) * rstd;
      const accv u = HAS(weight) ? d * LOADXV(W_DTYPE, weight, i) : d;
      if (i + LANES <= n) {
        sums += u;
        dots = fma(u, h, dots);
      } else {
        const maskv keep = KEEP(n - i);
        sums += keep ? u : (accv)0;
        dots += keep ? u * h : (accv)0;
      }
      if (HAS(partial)) {  // lanes past n collect rubbish in the padding
        VSTOREX(fma(d, h, VLOADX(0, weights + i)), 0, weights + i);
        VSTOREX(VLOADX(0, biases + i) + d, 0, biases + i);
      }
    }
    if (!HAS(dx)) continue;
    const acc sum = RMS ? 0 : sum_lanes(sums) / n, dot = sum_lanes(dots) / n;
    EACH_VECTOR {
      const accv d = LOADXV(X_DTYPE, gradient, i), h = (LOADXV(X_DTYPE, in, i) - mean) * rstd;
      const accv u = HAS(weight) ? d * LOADXV(W_DTYPE, weight, i) : d, v = rstd * (u - sum - h * dot);
      if (i + LANES <= n) {
        STOREXV(X_DTYPE, dx, r * n + i, v);
      } else {
        STORE_FIRST(X_DTYPE, dx, r * n + i, v, n - i);
      }
    }
  }
}
