// Convolutions as matrix products on tensor cores (common/tensor_cores.clh); operands in the order N D H W C, channels
// of a group in whole chunks
// of 16 bytes, which are copied to local memory while earlier slabs are multiplied.
//   conv_last_weights   the filters of every group as rows over k = (tap, channel). Work-items: (k, output channels,
//   conv groups)
//   conv_last_gather    y[p, o] = bias[o] + sum_k im2col(x)[p, k] w[o, k], p: pixels of all images: forward, and
//   backward-data one residue of the
//                       stride at a time (csrc/ops/conv/gather.h). Grid of groups: (output channels, pixels, conv
//                       groups)
//   conv_last_gradient  dw[o, k] = sum_p dy[p, o] im2col(x)[p, k] over a share of the pixels. Grid of groups: (k, o,
//   conv groups * shares) conv_last_finish    adds the shares, in order, into filters [o, channel, tap]. Work-items:
//   elements of the filters
// Local range GROUP_ITEMS. Defines: DTYPE, EXACT, TILE_M, TILE_N, WARPS_N, GRADIENT (1: the last two kernels, 0: the
// others).
#ifndef DTYPE
#define DTYPE float32
#define EXACT 1
#define TILE_M 128
#define TILE_N 128
#define GRADIENT 0
#endif
#if GRADIENT
#define LAYOUT_A LAYOUT_ALONG_X
#define LAYOUT_B LAYOUT_ALONG_X
#else
#define LAYOUT_A LAYOUT_ALONG_K
#define LAYOUT_B LAYOUT_ALONG_K
#endif
#define SWIZZLED_A LINES_STRAIGHT
#define SWIZZLED_B LINES_STRAIGHT
#include "common/tensor_cores.clh"
#include "conv/simt.clh"
#define T STORAGE(DTYPE)
#define GROUP_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))
#define COPIES(tile) ((tile) * 4 / GROUP_ITEMS)  // chunks of a slab that a work-item copies
#define ROWS_APART (GROUP_ITEMS / 4)             // between its chunks along k

inline int taps_of(const GatherShape s) { return s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2]; }
inline int pixels_of(const GatherShape s) { return s.output[0] * s.output[1] * s.output[2]; }

// Displacement (z, y, x) of a tap; past the last one outside of every image.
inline int3 displacement(const GatherShape s, int tap) {
  const int kw = s.kernel_size[2], row = tap / kw, plane = row / s.kernel_size[1];
  return (int3)(plane < s.kernel_size[0] ? plane * s.dilation[0] : -0x40000000,
                (row - plane * s.kernel_size[1]) * s.dilation[1], (tap - row * kw) * s.dilation[2]);
}
inline int inside(const GatherShape s, int z, int y, int x) {
  return (uint)z < (uint)s.input[0] && (uint)y < (uint)s.input[1] && (uint)x < (uint)s.input[2];
}

#if !GRADIENT
kernel void conv_last_weights(global const T* w, global T* packed, const GatherShape s, const WeightMap m) {
  const int k = get_global_id(0), o = get_global_id(1), group = get_global_id(2);
  const int kw = s.kernel_size[2], kh = s.kernel_size[1], tap = k / s.in_channels, i = k - tap * s.in_channels;
  const long from = group * m.group + o * m.out + i * m.in + m.base + tap / (kw * kh) * m.tap[0] +
                    tap / kw % kh * m.tap[1] + tap % kw * m.tap[2];
  packed[((long)group * s.out_channels + o) * s.in_channels * taps_of(s) + k] = w[from];
}

// The work-item's chunk of a slab: channel and tap; moved on to the same place in the next slab.
#define NEXT_CHUNK                                                     \
  channel += SLAB;                                                     \
  if (channel >= s.in_channels) {                                      \
    do channel -= s.in_channels, tap++;                                \
    while (channel >= s.in_channels);                                  \
    const int3 d = displacement(s, tap);                               \
    dz = d.x, dy = d.y, dx = d.z;                                      \
    place = ((long)(dz * s.input[1] + dy) * s.input[2] + dx) * all_in; \
  }

#define COPY_SLAB(stage)                                                                   \
  {                                                                                        \
    _Pragma("unroll") for (int i = 0; i < COPIES(TILE_M); i++) {                           \
      const int valid = inside(s, z[i] + dz, y[i] + dy, x[i] + dx);                        \
      COPY_CHUNK_NEAR(STAGE_A(stage) + CHUNK_ALONG_K(item / 4 + i * ROWS_APART, item % 4), \
                      valid ? source + begin[i] + place + channel : source, valid);        \
    }                                                                                      \
    _Pragma("unroll") for (int i = 0; i < COPIES(TILE_N); i++) {                           \
      const int valid = item / 4 + i * ROWS_APART < columns && k < size;                   \
      COPY_CHUNK_NEAR(STAGE_B(stage) + CHUNK_ALONG_K(item / 4 + i * ROWS_APART, item % 4), \
                      valid ? filter + (long)i * ROWS_APART * size + k : source, valid);   \
    }                                                                                      \
    k += SLAB;                                                                             \
    NEXT_CHUNK                                                                             \
  }                                                                                        \
  END_OF_COPIES

GROUP_KERNEL void conv_last_gather(global const T* input, global const T* w, global const T* bias, global T* result,
                                   const GatherShape s, const Target target, int groups, int has_bias, int in_place) {
  DECLARE_STAGES
  const int item = get_local_id(0), group = get_group_id(2), p0 = get_group_id(1) * TILE_M,
            o0 = get_group_id(0) * TILE_N;
  const int size = s.in_channels * taps_of(s), plane = pixels_of(s), columns = s.out_channels - o0;
  const long all_in = (long)groups * s.in_channels, all_out = (long)groups * s.out_channels;
  __global const T* source = input + group * s.in_channels;
  __global const T* filter = w + ((long)group * s.out_channels + o0 + item / 4) * size;
  // windows of the work-item's pixels, ROWS_APART apart
  int z[COPIES(TILE_M)], y[COPIES(TILE_M)], x[COPIES(TILE_M)];
  long begin[COPIES(TILE_M)];
#pragma unroll
  for (int i = 0; i < COPIES(TILE_M); i++) {
    const int p = p0 + item / 4 + i * ROWS_APART, n = p / plane, r = p - n * plane, row = r / s.output[2],
              depth = row / s.output[1];
    z[i] = n < s.batch ? depth * s.stride[0] - s.padding[0] : -0x40000000;
    y[i] = (row - depth * s.output[1]) * s.stride[1] - s.padding[1];
    x[i] = (r - row * s.output[2]) * s.stride[2] - s.padding[2];
    begin[i] = ((((long)n * s.input[0] + z[i]) * s.input[1] + y[i]) * s.input[2] + x[i]) * all_in;
  }
  int k = item % 4 * CHUNK, tap = k / s.in_channels, channel = k - tap * s.in_channels;
  int3 first = displacement(s, tap);
  int dz = first.x, dy = first.y, dx = first.z;
  long place = ((long)(dz * s.input[1] + dy) * s.input[2] + dx) * all_in;
  float sum[BLOCKS_M][BLOCKS_N][4];
  EACH_SUM(i, j, e) sum[i][j][e] = 0;
  MULTIPLY_STAGES(sum, 0, size)
#pragma unroll
  for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
    for (int half_block = 0; half_block < 2; half_block++) {
      const int p = p0 + SUM_ROW(item, i, half_block * 2);
      if (p >= s.batch * plane) continue;
      long at = p;
      if (!in_place) {
        const int n = p / plane;
        at = (long)n * target.size[0] * target.size[1] * target.size[2] + place_of(s, target, p - n * plane);
      }
      at = at * all_out + group * s.out_channels;
#pragma unroll
      for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
          const int o = o0 + SUM_COLUMN(item, j, side);
          if (o < s.out_channels)
            STORE(DTYPE, float32, result, at + o,
                  sum[i][j][half_block * 2 + side] +
                      (has_bias ? LOAD(DTYPE, float32, bias, group * s.out_channels + o) : 0.0f));
        }
    }
}
#else
#define CHUNK_X(tile) (item % ((tile) / CHUNK) * CHUNK)
#define CHUNK_K(tile, i) (item / ((tile) / CHUNK) + (i) * (GROUP_ITEMS * CHUNK / (tile)))

#define COPY_SLAB(stage)                                                                                             \
  {                                                                                                                  \
    _Pragma("unroll") for (int i = 0; i < COPIES(TILE_M); i++) {                                                     \
      const int at = p + CHUNK_K(TILE_M, i), valid = at < end && CHUNK_X(TILE_M) < rows;                             \
      COPY_CHUNK(STAGE_A(stage) + CHUNK_ALONG_X(TILE_M, CHUNK_K(TILE_M, i), CHUNK_X(TILE_M)),                        \
                 valid ? gradient + at * all_out : gradient, valid);                                                 \
    }                                                                                                                \
    _Pragma("unroll") for (int i = 0; i < COPIES(TILE_N); i++) {                                                     \
      const int iz = z[i] * s.stride[0] + first.x, iy = y[i] * s.stride[1] + first.y,                                \
                ix = x[i] * s.stride[2] + first.z;                                                                   \
      const int valid = p + CHUNK_K(TILE_N, i) < end && inside(s, iz, iy, ix);                                       \
      COPY_CHUNK_NEAR(                                                                                               \
          STAGE_B(stage) + CHUNK_ALONG_X(TILE_N, CHUNK_K(TILE_N, i), CHUNK_X(TILE_N)),                               \
          valid ? source + ((((long)n[i] * s.input[0] + iz) * s.input[1] + iy) * s.input[2] + ix) * all_in : source, \
          valid);                                                                                                    \
      x[i] += SLAB;                                                                                                  \
      while (x[i] >= s.output[2]) {                                                                                  \
        x[i] -= s.output[2];                                                                                         \
        if (++y[i] == s.output[1]) {                                                                                 \
          y[i] = 0;                                                                                                  \
          if (++z[i] == s.output[0]) z[i] = 0, n[i]++;                                                               \
        }                                                                                                            \
      }                                                                                                              \
    }                                                                                                                \
    p += SLAB;                                                                                                       \
  }                                                                                                                  \
  END_OF_COPIES

GROUP_KERNEL void conv_last_gradient(global const T* input, global const T* output, global float* dw,
                                     const GatherShape s, int groups, int share) {
  DECLARE_STAGES
  const int item = get_local_id(0), layer = get_group_id(2), part = layer / groups, group = layer - part * groups;
  const int size = s.in_channels * taps_of(s), plane = pixels_of(s), o0 = get_group_id(1) * TILE_M,
            k0 = get_group_id(0) * TILE_N;
  const int rows = s.out_channels - o0, begin = part * share, end = min(begin + share, s.batch * plane);
  const long all_in = (long)groups * s.in_channels, all_out = (long)groups * s.out_channels;
  __global const T* gradient = output + group * s.out_channels + o0 + CHUNK_X(TILE_M);
  // the work-item's column of im2col and its pixels
  const int column = k0 + CHUNK_X(TILE_N), tap = column / s.in_channels;
  int3 first = displacement(s, tap);
  first.x -= s.padding[0], first.y -= s.padding[1], first.z -= s.padding[2];
  __global const T* source = input + group * s.in_channels + column - tap * s.in_channels;
  int n[COPIES(TILE_N)], z[COPIES(TILE_N)], y[COPIES(TILE_N)], x[COPIES(TILE_N)];
#pragma unroll
  for (int i = 0; i < COPIES(TILE_N); i++) {
    const int at = begin + CHUNK_K(TILE_N, i);
    n[i] = at / plane;
    const int r = at - n[i] * plane, row = r / s.output[2];
    x[i] = r - row * s.output[2], z[i] = row / s.output[1], y[i] = row - z[i] * s.output[1];
  }
  int p = begin;
  float sum[BLOCKS_M][BLOCKS_N][4];
  EACH_SUM(i, j, e) sum[i][j][e] = 0;
  MULTIPLY_STAGES(sum, begin, end)
  dw += ((long)part * groups + group) * s.out_channels * size;
  EACH_SUM(i, j, e) {
    const int o = o0 + SUM_ROW(item, i, e), k = k0 + SUM_COLUMN(item, j, e);
    if (o < s.out_channels && k < size) dw[(long)o * size + k] = sum[i][j][e];
  }
}

// numel: elements of the filters; parts: shares.
kernel void conv_last_finish(global const float* shares, global T* dw, long numel, int channels, int taps, int parts) {
  const long i = get_global_id(0);
  if (i >= numel) return;
  const long row = i / taps, o = row / channels;
  shares += (o * taps + (i - row * taps)) * channels + (row - o * channels);
  float sum = 0;
  for (int p = 0; p < parts; p++) sum += shares[p * numel];
  STORE(DTYPE, float32, dw, i, sum);
}
#endif
