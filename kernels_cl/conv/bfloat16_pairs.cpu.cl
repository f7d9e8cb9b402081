// Implicit matrix product of bfloat16 pairs, CPU style: y[o, p] = bias[o] + sum_k w[o, k] im2col(x)[k, p], where p runs
// over all pixels of all images and k over (channel, tap). im2col exists only as slabs of KC rows in local memory.
//   conv_pack_weights  w -> packed[group][o / 8][k][8]; any strides and tap order, so that it also serves backward-data
//                      two steps of k in one word, an odd last one beside a zero; slabs are even
//   conv_multiply      one work-item: `pixels` pixels x `channels` output channels of one group
// Register tile 8 channels x 32 pixels. Groups of the grid: (pixels, channels, conv groups).
#include "common/types.clh"
#include "common/register_tile.clh"
#include "common/transpose16.clh"
#include "params/conv.h"
#include "conv/gather_pairs.clh"

inline ushort16 round16(float16 v) {
  ushort16 rounded;
  ROUND_PAIRS(rounded, v);
  return rounded;
}
#define STORE16(to, v) STORE_NARROW(ushort, 16, round16(v), to)
#define STORE16_LOCAL(to, v) STORE_NARROW_IN(__local, ushort, 16, round16(v), to)

typedef struct {
  int channel, a, b, c;
} TapWalk;

inline TapWalk next_tap(TapWalk t, int kd, int kh, int kw) {
  if (++t.c == kw) {
    t.c = 0;
    if (++t.b == kh) {
      t.b = 0;
      if (++t.a == kd) t.a = 0, t.channel++;
    }
  }
  return t;
}
inline long tap_element(const WeightMap m, TapWalk t) {
  return t.channel * m.in + m.base + t.a * m.tap[0] + t.b * m.tap[1] + t.c * m.tap[2];
}

// Grid: (ceil(out / 8), ceil(k / 512), groups).
CPU_KERNEL void conv_pack_weights(global const T* restrict w, global packed_t* restrict packed, const GatherShape s,
                                  const WeightMap m) {
  const int o = get_group_id(0) * 8, taps = s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2],
            size = s.in_channels * taps;
  __global const T* from = w + get_group_id(2) * m.group + o * m.out;
  __global packed_t* to = packed + ((long)get_group_id(2) * get_num_groups(0) + get_group_id(0)) * STEPS(size) * 8;
  int k = get_group_id(1) * 512;
  const int end = MIN_OF(size, k + 512), rows = MIN_OF(8, s.out_channels - o);
  const int in_order = m.base == 0 && m.tap[2] == 1 && m.tap[1] == s.kernel_size[2] &&
                       m.tap[0] == s.kernel_size[1] * s.kernel_size[2] && m.in == taps;
  if (in_order && rows == 8)
    for (; k + 32 <= end; k += 32) {
      uint16 r[16];
      _Pragma("unroll") for (int l = 0; l < 16; l++) r[l] = l < 8 ? load_pairs(from + l * m.out + k) : (uint16)0;
      TRANSPOSE16(uint16, r)
      _Pragma("unroll") for (int l = 0; l < 16; l++) vstore8(r[l].lo, k / 2 + l, to);
    }
  if (taps == 1 && m.out == 1 && rows == 8) {
    if (get_group_id(0) & 1) return;
    const int both = o + 16 <= s.out_channels;
    for (; k < end; k += 2) {
      const uint16 v =
          join_rows(vload16(0, from + k * m.in), k + 1 < end ? vload16(0, from + (k + 1) * m.in) : (ushort16)0);
      vstore8(v.lo, k / 2, to);
      if (both) vstore8(v.hi, k / 2, to + (long)STEPS(size) * 8);
    }
    return;
  }
  const int kd = s.kernel_size[0], kh = s.kernel_size[1], kw = s.kernel_size[2];
  TapWalk t = {k / taps, k / (kh * kw) % kd, k / kw % kh, k % kw};
  for (; k < end; k += 2) {
    __global const T* low = from + tap_element(m, t);
    t = next_tap(t, kd, kh, kw);
    const int has_high = k + 1 < end;
    __global const T* high = has_high ? from + tap_element(m, t) : low;
    t = next_tap(t, kd, kh, kw);
    if (rows == 8 && has_high) {
      _Pragma("unroll") for (int l = 0; l < 8; l++) to[k * 4 + l] = low[l * m.out] | (uint)high[l * m.out] << 16;
    } else {
      for (int l = 0; l < 8; l++)
        to[k * 4 + l] = l < rows ? low[l * m.out] | (has_high ? (uint)high[l * m.out] << 16 : 0) : 0;
    }
  }
}

// Stores columns [0, count) of an 8 x 32 tile whose pixels continue over image borders. y: channel 0 of the tile, image
// 0.
inline void store_pieces(__global T* y, __local const T* tile, int rows, long pixel, int count, int plane, long image) {
  for (int l = 0; l < count;) {
    const long n = (pixel + l) / plane;
    const int at = pixel + l - n * plane, length = MIN_OF(count - l, plane - at);
    for (int i = 0; i < rows; i++) {
      __global T* to = (y + n * image + (long)i * plane + at);
      __local const T* from = (tile + i * 32 + l);
      if (length >= 8)
        for (int t = 0; t < length; t += 8) {
          const int u = MIN_OF(t, length - 8);  // the last eight may come twice
          STORE_NARROW(ushort, 8, vload8(0, from + u), to + u);
        }
      else
        for (int t = 0; t < length; t++) to[t] = from[t];
    }
    l += length;
  }
}

#define EACH_ROW _Pragma("unroll") for (int i = 0; i < 8; i++)
#define B_AT(p, y) *(__local const packed16_t*)((p) + (y) * 16)

CPU_KERNEL void conv_multiply(global const T* restrict x, global const packed_t* restrict packed,
                              global const T* restrict bias, global T* restrict y, const GatherShape s, int has_bias,
                              int channels, int pixels, int depth, local packed_t* restrict memory) {
  local Piece pieces[MAX_PIXELS + MAX_PIXELS / 16];
  local int first[MAX_PIXELS / 16 + 1];
  local Tap taps[MAX_DEPTH];
  local T edge[8 * 32];
  const int group = get_group_id(2), plane = s.output[0] * s.output[1] * s.output[2];
  const int size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  const long pixel0 = (long)get_group_id(0) * pixels, image = (long)s.out_channels * get_num_groups(2) * plane;
  const int count = MIN_OF((long)pixels, (long)s.batch * plane - pixel0), chunks = (count + 15) / 16,
            panels = (count + 31) / 32;
  const int o0 = get_group_id(1) * channels, o1 = MIN_OF(s.out_channels, o0 + channels);
  x += (long)group * s.in_channels * s.x_plane;
  y += (long)group * s.out_channels * plane;
  packed += (long)group * ((s.out_channels + 7) / 8) * STEPS(size) * 8;
  __local float* restrict sums =
      (__local float*)(memory + panels * 32 * STEPS(depth));  // [o / 8][panel][8][32], only used between slabs
  find_pieces(s, pixel0, count, pieces, first);
  for (int k0 = 0; k0 < size; k0 += depth) {
    const int kc = MIN_OF(depth, size - k0), steps = STEPS(kc), last = k0 + kc == size;
    find_taps(s, k0, kc, taps);
    gather_pixels(s, x, chunks, kc, pieces, first, taps, memory);
    for (int panel = 0; panel < panels; panel++) {
      const long pixel = pixel0 + panel * 32, n = pixel / plane;
      const int at = pixel - n * plane, width = MIN_OF(32, count - panel * 32), whole = width == 32 && at + 32 <= plane;
      for (int o = o0; o < o1; o += 8) {
        __global const packed_t* restrict a = packed + ((long)(o / 8) * STEPS(size) + STEPS(k0)) * 8;
        __local const packed_t* restrict b = memory + panel * steps * 32;
        __local float* restrict sum = sums + ((o - o0) / 8 * panels + panel) * 256;
        const int rows = MIN_OF(8, s.out_channels - o);
        float16 c[8][2];
        if (k0) {
          EACH_ROW c[i][0] = *(__local float16*)(sum + i * 32), c[i][1] = *(__local float16*)(sum + i * 32 + 16);
        } else {
          EACH_ROW c[i][0] = c[i][1] =
              (float16)(has_bias && i < rows ? LOAD(DTYPE, float32, bias, group * s.out_channels + o + i) : 0.0f);
        }
        REGISTER_TILE(packed16_t, float16, c, steps, width > 16 ? 2 : 1, a, 8, NEXT_ELEMENT, b, 32, B_AT, ADD_PRODUCTS)
        if (last && whole && rows == 8) {
          __global T* to = y + n * image + (long)o * plane + at;
          EACH_ROW {
            STORE16(to + (long)i * plane, c[i][0]);
            STORE16(to + (long)i * plane + 16, c[i][1]);
          }
        } else if (last) {
          EACH_ROW {
            STORE16_LOCAL(edge + i * 32, c[i][0]);
            STORE16_LOCAL(edge + i * 32 + 16, c[i][1]);
          }
          store_pieces(y + (long)o * plane, edge, rows, pixel, width, plane, image);
        } else {
          EACH_ROW*(__local float16*)(sum + i * 32) = c[i][0], *(__local float16*)(sum + i * 32 + 16) = c[i][1];
        }
      }
    }
  }
}
