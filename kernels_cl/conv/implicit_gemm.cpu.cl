// Implicit matrix product, CPU style: y[o, p] = bias[o] + sum_k w[o, k] im2col(x)[k, p], where p runs over all pixels
// of all images and k over (channel, tap). im2col exists only as slabs of KC rows in local memory.
//   conv_pack_weights  w -> packed[group][o / 8][k][8]; any strides and tap order, so that it also serves backward-data
//   conv_multiply      one work-item: `pixels` pixels x `channels` output channels of one group
// phase_line, phase_at: 0, or the length of a phase and where masks and phases begin in `memory`, when x is gathered by
// way of phases (conv_gather.clh; `depth` is then a multiple of the taps). weight_row: 0, or `packed` are the weights
// themselves, [o][k] with this distance between rows.
// pixel_tasks: parts of the pixels. The grid: (parts of pixels, parts of channels, conv groups), or the former two as
// one dimension, pixels faster. Register tile 8 channels x 32 pixels.
#include "common/types.clh"
#include "common/register_tile.clh"
#include "common/transpose16.clh"
#include "params/conv.h"
#include "conv/gather.clh"
#include "conv/limits.clh"

// Grid: (ceil(out / 8), ceil(k / 512), groups).
CPU_KERNEL void conv_pack_weights(global const T* restrict w, global float* restrict packed, const GatherShape s,
                                  const WeightMap m) {
  const int o = get_group_id(0) * 8, taps = s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2],
            size = s.in_channels * taps;
  __global const T* from = w + get_group_id(2) * m.group + o * m.out;
  __global float* to = packed + ((long)get_group_id(2) * get_num_groups(0) + get_group_id(0)) * size * 8;
  int k = get_group_id(1) * 512;
  const int end = MIN_OF(size, k + 512), rows = MIN_OF(8, s.out_channels - o);
  const int in_order = m.base == 0 && m.tap[2] == 1 && m.tap[1] == s.kernel_size[2] &&
                       m.tap[0] == s.kernel_size[1] * s.kernel_size[2] && m.in == taps;
  if (in_order && rows == 8)
    for (; k + 16 <= end; k += 16) {
      float16 r[16];
      _Pragma("unroll") for (int l = 0; l < 16; l++) r[l] =
          l < 8 ? LOADV(DTYPE, float32, 16, from, l * m.out + k) : (float16)0;
      TRANSPOSE16(float16, r)
      _Pragma("unroll") for (int l = 0; l < 16; l++) vstore8(r[l].lo, k + l, to);
    }
  if (taps == 1 && m.out == 1 && rows == 8) {  // whole cache lines: an even block does its neighbour's work too
    if (get_group_id(0) & 1) return;
    const int both = o + 16 <= s.out_channels;
    for (; k < end; k++) {
      const float16 v = LOADV(DTYPE, float32, 16, from, k * m.in);
      vstore8(v.lo, k, to);
      if (both) vstore8(v.hi, k, to + (long)size * 8);
    }
    return;
  }
  for (; k < end; k++) {
    const int i = k / taps, t = k - i * taps, a = t / (s.kernel_size[1] * s.kernel_size[2]),
              b = t / s.kernel_size[2] % s.kernel_size[1], c = t % s.kernel_size[2];
    const long at = i * m.in + m.base + a * m.tap[0] + b * m.tap[1] + c * m.tap[2];
    for (int l = 0; l < 8; l++) to[k * 8 + l] = l < rows ? LOAD(DTYPE, float32, from, l * m.out + at) : 0;
  }
}

// Stores columns [0, count) of an 8 x 32 tile whose pixels continue over image borders. y: channel 0 of the tile, image
// 0.
inline void store_pieces(__global T* y, __local const float* tile, int rows, long pixel, int count, int plane,
                         long image) {
  for (int l = 0; l < count;) {
    const long n = (pixel + l) / plane;
    const int at = pixel + l - n * plane, length = MIN_OF(count - l, plane - at);
    for (int i = 0; i < rows; i++) {
      __global T* to = y + n * image + (long)i * plane + at;
      __local const float* from = tile + i * 32 + l;
      int t = 0;
      for (; t + 8 <= length; t += 8) STOREV(DTYPE, float32, 8, to, t, vload8(0, from + t));
      for (; t < length; t++) STORE(DTYPE, float32, to, t, from[t]);
    }
    l += length;
  }
}

#define EACH_ROW _Pragma("unroll") for (int i = 0; i < 8; i++)
#define B_AT(p, y) *(__local const float16*)((p) + (y) * 16)
#define IN_ROW(p, x) (p)[(x) * weight_row]

CPU_KERNEL void conv_multiply(global const T* restrict x, global const float* restrict packed,
                              global const T* restrict bias, global T* restrict y, const GatherShape s, int has_bias,
                              int pixel_tasks, int channels, int pixels, int depth, int phase_line, int phase_at,
                              long weight_row, const Limits limits, local float* restrict memory) {
  local Piece pieces[MAX_PIXELS + MAX_PIXELS / 16];
  local int first[MAX_PIXELS / 16 + 1];
  local Tap taps[MAX_DEPTH];
  local float edge[8 * 32];
  const int group = get_group_id(2), plane = s.output[0] * s.output[1] * s.output[2], limited = IS_LIMITED(limits);
  const int size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  const int part = get_group_id(0) / pixel_tasks;
  const long pixel0 = (long)(get_group_id(0) - part * pixel_tasks) * pixels,
             image = (long)s.out_channels * get_num_groups(2) * plane;
  const int count = MIN_OF((long)pixels, (long)s.batch * plane - pixel0), chunks = (count + 15) / 16,
            panels = (count + 31) / 32;
  const int o0 = (get_group_id(1) + part) * channels, o1 = MIN_OF(s.out_channels, o0 + channels);
  x += (long)group * s.in_channels * s.x_plane;
  y += (long)group * s.out_channels * plane;
  packed += (long)group * (weight_row ? s.out_channels : (s.out_channels + 7) / 8 * 8) * size;
  __local float* restrict sums = memory + panels * 32 * depth;  // [o / 8][panel][8][32], only used between slabs
#if STRIDE == 1 || STRIDE == 2
  const int kernel_taps = s.kernel_size[1] * s.kernel_size[2];
  __local int16* masks = (__local int16*)(memory + phase_at);
  if (phase_line)
    find_phase_masks(s, pixel0, count, masks);
  else
#endif
    find_pieces(s, pixel0, count, pieces, first);
  for (int k0 = 0; k0 < size; k0 += depth) {
    const int kc = MIN_OF(depth, size - k0), last = k0 + kc == size;
#if STRIDE == 1 || STRIDE == 2
    if (phase_line) {
      gather_phases(s, x, pixel0, count, k0 / kernel_taps, kc / kernel_taps, masks, phase_line,
                    memory + phase_at + pixels * kernel_taps, memory);
    } else
#endif
    {
      find_taps(s, k0, kc, taps);
      gather_pixels(s, x, chunks, kc, pieces, first, taps, memory);
    }
    for (int panel = 0; panel < panels; panel++) {
      const long pixel = pixel0 + panel * 32, n = pixel / plane;
      const int at = pixel - n * plane, width = MIN_OF(32, count - panel * 32), whole = width == 32 && at + 32 <= plane;
      for (int o = o0; o < o1; o += 8) {
        __global const float* restrict a = packed + ((long)(o / 8) * size + k0) * 8;
        __local const float* restrict b = memory + panel * kc * 32;
        __local float* restrict sum = sums + ((o - o0) / 8 * panels + panel) * 256;
        const int rows = MIN_OF(8, s.out_channels - o);
        float16 c[8][2];
        if (k0) {
          EACH_ROW c[i][0] = *(__local float16*)(sum + i * 32), c[i][1] = *(__local float16*)(sum + i * 32 + 16);
        } else {
          EACH_ROW c[i][0] = c[i][1] =
              (float16)(has_bias && i < rows ? LOAD(DTYPE, float32, bias, group * s.out_channels + o + i) : 0.0f);
        }
        // Each channel of the result is a stream of its own, more of them than processors follow.
        if (last && whole) EACH_ROW {
            PREFETCH_FIRST(y + n * image + (long)(o + i) * plane + at);
            PREFETCH_FIRST(y + n * image + (long)(o + i) * plane + at + 16);
          }
        const int vectors = width > 16 ? 2 : 1;
        if (weight_row) {
          a = packed + (long)o * weight_row + k0;
          REGISTER_TILE(float16, float16, c, kc, vectors, a, 1, IN_ROW, b, 32, B_AT, FUSED_MULTIPLY_ADD)
        } else {
          REGISTER_TILE(float16, float16, c, kc, vectors, a, 8, NEXT_ELEMENT, b, 32, B_AT, FUSED_MULTIPLY_ADD)
        }
        if (last && limited) EACH_ROW {
            c[i][0] = LIMIT(float16, c[i][0], limits);
            c[i][1] = LIMIT(float16, c[i][1], limits);
          }
        if (last && whole && rows == 8) {
          __global T* to = y + n * image + (long)o * plane + at;
          EACH_ROW {
            STOREV(DTYPE, float32, 16, to, (long)i * plane, c[i][0]);
            STOREV(DTYPE, float32, 16, to, (long)i * plane + 16, c[i][1]);
          }
        } else {
          __local float* tile = last ? edge : sum;
          EACH_ROW*(__local float16*)(tile + i * 32) = c[i][0], *(__local float16*)(tile + i * 32 + 16) = c[i][1];
          if (last) store_pieces(y + (long)o * plane, tile, rows, pixel, width, plane, image);
        }
      }
    }
  }
}
