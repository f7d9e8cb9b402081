// Convolutions as matrix products on tensor cores (common/tensor_cores.clh); operands in the order N C D H W.
//   conv_tensor_cores_weights   the filters of every group as rows over k = (channel, tap), padded with zeros to a
//   multiple of eight conv_tensor_cores_gather    y[o, p] = bias[o] + sum_k w[o, k] im2col(x)[k, p], p: pixels of all
//   images: forward, and backward-data one residue
//                               of the stride at a time (csrc/ops/conv/gather.h). Grid of groups: (pixels, output
//                               channels, conv groups)
//   conv_tensor_cores_gradient  dw[o, k] = sum_p dy[o, p] im2col(x)[k, p] over a share of the pixels. Grid of groups:
//   (k, o, conv groups * shares);
//                               conv_simt_sum adds the shares
// Defines: DTYPE, EXACT, TILE_M, TILE_N, RESULT (dtype of the gradient), GRADIENT (1: the third kernel, 0: the others).
#ifndef DTYPE
#define DTYPE float32
#define EXACT 1
#define TILE_M 128
#define TILE_N 128
#define RESULT float32
#define GRADIENT 0
#endif
#define LAYOUT_A LAYOUT_LINES
#define LAYOUT_B LAYOUT_LINES
#if GRADIENT
#define SWIZZLED_A LINES_SWIZZLED
#define SWIZZLED_B LINES_SWIZZLED
#else
#define SWIZZLED_A QUADS_SWIZZLED
#define SWIZZLED_B LINES_STRAIGHT
#endif
#include "common/tensor_cores.clh"
#include "conv/simt.clh"
#define T STORAGE(DTYPE)
#define GROUP_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))
#define NO_COLUMN -0x40000000  // displacement of a column past the end: outside of every image

#if IS_WORD
#define BITS(p, i) as_uint((p)[i])
#else
#define BITS(p, i) ((uint)(p)[i])
#endif

// One column of im2col; displacement of its tap, and its place from the pixel's.
inline int4 tap_of(const GatherShape s, int k, int size) {
  const int kw = s.kernel_size[2], kh = s.kernel_size[1], taps = kw * kh * s.kernel_size[0];
  const int i = k / taps, t = k - i * taps, a = t / (kw * kh), b = t / kw % kh, c = t % kw;
  const int z = a * s.dilation[0], y = b * s.dilation[1], x = c * s.dilation[2];
  return k < size ? (int4)(z, y, x, i * (int)s.x_plane + (z * s.input[1] + y) * s.input[2] + x)
                  : (int4)(NO_COLUMN, 0, 0, 0);
}
// Whether the tap meets the image; `base`: element of x where the pixel's window begins, if it were inside.
inline bool meets(const GatherShape s, int4 pixel, int4 tap) {
  return (uint)(pixel.x + tap.x) < (uint)s.input[0] && (uint)(pixel.y + tap.y) < (uint)s.input[1] &&
         (uint)(pixel.z + tap.z) < (uint)s.input[2];
}
// z, y, x of the window's first element; w: the image, negative past the end.
inline int4 window_of(const GatherShape s, int p, int plane) {
  const int n = p / plane, r = p - n * plane, row = r / s.output[2], depth = row / s.output[1];
  return (int4)(n < s.batch ? depth * s.stride[0] - s.padding[0] : NO_COLUMN,
                (row - depth * s.output[1]) * s.stride[1] - s.padding[1],
                (r - row * s.output[2]) * s.stride[2] - s.padding[2], n);
}
inline long begin_of(const GatherShape s, int4 window) {
  return window.w * s.x_image + ((long)window.x * s.input[1] + window.y) * s.input[2] + window.z;
}

#if !GRADIENT
// Work-items: (pitch, output channels, conv groups).
kernel void conv_tensor_cores_weights(global const T* w, global T* packed, const GatherShape s, const WeightMap m,
                                      int pitch) {
  const int k = get_global_id(0), o = get_global_id(1), group = get_global_id(2);
  const int kw = s.kernel_size[2], kh = s.kernel_size[1], taps = kw * kh * s.kernel_size[0];
  const int i = k / taps, t = k - i * taps;
  const long from = group * m.group + o * m.out + i * m.in + m.base + t / (kw * kh) * m.tap[0] +
                    t / kw % kh * m.tap[1] + t % kw * m.tap[2];
  packed[((long)group * s.out_channels + o) * pitch + k] = i < s.in_channels ? w[from] : (T)0;
}

#define LINES_PER_PASS (GROUP_ITEMS / TILE_N)  // units of a slab that the group fetches at once
#define FETCHES (UNITS / LINES_PER_PASS)
#define WEIGHT_QUADS (TILE_M / 64)
#define QUAD_ELEMENTS (4 * PER_UNIT)

#define FETCH(k0)                                                                                      \
  _Pragma("unroll") for (int q = 0; q < WEIGHT_QUADS; q++) next_a[q] =                                 \
      q * 64 < rows && (k0) + item % 4 * QUAD_ELEMENTS < pitch                                         \
          ? *(__global const uint4*)(w + (long)q * 64 * pitch + (k0))                                  \
          : (uint4)0;                                                                                  \
  _Pragma("unroll") for (int f = 0; f < FETCHES; f++) {                                                \
    const __local int4* tap = taps[(k0) / SLAB % 2] + (item / TILE_N + f * LINES_PER_PASS) * PER_UNIT; \
    uint unit = meets(s, window, tap[0]) ? BITS(x, tap[0].w) : 0u;                                     \
    if (PER_UNIT == 2 && meets(s, window, tap[PER_UNIT - 1]))                                          \
      unit |= BITS(x, tap[PER_UNIT - 1].w) << (16 * (PER_UNIT - 1));                                   \
    next_b[f] = unit;                                                                                  \
  }

GROUP_KERNEL void conv_tensor_cores_gather(global const T* x, global const T* w, global const T* bias, global T* y,
                                           const GatherShape s, const Target target, int pitch, int has_bias,
                                           long y_image) {
  __local uint slab_a[2][SLAB_SIZE(LAYOUT_A, TILE_M)] __attribute__((aligned(16)));
  __local uint slab_b[2][SLAB_SIZE(LAYOUT_B, TILE_N)] __attribute__((aligned(16)));
  __local int4 taps[2][SLAB];
  const int item = get_local_id(0), group = get_group_id(2), o0 = get_group_id(1) * TILE_M,
            p0 = get_group_id(0) * TILE_N;
  const int plane = s.output[0] * s.output[1] * s.output[2],
            size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  const int4 window = window_of(s, p0 + item % TILE_N, plane);
  x += (long)group * s.in_channels * s.x_plane + begin_of(s, window);
  // the work-item's quads of the filters: rows 64 apart
  w += ((long)group * s.out_channels + o0 + item / 4) * pitch + item % 4 * QUAD_ELEMENTS;
  const int rows = s.out_channels - o0 - item / 4;
  float sum[BLOCKS_M][BLOCKS_N][4];
  EACH_SUM(i, j, e) sum[i][j][e] = 0;
  uint4 next_a[WEIGHT_QUADS];
  uint next_b[FETCHES];
  if (item < SLAB) taps[0][item] = tap_of(s, item, size);
  barrier(CLK_LOCAL_MEM_FENCE);
  FETCH(0)
  if (item < SLAB) taps[1][item] = tap_of(s, SLAB + item, size);
  int current = 0;
  for (int k0 = 0; k0 < size; k0 += SLAB) {
#pragma unroll
    for (int q = 0; q < WEIGHT_QUADS; q++) {
      const int unit = item % 4 * 4;
      __local uint* to = slab_a[current] + unit * PITCH_OF(TILE_M) + SWIZZLED_A(unit, item / 4 + q * 64, 0);
      to[0] = next_a[q].x, to[PITCH_OF(TILE_M)] = next_a[q].y, to[2 * PITCH_OF(TILE_M)] = next_a[q].z,
      to[3 * PITCH_OF(TILE_M)] = next_a[q].w;
    }
#pragma unroll
    for (int f = 0; f < FETCHES; f++)
      slab_b[current][(item / TILE_N + f * LINES_PER_PASS) * PITCH_OF(TILE_N) + item % TILE_N] = next_b[f];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k0 + SLAB < size) {
      FETCH(k0 + SLAB)
      if (item < SLAB) taps[current][item] = tap_of(s, k0 + 2 * SLAB + item, size);
    }
    multiply_slabs(sum, slab_a[current], slab_b[current], item);
    current ^= 1;
  }
  const long result_plane = (long)target.size[0] * target.size[1] * target.size[2];
#pragma unroll
  for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
    for (int side = 0; side < 2; side++) {
      const int p = p0 + SUM_COLUMN(item, j, side), n = p / plane;
      if (n >= s.batch) continue;
      const long at = n * y_image + place_of(s, target, p - n * plane);
#pragma unroll
      for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
        for (int e = side; e < 4; e += 2) {
          const int o = o0 + SUM_ROW(item, i, e);
          if (o >= s.out_channels) continue;
          const long channel = (long)group * s.out_channels + o;
          STORE(DTYPE, float32, y, at + channel * result_plane,
                sum[i][j][e] + (has_bias ? LOAD(DTYPE, float32, bias, channel) : 0.0f));
        }
    }
}
#else
#define ROWS_PER_PASS (GROUP_ITEMS / UNITS)
#define ROWS_M (TILE_M / ROWS_PER_PASS)
#define ROWS_N (TILE_N / ROWS_PER_PASS)

#define FETCH(p0)                                                                                   \
  _Pragma("unroll") for (int f = 0; f < ROWS_M; f++) next_a[f] = 0;                                 \
  _Pragma("unroll") for (int f = 0; f < ROWS_N; f++) next_b[f] = 0;                                 \
  _Pragma("unroll") for (int h = 0; h < PER_UNIT; h++) {                                            \
    const int p = (p0) + unit * PER_UNIT + h;                                                       \
    if (p < end) {                                                                                  \
      const int4 window = window_of(s, p, plane);                                                   \
      __global const T* from = dy + window.w * image + (p - window.w * plane);                      \
      _Pragma("unroll") for (int f = 0; f < ROWS_M; f++) if (f * ROWS_PER_PASS < rows) next_a[f] |= \
          BITS(from, (long)f * ROWS_PER_PASS * plane) << (16 * h);                                  \
      __global const T* at = x + begin_of(s, window);                                               \
      _Pragma("unroll") for (int f = 0; f < ROWS_N; f++) {                                          \
        const int4 tap = taps[line + f * ROWS_PER_PASS];                                            \
        if (meets(s, window, tap)) next_b[f] |= BITS(at, tap.w) << (16 * h);                        \
      }                                                                                             \
    }                                                                                               \
  }

GROUP_KERNEL void conv_tensor_cores_gradient(global const T* x, global const T* dy, global STORAGE(RESULT) * dw,
                                             const GatherShape s, int groups, int share) {
  __local uint slab_a[2][SLAB_SIZE(LAYOUT_A, TILE_M)] __attribute__((aligned(16)));
  __local uint slab_b[2][SLAB_SIZE(LAYOUT_B, TILE_N)] __attribute__((aligned(16)));
  __local int4 taps[TILE_N];
  const int item = get_local_id(0), group = get_group_id(2) % groups, part = get_group_id(2) / groups;
  const int plane = s.output[0] * s.output[1] * s.output[2],
            size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  const int o0 = get_group_id(1) * TILE_M, k0 = get_group_id(0) * TILE_N;
  const int begin = part * share, end = min(begin + share, s.batch * plane);
  const long image = (long)groups * s.out_channels * plane;
  // a work-item fetches one unit, the pixels of a unit, of rows ROWS_PER_PASS apart
  const int unit = item % UNITS, line = item / UNITS, rows = s.out_channels - o0 - line;
  x += (long)group * s.in_channels * s.x_plane;
  dy += ((long)group * s.out_channels + o0 + line) * plane;
  for (int i = item; i < TILE_N; i += GROUP_ITEMS) taps[i] = tap_of(s, k0 + i, size);
  float sum[BLOCKS_M][BLOCKS_N][4];
  EACH_SUM(i, j, e) sum[i][j][e] = 0;
  uint next_a[ROWS_M], next_b[ROWS_N];
  barrier(CLK_LOCAL_MEM_FENCE);
  FETCH(begin)
  int current = 0;
  for (int p0 = begin; p0 < end; p0 += SLAB) {
#pragma unroll
    for (int f = 0; f < ROWS_M; f++)
      slab_a[current][unit * PITCH_OF(TILE_M) + SWIZZLED_A(unit, line + f * ROWS_PER_PASS, 0)] = next_a[f];
#pragma unroll
    for (int f = 0; f < ROWS_N; f++)
      slab_b[current][unit * PITCH_OF(TILE_N) + SWIZZLED_B(unit, line + f * ROWS_PER_PASS, 0)] = next_b[f];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (p0 + SLAB < end) {
      FETCH(p0 + SLAB)
    }
    multiply_slabs(sum, slab_a[current], slab_b[current], item);
    current ^= 1;
  }
  dw += ((long)part * groups + group) * s.out_channels * size;
#pragma unroll
  for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
    for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int o = o0 + SUM_ROW(item, i, e), k = k0 + SUM_COLUMN(item, j, e);
        if (o < s.out_channels && k < size) STORE(RESULT, float32, dw, (long)o * size + k, sum[i][j][e]);
      }
}
#endif
