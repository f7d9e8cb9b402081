// Winograd convolution, gradient of the weights: dU[point][o][c] = sum over tiles of D[point][tile][o] *
// V[point][tile][c], with
// V = B^T X B and D = A dY A^T from conv/winograd_transform.cpu.cl, then dw = G^T dU G. A task owns out_block x
// in_block filters (in_block a
// multiple of 32), keeps their dU in local memory and sweeps all tiles: no split sums, no atomics, deterministic.
// Larger blocks read D and V
// fewer times, both come from the last-level cache.
// When the batch is processed in parts, `partial` (float32, as w) carries the sum: w = G^T dU G (+ partial unless
// `first`); only the `last`
// part writes w, the others write `partial`.
// v may begin with a later slice of a volume, of whose v_tiles tiles it uses `tiles` (the slices that meet dy under one
// tap in depth).
// Grid: ceil(O / out_block) by ceil(C / in_block).
#ifndef MOST_FILTERS
#define MOST_FILTERS 512  // the largest out_block * in_block
#endif
#define SLAB 192                            // tiles: 2 x 16 x SLAB floats of V stay in the first-level cache
#define CHUNK (NARROW_REGISTERS ? 64 : 16)  // tiles between two rounds of prefetching, the depth of a register tile
#include "common/register_tile.clh"
#include "conv/winograd_formulas.clh"

// du[8 rows, `pitch` apart][32] (+)= sum over `tiles` of d[tile][8 of 16] x { v[tile][16], v[between + tile][16] }
// Meanwhile what the next point reads is brought to the second-level cache: next_d half a chunk at a time (null:
// another call does this),
// next_v `next_tiles` tiles per chunk. (No structure of these: passed by value, it is read back before its parts have
// been written.)
inline void multiply_channels(int tiles, __global const float* restrict d, __global const float* restrict v,
                              const long between, __local float* restrict du, int pitch, int first,
                              __global const float* next_d, __global const float* next_v, int next_tiles) {
#if NARROW_REGISTERS
  __local float16* c[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    c[i] = (__local float16*)(du + i * pitch);
    if (first) c[i][0] = c[i][1] = (float16)0.0f;
  }
#else
  float16 c[8][2];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    c[i][0] = first ? (float16)0.0f : vload16(0, du + i * pitch);
    c[i][1] = first ? (float16)0.0f : vload16(0, du + i * pitch + 16);
  }
#endif
#define OF_BLOCK(p, y) vload16(0, (p) + ((y) ? between : 0))
  for (int t = 0; t < tiles; t += CHUNK) {
    const int steps = MIN_OF(CHUNK, tiles - t);
    if (next_d)
      for (int i = 0; i < CHUNK / 2; ++i) PREFETCH_SECOND(next_d + (t / 2 + i) * 16);
    for (int i = 0; i < next_tiles; ++i) {
      PREFETCH_SECOND(next_v + i * 16);
      PREFETCH_SECOND(next_v + between + i * 16);
    }
    next_v += next_tiles * 16;
    REGISTER_TILE(float16, float16, c, steps, 2, d + t * 16, 16, NEXT_ELEMENT, v + t * 16, 16, OF_BLOCK,
                  FUSED_MULTIPLY_ADD)
  }
#if !NARROW_REGISTERS
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    vstore16(c[i][0], 0, du + i * pitch);
    vstore16(c[i][1], 0, du + i * pitch + 16);
  }
#endif
}

// 16 input channels of one output channel: u[point] = 16 channels, dw[channel * FILTER_TAPS + tap] in scratch.
inline void restore_filters(__local const float* du, int plane, float* scratch) {
  float16 half_way[TAPS][POINTS], taps[16];
#pragma unroll
  for (int c = 0; c < POINTS; ++c) {
    float16 a[POINTS], b[TAPS];
#pragma unroll
    for (int r = 0; r < POINTS; ++r) a[r] = vload16(0, du + (r * POINTS + c) * plane);
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
  for (int l = 0; l < 16; ++l)
    vstore16(taps[l], 0, scratch + l * 9);  // each row overwrites the zeros of the one before
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
inline void store_filters(float* scratch, int n, int first, int last, __global float* partial,
                          __global STORAGE(DTYPE) * w) {
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

CPU_KERNEL void weight_gradient(global const float* restrict d, global const float* restrict v,
                                global STORAGE(DTYPE) * restrict w, global float* restrict partial, int out_channels,
                                int in_channels, int tiles, int v_tiles, int out_block, int in_block, int first,
                                int last) {
  local float du[PLANES * PLANE_PITCH(MOST_FILTERS)];
  const int o = get_group_id(0) * out_block, c = get_group_id(1) * in_block;
  const int outs = MIN_OF(out_block, out_channels - o), ins = MIN_OF(in_block, in_channels - c),
            du_plane = PLANE_PITCH(out_block * in_block);
  const long d_stride = (long)tiles * 16, v_stride = (long)v_tiles * 16;
  const long d_plane = PLANE_PITCH((out_channels + 15) / 16 * d_stride),
             v_plane = PLANE_PITCH((in_channels + 15) / 16 * v_stride);
  const int rows_of_tiles = (outs + 7) / 8, ahead = (CHUNK + rows_of_tiles - 1) / rows_of_tiles;
  for (int point = 0; point < PLANES; ++point) {
    __global const float* dp = d + point * d_plane + o / 16 * d_stride;
    __global const float* vp = v + point * v_plane + c / 16 * v_stride;
    for (int t = 0; t < tiles; t += SLAB) {
      const int steps = MIN_OF(SLAB, tiles - t), share = ahead * ((steps + CHUNK - 1) / CHUNK);
      for (int h = 0; h < ins; h += 32) {
        __global const float* vh = vp + h / 16 * v_stride + (long)t * 16;
        for (int i = 0; i < outs; i += 8) {
          __global const float* di = dp + i / 16 * d_stride + (long)t * 16;
          multiply_channels(steps, di + (i & 8), vh, ins - h > 16 ? v_stride : 0,
                            du + point * du_plane + i * in_block + h, in_block, t == 0,
                            h == 0 ? di + d_plane + (i & 8 ? steps / 2 * 16 : 0) : 0, vh + v_plane + i / 8 * share * 16,
                            ahead);
        }
      }
    }
  }
  for (int i = 0; i < outs; ++i)
    for (int h = 0; h < ins; h += 16) {
      float scratch[16 * FILTER_TAPS + 16];
      restore_filters(du + i * in_block + h, du_plane, scratch);
      const long at = ((long)(o + i) * in_channels + c + h) * FILTER_TAPS;
      store_filters(scratch, MIN_OF(16, ins - h) * FILTER_TAPS, first, last, partial + at, w + at);
    }
}
