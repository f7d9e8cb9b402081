// Batch normalisation backward, CPU kernels; layouts and steps as in norm/batch_norm.cpu.cl. x and the gradient g give
//   grad_bias = sum g, grad_weight = invstd * sum g (x - mean), dx = k g + a (x - mean) + b   (gradient_of in
//   norm/gradient.clh)
// Tensors x, y, z of the shape are x, g, dx. Defines: X_DTYPE, W_DTYPE, R_DTYPE, LANES.
// Programs: planes_backward | planes_sums planes_gradient | rows_sums rows_gradient
#include "common/programs.clh"
#include "norm/batch_norm.clh"
#include "norm/planes.clh"

#if HOLDS(0)
// One channel per task, two sweeps.
CPU_KERNEL void planes_backward(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                                global const W* weight, global const acc* mean, global const acc* invstd,
                                global W* grad_weight, global W* grad_bias, PlaneShape shape, int train) {
  const int c = get_group_id(0);
  const acc m = mean[c], s = invstd[c];
  accv sums = (accv)0, dots = (accv)0;
  if (train || HAS(grad_weight) || HAS(grad_bias))
    for (long n = 0; n < shape.batch; ++n)
      plane_sums(x + n * shape.x_batch + c * shape.x_channel, g + n * shape.y_batch + c * shape.y_channel, shape.inner,
                 m, &sums, &dots);
  const acc sum = sum_lanes(sums), dot = sum_lanes(dots);
  if (HAS(grad_weight)) STOREX(W_DTYPE, grad_weight, c, dot * s);
  if (HAS(grad_bias)) STOREX(W_DTYPE, grad_bias, c, sum);
  if (!HAS(dx)) return;
  const Gradient r =
      gradient_of(HAS(weight) ? LOADX(W_DTYPE, weight, c) : (acc)1, s, sum, dot, (acc)shape.batch * shape.inner);
  for (long n = 0; n < shape.batch; ++n)
    plane_gradient(x + n * shape.x_batch + c * shape.x_channel, g + n * shape.y_batch + c * shape.y_channel,
                   dx + n * shape.z_batch + c * shape.z_channel, shape.inner, m, r, train);
}
#endif

#if HOLDS(1)
CPU_KERNEL void planes_sums(global const X* restrict x, global const X* restrict g, global const acc* restrict mean,
                            global acc* restrict partial, PlaneShape shape, int parts) {
  const int c = get_group_id(0), part = get_group_id(1);
  long n0, n1, p0, p1;
  part_range(shape, parts, part, &n0, &n1, &p0, &p1);
  accv sums = (accv)0, dots = (accv)0;
  for (long n = n0; n < n1; ++n)
    plane_sums(x + n * shape.x_batch + c * shape.x_channel + p0, g + n * shape.y_batch + c * shape.y_channel + p0,
               p1 - p0, mean[c], &sums, &dots);
  partial[2 * (long)part * shape.padded + c] = sum_lanes(sums);
  partial[(2 * (long)part + 1) * shape.padded + c] = sum_lanes(dots);
}

CPU_KERNEL void planes_gradient(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                                global const acc* restrict mean, global const acc* restrict coefficients,
                                PlaneShape shape, int train) {
  const long pieces = get_num_groups(0), piece = get_group_id(0), p0 = shape.inner * piece / pieces,
             p1 = shape.inner * (piece + 1) / pieces;
  const long planes = shape.batch * shape.channels, groups = get_num_groups(1), group = get_group_id(1);
  for (long plane = planes * group / groups; plane < planes * (group + 1) / groups; ++plane) {
    const long n = plane / shape.channels, c = plane % shape.channels;
    const Gradient r = {coefficients[c], coefficients[shape.padded + c], coefficients[2 * shape.padded + c]};
    plane_gradient(x + n * shape.x_batch + c * shape.x_channel + p0, g + n * shape.y_batch + c * shape.y_channel + p0,
                   dx + n * shape.z_batch + c * shape.z_channel + p0, p1 - p0, mean[c], r, train);
  }
}
#endif

#if HOLDS(2)
CPU_KERNEL void rows_sums(global const X* restrict x, global const X* restrict g, global const acc* restrict mean,
                          global acc* restrict partial, RowShape shape, int parts) {
  ROW_BLOCK;
  const int part = get_group_id(1);
  const long r0 = shape.rows * part / parts, r1 = shape.rows * (part + 1) / parts;
  const accv ma = VLOADX(0, mean + a), mb = VLOADX(0, mean + b), mc = VLOADX(0, mean + c), md = VLOADX(0, mean + d);
  accv sa = (accv)0, sb = sa, sc = sa, sd = sa, da = sa, db = sa, dc = sa, dd = sa;
  for (long r = r0; r < r1; ++r) {
    __global const X *row = x + r * shape.x_row, *gradient = g + r * shape.y_row;
#define ADD(v, m, s, d)                          \
  {                                              \
    const accv t = LOADXV(X_DTYPE, gradient, v); \
    s += t;                                      \
    d = fma(t, LOADXV(X_DTYPE, row, v) - m, d);  \
  }
    ADD(a, ma, sa, da);
    ADD(b, mb, sb, db);
    ADD(c, mc, sc, dc);
    ADD(d, md, sd, dd);
  }
  partial += 2 * (long)part * shape.padded;
  PUT_BLOCK(partial, sa, sb, sc, sd)
  PUT_BLOCK(partial + shape.padded, da, db, dc, dd)
}

CPU_KERNEL void rows_gradient(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                              global const acc* restrict mean, global const acc* restrict coefficients, RowShape shape,
                              int train) {
  const long groups = get_num_groups(0), group = get_group_id(0);
  const int C = shape.channels;
  for (long r = shape.rows * group / groups; r < shape.rows * (group + 1) / groups; ++r) {
    __global const X *row = x + r * shape.x_row, *gradient = g + r * shape.y_row;
    __global X* out = dx + r * shape.z_row;
    for (int i = 0; i < C; i += LANES) {
      const int at = MAX_OF(0, MIN_OF(i, C - LANES));
      accv v = VLOADX(0, coefficients + at) * LOADXV(X_DTYPE, gradient, at);
      if (train)
        v += fma(VLOADX(0, coefficients + shape.padded + at), LOADXV(X_DTYPE, row, at) - VLOADX(0, mean + at),
                 VLOADX(0, coefficients + 2 * shape.padded + at));
      if (C >= LANES) {
        STOREXV(X_DTYPE, out, at, v);
      } else {
        STORE_FIRST(X_DTYPE, out, 0, v, C);
      }
    }
  }
}
#endif
