// Winograd convolution, gradient of the weights: dU[point][o][c] = sum over tiles of D[point][tile][o] * V[point][tile][c], with
// V = B^T X B and D = A dY A^T from conv_winograd_transform.cl, then dw = G^T dU G. A task owns OUT_BLOCK x 32 filters, keeps their dU in
// local memory and sweeps all tiles: no split sums, no atomics, deterministic.
// When the batch is processed in parts, `partial` (float32, as w) carries the sum: w = G^T dU G (+ partial unless `first`); only the `last`
// part writes w, the others write `partial`.
// Grid: ceil(O / OUT_BLOCK) by ceil(C / 32).
#ifndef OUT_BLOCK
#define OUT_BLOCK 16
#endif
#define SLAB 192  // tiles: 2 x 16 x SLAB floats of V stay in the first-level cache
#include "common/register_tile.clh"
#include "conv_winograd_formulas.clh"

// du[8][32] (+)= sum over `tiles` of d[tile][8 of 16] x { c0[tile][16], c1[tile][16] }
inline void multiply_channels(int tiles, __global const float* restrict d, __global const float* restrict c0, __global const float* restrict c1,
                              __local float* restrict du, int first) {
  float16 c[8][2];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    c[i][0] = first ? (float16)0.0f : vload16(2 * i, du);
    c[i][1] = first ? (float16)0.0f : vload16(2 * i + 1, du);
  }
  const long between = c1 - c0;
#define OF_BLOCK(p, y) vload16(0, (p) + ((y) ? between : 0))
  REGISTER_TILE(float16, float16, c, tiles, 2, d, 16, NEXT_ELEMENT, c0, 16, OF_BLOCK, FUSED_MULTIPLY_ADD)
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    vstore16(c[i][0], 2 * i, du);
    vstore16(c[i][1], 2 * i + 1, du);
  }
}

// 16 input channels of one output channel: u[point] = 16 channels, dw[channel * FILTER_TAPS + tap] in scratch.
inline void restore_filters(__local const float* du, float* scratch) {
  float16 half_way[TAPS][POINTS], taps[16];
#pragma unroll
  for (int c = 0; c < POINTS; ++c) {
    float16 a[POINTS], b[TAPS];
#pragma unroll
    for (int r = 0; r < POINTS; ++r) a[r] = vload16(0, du + (r * POINTS + c) * OUT_BLOCK * 32);
    points_to_weight(a, b);
#pragma unroll
    for (int r = 0; r < TAPS; ++r) half_way[r][c] = b[r];
  }
#if TAPS == 3
#pragma unroll
  for (int r = 0; r < 3; ++r) points_to_weight(half_way[r], taps + 3 * r);
#pragma unroll
  for (int k = 9; k < 16; ++k) taps[k] = (float16)0.0f;
  TRANSPOSE16(float16, taps);
#pragma unroll
  for (int l = 0; l < 16; ++l) vstore16(taps[l], 0, scratch + l * 9);  // each row overwrites the zeros of the one before
#else
  for (int r = 0; r < TAPS; ++r) {
    points_to_weight(half_way[r], taps);
    float row[TAPS * 16];
    for (int c = 0; c < TAPS; ++c) vstore16(taps[c], c, row);
    for (int l = 0; l < 16; ++l)
      for (int c = 0; c < TAPS; ++c) scratch[l * FILTER_TAPS + r * TAPS + c] = row[c * 16 + l];
  }
#endif
}

// n numbers of scratch, plus those of earlier parts, to w or to `partial`.
inline void store_filters(float* scratch, int n, int first, int last, __global float* partial, __global STORAGE(DTYPE)* w) {
  if (!first)  // may read past the end of the sums, into memory that is never stored
    for (int k = 0; k < n; k += 16) vstore16(vload16(0, scratch + k) + vload16(0, partial + k), 0, scratch + k);
  int k = 0;
  if (last) {
    for (; k + 16 <= n; k += 16) STOREV(DTYPE, float32, 16, w, k, vload16(0, scratch + k));
    for (; k < n; ++k) STORE(DTYPE, float32, w, k, scratch[k]);
  } else {
    for (; k + 16 <= n; k += 16) vstore16(vload16(0, scratch + k), 0, partial + k);
    for (; k < n; ++k) partial[k] = scratch[k];
  }
}

FAT_KERNEL void weight_gradient(TENSOR(const float, d), TENSOR(const float, v), TENSOR(STORAGE(DTYPE), w), TENSOR(float, partial),
                                int out_channels, int in_channels, int tiles, int first, int last) {
  __local float du[PLANES * OUT_BLOCK * 32] __attribute__((aligned(64)));
  OPEN_RESTRICT(const float, d);
  OPEN_RESTRICT(const float, v);
  OPEN_RESTRICT(STORAGE(DTYPE), w);
  OPEN_RESTRICT(float, partial);
  const int out_blocks = (out_channels + 15) / 16, in_blocks = (in_channels + 15) / 16;
  const int o = get_group_id(0) * OUT_BLOCK, c = get_group_id(1) * 32;
  const int outs = MIN_OF(OUT_BLOCK, out_channels - o), ins = MIN_OF(32, in_channels - c);
  const long stride = (long)tiles * 16;
  for (int point = 0; point < PLANES; ++point) {
    __global const float* dp = d + point * (out_blocks * stride + 16) + o / 16 * stride;
    __global const float* vp = v + point * (in_blocks * stride + 16) + c / 16 * stride;
    for (int t = 0; t < tiles; t += SLAB)
      for (int i = 0; i < outs; i += 8)
        multiply_channels(MIN_OF(SLAB, tiles - t), dp + i / 16 * stride + (long)t * 16 + (i & 8), vp + (long)t * 16,
                          vp + (ins > 16 ? stride : 0) + (long)t * 16, du + (point * OUT_BLOCK + i) * 32, t == 0);
  }
  for (int i = 0; i < outs; ++i)
    for (int h = 0; h < ins; h += 16) {
      float scratch[16 * FILTER_TAPS + 16];
      restore_filters(du + i * 32 + h, scratch);
      const long at = ((long)(o + i) * in_channels + c + h) * FILTER_TAPS;
      store_filters(scratch, MIN_OF(16, ins - h) * FILTER_TAPS, first, last, partial + at, w + at);
    }
}
