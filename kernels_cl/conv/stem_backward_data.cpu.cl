// Gradient of images with few channels (C <= 4, the first layer of a network): dx[c, y, x] = sum of w[o, c, kh, kw]
// dy[o, oy, ox] over the taps
// with S oy + kh = y + pad_h and S ox + kw = x + pad_w. With y + pad_h = S a + ph and x + pad_w = S b + pw those are kh
// = ph + S t, oy = a - t and
// kw = pw + S u, ox = b - u: for every phase (ph, pw) a sum over neighbours in dy, lanes along b. A task holds the rows
// of dy that a band of rows a needs, with zeros around: row r, column i is dy[a0 - R + r, first_b - R + i] for R = (K -
// 1) / S.
//   stem_phase_weights  w as [ph][pw][o][t][u][c], float32; grid: S * S
//   stem_data_gradient  dx; grid: (images, bands)
// Defines: CHANNELS = C, KERNEL = K (square), STRIDE = S (1, 2 or 4), DTYPE. The caller gives the local memory
// (csrc/ops/conv/stem_backward_data.cpp). Zeros around dy are multiplied too: an infinity in w may reach a pixel at the
// border that its tap does not touch.
#include "params/conv.h"
#include "conv/stem.clh"

#define REACH ((KERNEL - 1) / STRIDE)
#define TAPS_OF(phase) ((KERNEL - (phase) + STRIDE - 1) / STRIDE)

// Register tile: CHANNELS by VECTORS vectors, for 32 registers of 64 bytes or 16 of 32.
#if NARROW_REGISTERS
#define LANES 8
#define VECTORS (CHANNELS == 4 ? 2 : 4)
#else
#define LANES 16
#define VECTORS 4
#endif
#define V CAT(float, LANES)

inline long phase_offset(int phase, int out_channels) {
  int taps = 0;
  for (int p = 0; p < phase; ++p) taps += TAPS_OF(p / STRIDE) * TAPS_OF(p % STRIDE);
  return (long)taps * out_channels * CHANNELS;
}

CPU_KERNEL void stem_phase_weights(global const STORAGE(DTYPE) * restrict w, global float* restrict arranged,
                                   int out_channels) {
  const int phase = get_group_id(0), ph = phase / STRIDE, pw = phase % STRIDE;
  __global float* to = arranged + phase_offset(phase, out_channels);
  for (int o = 0; o < out_channels; ++o)
    for (int kh = ph; kh < KERNEL; kh += STRIDE)
      for (int kw = pw; kw < KERNEL; kw += STRIDE)
        for (int c = 0; c < CHANNELS; ++c)
          *to++ = LOAD(DTYPE, float32, w, (((long)o * CHANNELS + c) * KERNEL + kh) * KERNEL + kw);
}

// Rows a0 - R ... of all channels of dy, `rows` of them.
inline void pack_rows(StemBackwardGeometry g, __global const STORAGE(DTYPE) * dy, int out_channels, int a0, int rows,
                      __local float* packed) {
  const int start = REACH - g.first_b;  // where column 0 of dy goes
  for (int o = 0; o < out_channels; ++o)
    for (int r = 0; r < rows; ++r) {
      __local float* to = packed + o * g.plane + r * g.pitch;
      const int oy = a0 - REACH + r;
      int done = 0;
      if (oy >= 0 && oy < g.out_height) {
        __global const STORAGE(DTYPE)* from = dy + ((long)o * g.out_height + oy) * g.out_width;
        for (int i = 0; i < start; ++i) to[i] = 0;
        for (int i = 0; i < g.out_width; i += 16) vstore16(LOADV(DTYPE, float32, 16, from, i), 0, to + start + i);
        done = start + g.out_width;
      }
      for (int i = done; i < g.pitch; ++i) to[i] = 0;
    }
}

// sums[c][0 .. VECTORS * LANES) of one phase; rows: of its first tap, the others lie above it.
inline void add_phase(StemBackwardGeometry g, __local const float* rows, __global const float* w, int out_channels,
                      int taps_h, int taps_w, int columns, __local float* sums) {
  V sum[CHANNELS][VECTORS];
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) sum[c][j] = (V)0;
  for (int o = 0; o < out_channels; ++o)
    for (int t = 0; t < taps_h; ++t)
      for (int u = 0; u < taps_w; ++u) {
        __local const float* x = rows + o * g.plane - t * g.pitch - u;
        V factor[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) factor[c] = (V)(w[c]);
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
          const V v = CAT(vload, LANES)(0, x + j * LANES);
#pragma unroll
          for (int c = 0; c < CHANNELS; ++c) sum[c][j] = fma(factor[c], v, sum[c][j]);
        }
        w += CHANNELS;
      }
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) CAT(vstore, LANES)(sum[c][j], 0, sums + c * columns + j * LANES);
}

// Local memory: packed rows, then sums[pw][c][columns], then a row of dx with its phases together.
CPU_KERNEL void stem_data_gradient(global const STORAGE(DTYPE) * restrict dy, global const float* restrict arranged,
                                   global STORAGE(DTYPE) * restrict dx, StemBackwardGeometry g, int out_channels,
                                   local float* restrict local_memory) {
  const int image = get_group_id(0), a0 = g.first_a + (int)get_group_id(1) * g.band,
            a1 = MIN_OF(a0 + g.band, g.last_a + 1);
  __local float *packed = local_memory, *sums = packed + out_channels * g.plane,
                *row = sums + STRIDE * CHANNELS * g.columns;
  pack_rows(g, dy + (long)image * out_channels * g.out_height * g.out_width, out_channels, a0, a1 - a0 + REACH, packed);
  for (int a = a0; a < a1; ++a)
    for (int ph = 0; ph < STRIDE; ++ph) {
      const int y = a * STRIDE + ph - g.pad_h;
      if (y < 0 || y >= g.height) continue;
      for (int pw = 0; pw < STRIDE; ++pw)
        for (int i = 0; i < g.columns; i += VECTORS * LANES)
          add_phase(g, packed + (a - a0 + REACH) * g.pitch + REACH + i,
                    arranged + phase_offset(ph * STRIDE + pw, out_channels), out_channels, TAPS_OF(ph), TAPS_OF(pw),
                    g.columns, sums + pw * CHANNELS * g.columns + i);
      for (int c = 0; c < CHANNELS; ++c) {
        __local const float* from = sums + c * g.columns;
        const int phases = CHANNELS * g.columns;
#if STRIDE == 2
        for (int i = 0; i < g.columns; i += 16) {
          const float16 even = vload16(0, from + i), odd = vload16(0, from + phases + i);
          vstore16(__builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), 0,
                   row + 2 * i);
          vstore16(__builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), 0,
                   row + 2 * i + 16);
        }
#else
        for (int i = 0; i < g.columns; ++i)
          for (int pw = 0; pw < STRIDE; ++pw) row[i * STRIDE + pw] = from[pw * phases + i];
#endif
        __local const float* pixels = row + g.pad_w - g.first_b * STRIDE;
        __global STORAGE(DTYPE)* to = dx + (((long)image * CHANNELS + c) * g.height + y) * g.width;
        int i = 0;
        for (; i + 16 <= g.width; i += 16) STOREV(DTYPE, float32, 16, to, i, vload16(0, pixels + i));
        for (; i < g.width; ++i) STORE(DTYPE, float32, to, i, pixels[i]);
      }
    }
}
