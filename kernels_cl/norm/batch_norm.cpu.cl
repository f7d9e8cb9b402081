// Batch normalisation, CPU kernels. y = (x - mean_c) * invstd_c * weight_c + bias_c with statistics per channel c over
// the batch and
// the inner dimensions.
//   planes_*   x[n * batch_stride + c * channel_stride + p], p < inner contiguous (channels first)
//   rows_*     x[r * row_stride + c], c contiguous (channels last, or no inner dimension)
// Fused kernels (one task per channel, its data stays in the cache between the sweeps) serve planes with enough
// channels. The
// others work in steps: partial statistics per (channel, part) as (count, mean, centred squares), combination by Chan's
// formula (norm/batch_norm_combine.cpu.cl), an elementwise pass.
// Defines: X_DTYPE, W_DTYPE (weight, bias), R_DTYPE (running statistics), LANES.
// Programs: planes_forward | planes_statistics planes_apply | rows_statistics rows_apply
#include "common/programs.clh"
#include "norm/batch_norm.clh"
#include "norm/planes.clh"

#if HOLDS(0)
// Training forward, one channel per task: mean, centred squares, normalise.
CPU_KERNEL void planes_forward(global const X* restrict x, global X* restrict y, CHANNELS_ARGUMENTS, PlaneShape shape,
                               UpdateRule rule, int relu) {
  DECLARE_CHANNELS(channels);
  const int c = get_group_id(0);
  const acc count = (acc)shape.batch * shape.inner;
  accv lanes = (accv)0;
  for (long n = 0; n < shape.batch; ++n) lanes += plane_sum(x + n * shape.x_batch + c * shape.x_channel, shape.inner);
  const acc mean = sum_lanes(lanes) / count;
  lanes = (accv)0;
  for (long n = 0; n < shape.batch; ++n)
    lanes += plane_squares(x + n * shape.x_batch + c * shape.x_channel, shape.inner, mean);
  acc scale, shift;
  finish_channel(channels, c, count, mean, sum_lanes(lanes), rule, &scale, &shift);
  for (long n = 0; n < shape.batch; ++n)
    plane_scale(x + n * shape.x_batch + c * shape.x_channel, y + n * shape.y_batch + c * shape.y_channel, shape.inner,
                scale, shift, relu);
}
#endif

#if HOLDS(1)
CPU_KERNEL void planes_statistics(global const X* restrict x, global acc* restrict partial, PlaneShape shape,
                                  int parts) {
  const int c = get_group_id(0), part = get_group_id(1);
  long n0, n1, p0, p1;
  part_range(shape, parts, part, &n0, &n1, &p0, &p1);
  const acc count = (acc)(n1 - n0) * (p1 - p0);
  x += c * shape.x_channel + p0;
  accv lanes = (accv)0;
  for (long n = n0; n < n1; ++n) lanes += plane_sum(x + n * shape.x_batch, p1 - p0);
  const acc mean = count > 0 ? sum_lanes(lanes) / count : 0;
  lanes = (accv)0;
  for (long n = n0; n < n1; ++n) lanes += plane_squares(x + n * shape.x_batch, p1 - p0, mean);
  partial += 3 * (long)part * shape.padded;
  partial[c] = count;
  partial[shape.padded + c] = mean;
  partial[2 * shape.padded + c] = sum_lanes(lanes);
}

// One task normalises part of one plane: group ids (piece, plane).
CPU_KERNEL void planes_apply(global const X* restrict x, global X* restrict y, global const acc* restrict coefficients,
                             PlaneShape shape, int relu) {
  const long pieces = get_num_groups(0), piece = get_group_id(0), p0 = shape.inner * piece / pieces,
             p1 = shape.inner * (piece + 1) / pieces;
  const long planes = shape.batch * shape.channels, groups = get_num_groups(1), group = get_group_id(1);
  for (long plane = planes * group / groups; plane < planes * (group + 1) / groups; ++plane) {
    const long n = plane / shape.channels, c = plane % shape.channels;
    plane_scale(x + n * shape.x_batch + c * shape.x_channel + p0, y + n * shape.y_batch + c * shape.y_channel + p0,
                p1 - p0, coefficients[c], coefficients[shape.padded + c], relu);
  }
}
#endif

#if HOLDS(2)
CPU_KERNEL void rows_statistics(global const X* restrict x, global acc* restrict partial, RowShape shape, int parts) {
  ROW_BLOCK;
  const int part = get_group_id(1);
  const long r0 = shape.rows * part / parts, r1 = shape.rows * (part + 1) / parts;
  const acc count = r1 - r0;
  accv sa = (accv)0, sb = sa, sc = sa, sd = sa;
  for (long r = r0; r < r1; ++r) {
    __global const X* row = x + r * shape.x_row;
    sa += LOADXV(X_DTYPE, row, a);
    sb += LOADXV(X_DTYPE, row, b);
    sc += LOADXV(X_DTYPE, row, c);
    sd += LOADXV(X_DTYPE, row, d);
  }
  const acc scale = count > 0 ? 1 / count : 0;
  const accv ma = sa * scale, mb = sb * scale, mc = sc * scale, md = sd * scale;
  sa = sb = sc = sd = (accv)0;
  for (long r = r0; r < r1; ++r) {
    __global const X* row = x + r * shape.x_row;
    const accv va = LOADXV(X_DTYPE, row, a) - ma, vb = LOADXV(X_DTYPE, row, b) - mb;
    const accv vc = LOADXV(X_DTYPE, row, c) - mc, vd = LOADXV(X_DTYPE, row, d) - md;
    sa = fma(va, va, sa);
    sb = fma(vb, vb, sb);
    sc = fma(vc, vc, sc);
    sd = fma(vd, vd, sd);
  }
  partial += 3 * (long)part * shape.padded;
  PUT_BLOCK(partial, (accv)count, (accv)count, (accv)count, (accv)count)
  PUT_BLOCK(partial + shape.padded, ma, mb, mc, md)
  PUT_BLOCK(partial + 2 * shape.padded, sa, sb, sc, sd)
}

CPU_KERNEL void rows_apply(global const X* restrict x, global X* restrict y, global const acc* restrict coefficients,
                           RowShape shape, int relu) {
  const long groups = get_num_groups(0), group = get_group_id(0);
  const int C = shape.channels;
  __global const acc *scale = coefficients, *shift = coefficients + shape.padded;
  for (long r = shape.rows * group / groups; r < shape.rows * (group + 1) / groups; ++r) {
    __global const X* in = x + r * shape.x_row;
    __global X* out = y + r * shape.y_row;
    for (int i = 0; i < C; i += LANES) {
      const int at = MAX_OF(0, MIN_OF(i, C - LANES));
      accv v = fma(LOADXV(X_DTYPE, in, at), VLOADX(0, scale + at), VLOADX(0, shift + at));
      if (relu) v = v < (accv)0 ? (accv)0 : v;
      if (C >= LANES) {
        STOREXV(X_DTYPE, out, at, v);
      } else {
        STORE_FIRST(X_DTYPE, out, 0, v, C);
      }
    }
  }
}
#endif
