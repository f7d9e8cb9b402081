// Group normalisation, CPU kernels: x is dense [batch, groups, members, inner]; a task is a range of (image, group)
// rows.
//   y = (x - mean) * rstd * weight_c + bias_c with statistics per row
//   backward: sums_c = sum g, dots_c = sum g (x - mean) per channel;  dx = weight_c rstd g + a (x - mean) + b with
//   a = -rstd^3 / M sum_c weight_c dots_c, b = -rstd / M sum_c weight_c sums_c, M = members * inner
// Defines: X_DTYPE, W_DTYPE, LANES.
#include "norm/planes.clh"

#define W STORAGE(W_DTYPE)
#define EACH_ROW(rows)                                                 \
  for (long r = (rows) * get_group_id(0) / get_num_groups(0),          \
            end_ = (rows) * (get_group_id(0) + 1) / get_num_groups(0); \
       r < end_; ++r)

CPU_KERNEL void group_forward(global const X* restrict x, global X* restrict y, global const W* restrict weight,
                              global const W* restrict bias, global acc* restrict mean_out,
                              global acc* restrict rstd_out, long rows, long groups, long members, long inner,
                              acc eps) {
  const long n = members * inner;
  EACH_ROW(rows) {
    const acc mean = sum_lanes(plane_sum(x + r * n, n)) / n;
    const acc rstd = 1 / sqrt(sum_lanes(plane_squares(x + r * n, n, mean)) / n + eps);
    mean_out[r] = mean;
    rstd_out[r] = rstd;
    for (long c = 0; c < members; ++c) {
      const long channel = r % groups * members + c, at = r * n + c * inner;
      const acc scale = rstd * (HAS(weight) ? LOADX(W_DTYPE, weight, channel) : (acc)1);
      plane_scale(x + at, y + at, inner, scale, (HAS(bias) ? LOADX(W_DTYPE, bias, channel) : (acc)0) - mean * scale, 0);
    }
  }
}

CPU_KERNEL void group_backward(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                               global const W* restrict weight, global const acc* restrict mean_in,
                               global const acc* restrict rstd_in, global acc* restrict sums, global acc* restrict dots,
                               long rows, long groups, long members, long inner) {
  EACH_ROW(rows) {
    const acc mean = mean_in[r], rstd = rstd_in[r];
    acc sum = 0, dot = 0;
    for (long c = 0; c < members; ++c) {
      const long at = (r * members + c) * inner;
      const acc w = HAS(weight) ? LOADX(W_DTYPE, weight, r % groups * members + c) : (acc)1;
      accv s = (accv)0, d = (accv)0;
      plane_sums(x + at, g + at, inner, mean, &s, &d);
      const acc channel_sum = sum_lanes(s), channel_dot = sum_lanes(d);
      sums[r * members + c] = channel_sum;
      dots[r * members + c] = channel_dot;
      sum += w * channel_sum;
      dot += w * channel_dot;
    }
    if (!HAS(dx)) continue;
    Gradient gradient = gradient_of(1, rstd, sum, dot, (acc)members * inner);
    for (long c = 0; c < members; ++c) {
      const long at = (r * members + c) * inner;
      gradient.k = rstd * (HAS(weight) ? LOADX(W_DTYPE, weight, r % groups * members + c) : (acc)1);
      plane_gradient(x + at, g + at, dx + at, inner, mean, gradient, 1);
    }
  }
}
