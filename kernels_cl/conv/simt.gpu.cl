// Implicit matrix products, SIMT style: work-groups of 16 x 16 work-items, each with a TILE x TILE block of results,
// operands staged
// through local memory in steps of STEP.
//   conv_simt_gather   y[o, p] = bias[o] + sum_k w[o, k] im2col(x)[k, p]: forward, and backward-data one residue of the
//   stride at a
//                      time (csrc/ops/conv/gather.h). Grid of groups: (pixels, output channels, conv groups).
//   conv_simt_weight   dw[o, k] = sum_p dy[o, p] im2col(x)[k, p] over a share of the pixels. Grid: (k, o, conv groups *
//   shares).
//   conv_simt_sum      adds the shares in order.
// DTYPE: elements; ACCUMULATE: float32 or float64.
#include "conv/simt.clh"
#include "common/types.clh"

#ifndef DTYPE
#define DTYPE float32
#define ACCUMULATE float32
#define TILE 4
#endif
#ifndef RESULT
#define RESULT DTYPE
#endif
#define T STORAGE(DTYPE)
#define A VALUE(ACCUMULATE)
#define AT(p, i) LOAD(DTYPE, ACCUMULATE, p, i)
#define EDGE (16 * TILE)  // rows and columns of a work-group's block
#define STEP 16
#define SIMT_KERNEL __kernel __attribute__((reqd_work_group_size(16, 16, 1)))

typedef struct {
  long x, w;    // element of the channel's plane in x; element of w for output channel 0
  int z, y, c;  // displacement of the tap
} Column;

typedef struct {
  long image;  // element where the image begins, negative for pixels past the end
  int z, y, x;
} Pixel;

inline Column column_of(const GatherShape s, const WeightMap m, int k) {
  const int kw = s.kernel_size[2], kh = s.kernel_size[1], taps = kw * kh * s.kernel_size[0];
  const int i = k / taps, t = k - i * taps, a = t / (kw * kh), b = t / kw % kh, c = t % kw;
  Column q;
  q.x = i * s.x_plane;
  q.w = i * m.in + m.base + a * m.tap[0] + b * m.tap[1] + c * m.tap[2];
  q.z = a * s.dilation[0], q.y = b * s.dilation[1], q.c = c * s.dilation[2];
  return q;
}

// p: pixel over all images.
inline Pixel pixel_of(const GatherShape s, long p) {
  const int plane = s.output[0] * s.output[1] * s.output[2];
  const long n = p / plane;
  const int r = p - n * plane, row = r / s.output[2];
  Pixel q;
  q.image = n < s.batch ? n * s.x_image : -1;
  q.z = row / s.output[1] * s.stride[0] - s.padding[0];
  q.y = row % s.output[1] * s.stride[1] - s.padding[1];
  q.x = (r - row * s.output[2]) * s.stride[2] - s.padding[2];
  return q;
}

inline A gather(const GatherShape s, __global const T* x, const Pixel p, const Column k) {
  const int z = p.z + k.z, y = p.y + k.y, c = p.x + k.c;
  if (p.image < 0 || z < 0 || z >= s.input[0] || y < 0 || y >= s.input[1] || c < 0 || c >= s.input[2]) return 0;
  return AT(x, p.image + k.x + ((long)z * s.input[1] + y) * s.input[2] + c);
}

// sum[i][j] += a[.][row i] * b[.][column j]; rows and columns of an item are 16 apart, so that its neighbours are
// adjacent.
#define MULTIPLY_STEP                                                                              \
  _Pragma("unroll") for (int k = 0; k < STEP; k++) {                                               \
    A column[TILE];                                                                                \
    _Pragma("unroll") for (int j = 0; j < TILE; j++) column[j] = b[k][lx + 16 * j];                \
    _Pragma("unroll") for (int i = 0; i < TILE; i++) {                                             \
      const A row = a[k][ly + 16 * i];                                                             \
      _Pragma("unroll") for (int j = 0; j < TILE; j++) sum[i][j] = fma(row, column[j], sum[i][j]); \
    }                                                                                              \
  }

SIMT_KERNEL void conv_simt_gather(global const T* x, global const T* w, global const T* bias, global T* y,
                                  const GatherShape s, const WeightMap m, const Target target, int has_bias,
                                  long y_image) {
  __local A a[STEP][EDGE + 1], b[STEP][EDGE];
  __local Column columns[STEP];
  const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx, group = get_group_id(2);
  const int size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2], o0 = get_group_id(1) * EDGE;
  const long p0 = (long)get_group_id(0) * EDGE;
  x += (long)group * s.in_channels * s.x_plane;
  w += group * m.group;
  const Pixel pixel = pixel_of(s, p0 + id % EDGE);
  A sum[TILE][TILE];
  for (int i = 0; i < TILE; i++)
    for (int j = 0; j < TILE; j++) sum[i][j] = 0;
  for (int k0 = 0; k0 < size; k0 += STEP) {
    if (id < STEP) columns[id] = column_of(s, m, k0 + id);
    barrier(CLK_LOCAL_MEM_FENCE);
    _Pragma("unroll") for (int j = 0; j < STEP * EDGE / 256; j++) {
      const int e = id + 256 * j, k = e % STEP, o = o0 + e / STEP;
      a[k][e / STEP] = k0 + k < size && o < s.out_channels ? AT(w, o * m.out + columns[k].w) : (A)0;
    }
    _Pragma("unroll") for (int j = 0; j < STEP * EDGE / 256; j++) {
      const int k = id / EDGE + 256 / EDGE * j;
      b[k][id % EDGE] = k0 + k < size ? gather(s, x, pixel, columns[k]) : (A)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    MULTIPLY_STEP
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const int plane = s.output[0] * s.output[1] * s.output[2];
  const long result_plane = (long)target.size[0] * target.size[1] * target.size[2];
  for (int j = 0; j < TILE; j++) {
    const long p = p0 + lx + 16 * j, n = p / plane;
    if (n >= s.batch) continue;
    const long at = n * y_image + place_of(s, target, p - n * plane);
    for (int i = 0; i < TILE; i++) {
      const int o = o0 + ly + 16 * i;
      if (o >= s.out_channels) continue;
      const long channel = (long)group * s.out_channels + o;
      STORE(DTYPE, ACCUMULATE, y, at + channel * result_plane, sum[i][j] + (has_bias ? AT(bias, channel) : (A)0));
    }
  }
}

SIMT_KERNEL void conv_simt_weight(global const T* x, global const T* dy, global STORAGE(RESULT) * dw,
                                  const GatherShape s, const WeightMap m, int groups, long share) {
  __local A a[STEP][EDGE + 1], b[STEP][EDGE + 1];
  __local Column columns[EDGE];
  const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx, group = get_group_id(2) % groups,
            part = get_group_id(2) / groups;
  const int plane = s.output[0] * s.output[1] * s.output[2],
            size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  const int o0 = get_group_id(1) * EDGE, k0 = get_group_id(0) * EDGE, step = id % STEP;
  const long end = MIN_OF((part + 1) * share, (long)s.batch * plane), image = (long)groups * s.out_channels * plane;
  x += (long)group * s.in_channels * s.x_plane;
  dy += (long)group * s.out_channels * plane;
  if (id < EDGE) columns[id] = column_of(s, m, k0 + id);
  A sum[TILE][TILE];
  for (int i = 0; i < TILE; i++)
    for (int j = 0; j < TILE; j++) sum[i][j] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long p0 = part * share; p0 < end; p0 += STEP) {
    const long p = p0 + step, n = p / plane;
    Pixel pixel = pixel_of(s, p);
    if (p >= end) pixel.image = -1;
    for (int e = id / STEP; e < EDGE; e += 256 / STEP) {
      a[step][e] =
          p < end && o0 + e < s.out_channels ? AT(dy, n * image + (long)(o0 + e) * plane + p - n * plane) : (A)0;
      b[step][e] = k0 + e < size ? gather(s, x, pixel, columns[e]) : (A)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    MULTIPLY_STEP
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  dw += ((long)part * groups + group) * s.out_channels * size;
  for (int i = 0; i < TILE; i++)
    for (int j = 0; j < TILE; j++) {
      const int o = o0 + ly + 16 * i, k = k0 + lx + 16 * j;
      if (o < s.out_channels && k < size) STORE(RESULT, ACCUMULATE, dw, (long)o * size + k, sum[i][j]);
    }
}

kernel void conv_simt_sum(global const A* shares, global T* dw, long size, int parts) {
  const long i = get_global_id(0);
  if (i >= size) return;
  A sum = 0;
  for (int p = 0; p < parts; p++) sum += shares[p * size + i];
  STORE(DTYPE, ACCUMULATE, dw, i, sum);
}
