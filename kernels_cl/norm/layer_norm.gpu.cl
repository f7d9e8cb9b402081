// Layer and group normalisation, GPU kernels; formulas in norm/layer_norm.cpu.cl and norm/group_norm.cpu.cl. One
// work-group of 256 per row.
// Defines: X_DTYPE, W_DTYPE, RMS, LANES.
#include "norm/gradient.clh"

#define W STORAGE(W_DTYPE)
#define ITEMS 256
#define GPU_KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

// Sums over the work-group; every item gets them.
static inline acc group_sum(acc v, __local acc* shared) {
  const int item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[item] = v;
  for (int half_ = ITEMS / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_) shared[item] += shared[item + half_];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return shared[0];
}

#define EACH_ITEM(n) for (long i = get_local_id(0); i < (n); i += ITEMS)

// Mean and 1 / deviation of a row.
static inline void row_statistics(__global const X* in, long n, acc eps, __local acc* shared, acc* mean, acc* rstd) {
  acc sum = 0, squares = 0;
  *mean = 0;
#if !RMS
  EACH_ITEM(n) sum += LOADX(X_DTYPE, in, i);
  *mean = group_sum(sum, shared) / n;
#endif
  EACH_ITEM(n) {
    const acc d = LOADX(X_DTYPE, in, i) - *mean;
    squares = fma(d, d, squares);
  }
  *rstd = 1 / sqrt(group_sum(squares, shared) / n + eps);
}

GPU_KERNEL void layer_forward(global const X* restrict x, global X* restrict y, global const W* restrict weight,
                              global const W* restrict bias, global acc* restrict mean_out,
                              global acc* restrict rstd_out, long rows, long n, acc eps) {
  __local acc shared[ITEMS];
  const long r = get_group_id(0);
  acc mean, rstd;
  row_statistics(x + r * n, n, eps, shared, &mean, &rstd);
  if (get_local_id(0) == 0) {
    if (HAS(mean_out)) mean_out[r] = mean;
    rstd_out[r] = rstd;
  }
  EACH_ITEM(n) {
    acc v = (LOADX(X_DTYPE, x, r * n + i) - mean) * rstd;
    if (HAS(weight)) v *= LOADX(W_DTYPE, weight, i);
    if (HAS(bias)) v += LOADX(W_DTYPE, bias, i);
    STOREX(X_DTYPE, y, r * n + i, v);
  }
}

GPU_KERNEL void layer_backward(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                               global const W* restrict weight, global const acc* restrict mean_in,
                               global const acc* restrict rstd_in, long n) {
  __local acc shared[ITEMS];
  const long r = get_group_id(0);
  const acc mean = RMS ? 0 : mean_in[r], rstd = rstd_in[r];
  acc sum = 0, dot = 0;
  EACH_ITEM(n) {
    const acc u = LOADX(X_DTYPE, g, r * n + i) * (HAS(weight) ? LOADX(W_DTYPE, weight, i) : (acc)1);
    sum += u;
    dot += u * ((LOADX(X_DTYPE, x, r * n + i) - mean) * rstd);
  }
  sum = group_sum(sum, shared) / n;
  dot = group_sum(dot, shared) / n;
#if RMS
  sum = 0;
#endif
  EACH_ITEM(n) {
    const acc u = LOADX(X_DTYPE, g, r * n + i) * (HAS(weight) ? LOADX(W_DTYPE, weight, i) : (acc)1);
    STOREX(X_DTYPE, dx, r * n + i, rstd * (u - sum - (LOADX(X_DTYPE, x, r * n + i) - mean) * rstd * dot));
  }
}

// Parameter gradients, first stage: group ids (32 columns, part of the rows), 8 rows at a time.
#define COLUMNS 32
GPU_KERNEL void layer_parameters(global const X* restrict x, global const X* restrict g,
                                 global const acc* restrict mean_in, global const acc* restrict rstd_in,
                                 global acc* restrict partial, long rows, long n, long padded) {
  __local acc weights[ITEMS], biases[ITEMS];
  const int item = get_local_id(0);
  const long part = get_group_id(1), parts = get_num_groups(1), column = get_group_id(0) * COLUMNS + item % COLUMNS;
  acc w = 0, b = 0;
  if (column < n)
    for (long r = rows * part / parts + item / COLUMNS; r < rows * (part + 1) / parts; r += ITEMS / COLUMNS) {
      const acc d = LOADX(X_DTYPE, g, r * n + column);
      w += d * ((LOADX(X_DTYPE, x, r * n + column) - (RMS ? 0 : mean_in[r])) * rstd_in[r]);
      b += d;
    }
  weights[item] = w;
  biases[item] = b;
  for (int half_ = ITEMS / 2; half_ >= COLUMNS; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_) {
      weights[item] += weights[item + half_];
      biases[item] += biases[item + half_];
    }
  }
  if (item < COLUMNS && column < n) {
    partial[2 * part * padded + column] = weights[item];
    partial[(2 * part + 1) * padded + column] = biases[item];
  }
}

// ---- group norm: rows are (n, group) of `members` channels of `inner` elements
GPU_KERNEL void group_forward(global const X* restrict x, global X* restrict y, global const W* restrict weight,
                              global const W* restrict bias, global acc* restrict mean_out,
                              global acc* restrict rstd_out, long groups, long members, long inner, acc eps) {
  __local acc shared[ITEMS];
  const long r = get_group_id(0), n = members * inner, first = r % groups * members;
  acc mean, rstd;
  row_statistics(x + r * n, n, eps, shared, &mean, &rstd);
  if (get_local_id(0) == 0) {
    mean_out[r] = mean;
    rstd_out[r] = rstd;
  }
  EACH_ITEM(n) {
    const long c = first + i / inner;
    acc v = (LOADX(X_DTYPE, x, r * n + i) - mean) * rstd;
    if (HAS(weight)) v *= LOADX(W_DTYPE, weight, c);
    if (HAS(bias)) v += LOADX(W_DTYPE, bias, c);
    STOREX(X_DTYPE, y, r * n + i, v);
  }
}

GPU_KERNEL void group_backward(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                               global const W* restrict weight, global const acc* restrict mean_in,
                               global const acc* restrict rstd_in, global acc* restrict sums, global acc* restrict dots,
                               long groups, long members, long inner) {
  __local acc shared[ITEMS];
  const long r = get_group_id(0), n = members * inner, first = r % groups * members;
  const acc mean = mean_in[r], rstd = rstd_in[r];
  acc sum = 0, dot = 0;
  for (long c = 0; c < members; ++c) {
    acc s = 0, d = 0;
    EACH_ITEM(inner) {
      const acc v = LOADX(X_DTYPE, g, r * n + c * inner + i);
      s += v;
      d = fma(v, LOADX(X_DTYPE, x, r * n + c * inner + i) - mean, d);
    }
    s = group_sum(s, shared);
    d = group_sum(d, shared);
    if (get_local_id(0) == 0) {
      sums[r * members + c] = s;
      dots[r * members + c] = d;
    }
    const acc w = HAS(weight) ? LOADX(W_DTYPE, weight, first + c) : (acc)1;
    sum += w * s;
    dot += w * d;
  }
  if (!HAS(dx)) return;
  const Gradient common = gradient_of(1, rstd, sum, dot, (acc)n);
  EACH_ITEM(n) {
    const acc k = rstd * (HAS(weight) ? LOADX(W_DTYPE, weight, first + i / inner) : (acc)1);
    STOREX(X_DTYPE, dx, r * n + i,
           fma(k, LOADX(X_DTYPE, g, r * n + i), fma(common.a, LOADX(X_DTYPE, x, r * n + i) - mean, common.b)));
  }
}
