// Gradient of the input of a 3x3 convolution with stride 2 and padding 1 as four convolutions with stride 1, one per
// parity of the pixel:
//   dx[2i  ][2j  ] = w11 v00                          dx[2i  ][2j+1] = w12 v00 + w10 v01
//   dx[2i+1][2j  ] = w21 v00 + w01 v10                dx[2i+1][2j+1] = w22 v00 + w20 v01 + w02 v10 + w00 v11
// summed over the output channels, with the views v_ab = dy[i + a][j + b] (zero outside). No product with a stuffed
// zero is computed.
// All four parities of 4 input channels x 16 positions are accumulated together: 16 vectors, 4 loads and 36
// multiply-adds per output channel. Positions are linear over (image, i, j) of a part of the batch. The views are
// packed first, in one of two layouts:
//   planes  P[O][(n * (OH + 1) + i) * (OW + 1) + j]: one shared zero column and row, the views are unaligned loads; for
//   large images
//   panels  P[position / 16][O][view][16]: the four views are stored, no position is wasted; for small images
// Positions behind the last one hold zeros: what lies in unused memory may be denormal, and slows multiply-adds a
// hundredfold.
// The filters are packed too, as W[C / 4][O][4][9]: what a task reads one after another lies so.
#include "params/conv.h"
#include "common/types.clh"

#ifndef DTYPE
#define DTYPE float32
#endif

// Grid: O by images.
CPU_KERNEL void pack_planes(global const STORAGE(DTYPE) * restrict dy, global float* restrict packed, int height,
                            int width, long plane) {
  const int channel = get_group_id(0), channels = get_num_groups(0), image = get_group_id(1), pitch = width + 1;
  __global const STORAGE(DTYPE)* source = dy + ((long)image * channels + channel) * height * width;
  __global float* target = packed + channel * plane + (long)image * (height + 1) * pitch;
  for (int y = 0; y < height; ++y) {
    int x = 0;
    for (; x + 16 <= width; x += 16) vstore16(LOADV(DTYPE, float32, 16, source, x), 0, target + x);
    for (; x < width; ++x) target[x] = LOAD(DTYPE, float32, source, x);
    target[width] = 0;
    source += width;
    target += pitch;
  }
  // The zero row; after the last image all the rest of the plane.
  const long left =
      image + 1 == get_num_groups(1) ? plane - (long)get_num_groups(1) * (height + 1) * pitch + pitch : pitch;
  for (int x = 0; x < left; ++x) target[x] = 0;
}

// w [O, C, 9] to W[C / 4][O][4][9]. Grid: ceil(O / 16) by C / 64, rounded up.
CPU_KERNEL void pack_filters(global const STORAGE(DTYPE) * restrict w, global float* restrict packed, int out_channels,
                             int in_channels) {
  const int k0 = get_group_id(0) * 16, k1 = MIN_OF(out_channels, k0 + 16), c0 = get_group_id(1) * 64,
            c1 = MIN_OF(in_channels, c0 + 64);
  for (int c = c0; c < c1; c += 4)
    for (int k = k0; k < k1; ++k) {
      __global const STORAGE(DTYPE)* source = w + ((long)k * in_channels + c) * 9;
      __global float* target = packed + ((long)c / 4 * out_channels + k) * 36;
      vstore16(LOADV(DTYPE, float32, 16, source, 0), 0, target);
      vstore16(LOADV(DTYPE, float32, 16, source, 16), 0, target + 16);
      vstore4(LOADV(DTYPE, float32, 4, source, 32), 0, target + 32);
    }
}

#define STRIP 2048  // positions per task
#define VIEW_PITCH (STRIP + 32)

// Grid: O by ceil(positions / STRIP).
CPU_KERNEL void pack_panels(global const STORAGE(DTYPE) * restrict dy, global float* restrict packed, int height,
                            int width, int positions) {
  local float views[4 * VIEW_PITCH];
  const int channel = get_group_id(0), channels = get_num_groups(0), begin = get_group_id(1) * STRIP,
            end = MIN_OF(positions, begin + STRIP);
  const int area = height * width;
  for (int image = begin / area; image * area < end; ++image) {
    __global const STORAGE(DTYPE)* source = dy + ((long)image * channels + channel) * area;
    const int first = MAX_OF(0, begin - image * area),
              last = MIN_OF(area, end - image * area);  // pixels of this image in the strip
    for (int view = 0; view < 4; ++view) {
      const int dx = view & 1, shift = (view >> 1) * width + dx, inside = MIN_OF(last, area - shift);
      __local float* target = views + view * VIEW_PITCH + image * area - begin;
      for (int i = first; i < inside; i += 16) vstore16(LOADV(DTYPE, float32, 16, source, shift + i), 0, target + i);
      for (int i = MAX_OF(first, inside); i < last; ++i) target[i] = 0;
      if (dx != 0)
        for (int i = first / width * width + width - 1; i < last; i += width) target[i] = 0;
    }
  }
  for (int view = 0; view < 4; ++view)
    for (int i = end - begin; i % 16 != 0; ++i) views[view * VIEW_PITCH + i] = 0;
  for (int i = 0; i < end - begin; i += 16) {
    __global float* target = packed + ((long)((begin + i) / 16) * channels + channel) * 64;
#pragma unroll
    for (int view = 0; view < 4; ++view) vstore16(vload16(0, views + view * VIEW_PITCH + i), view, target);
  }
}

// A run of positions of one row: lanes [lane, lane + ceil(columns / 2)) go to `columns` pixels of row 2i at dx +
// target, and of row 2i + 1
// when there is one.
typedef struct {
  int lane, columns, two_rows, target;
} Piece;

// The pieces of 16 positions. Rows of the position grid are `pitch` long and `rows` per image, of which width x height
// are real.
inline int find_pieces(int position, int images, int rows, int pitch, int height, int width, int in_height,
                       int in_width, int channels, __local Piece* pieces) {
  int found = 0;
  for (int lane = 0; lane < 16;) {
    const int row = (position + lane) / pitch, x = position + lane - row * pitch, image = row / rows,
              y = row - image * rows;
    if (image >= images) break;
    const int length = MIN_OF(16 - lane, pitch - x), count = MIN_OF(length, width - x);
    if (count > 0 && y < height) {
      pieces[found].lane = lane;
      pieces[found].columns = MIN_OF(2 * count, in_width - 2 * x);
      pieces[found].two_rows = 2 * y + 1 < in_height;
      pieces[found++].target = (image * channels * in_height + 2 * y) * in_width + 2 * x;
    }
    lane += length;
  }
  return found;
}

#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) \
  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

inline void store_row(__local const float* in, int n, __global STORAGE(DTYPE) * out) {
  int i = 0;
  for (; i + 8 <= n; i += 8) STOREV(DTYPE, float32, 8, out, i, vload8(0, in + i));
  for (; i + 2 <= n; i += 2) STOREV(DTYPE, float32, 2, out, i, vload2(0, in + i));
  if (i < n) STORE(DTYPE, float32, out, i, in[i]);
}

// value[row parity * 2 + column parity] of 16 positions of one input channel.
inline void store_parities(const float16* value, int count, __local const Piece* pieces, __local float* scratch,
                           __global STORAGE(DTYPE) * dx, int width) {
  const float16 even0 = INTERLEAVE_LOW(value[0], value[1]), even1 = INTERLEAVE_HIGH(value[0], value[1]);
  const float16 odd0 = INTERLEAVE_LOW(value[2], value[3]), odd1 = INTERLEAVE_HIGH(value[2], value[3]);
  if (count == 1 && pieces[0].columns == 32 && pieces[0].two_rows) {
    __global STORAGE(DTYPE)* out = dx + pieces[0].target;
    STOREV(DTYPE, float32, 16, out, 0, even0);
    STOREV(DTYPE, float32, 16, out, 16, even1);
    STOREV(DTYPE, float32, 16, out, width, odd0);
    STOREV(DTYPE, float32, 16, out, width + 16, odd1);
    return;
  }
  vstore16(even0, 0, scratch);
  vstore16(even1, 1, scratch);
  vstore16(odd0, 2, scratch);
  vstore16(odd1, 3, scratch);
  for (int p = 0; p < count; ++p) {
    __global STORAGE(DTYPE)* out = dx + pieces[p].target;
    store_row(scratch + 2 * pieces[p].lane, pieces[p].columns, out);
    if (pieces[p].two_rows) store_row(scratch + 32 + 2 * pieces[p].lane, pieces[p].columns, out + width);
  }
}

#if NARROW_REGISTERS
// sum[4 input channels][parity] (+)= one tap of it, or two, over `channels` output channels, whose views are `channel`
// floats apart: what 16 registers of 32 bytes hold at once. w0, w1: the taps in [output channel][4][9]. Not inlined:
// Intel's compiler would keep some of the sums in memory.
__attribute__((noinline)) void add_tap(__global const float* restrict view, long channel,
                                       __global const float* restrict w, int channels, int first, float16* sum) {
  float16 s[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) s[i] = first ? (float16)0.0f : sum[i * 4];
  for (int k = 0; k < channels; ++k, view += channel, w += 36) {
    const float16 v = vload16(0, view);
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i] = fma((float16)(w[i * 9]), v, s[i]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i * 4] = s[i];
}
__attribute__((noinline)) void add_taps(__global const float* restrict view0, __global const float* restrict view1,
                                        long channel, __global const float* restrict w0,
                                        __global const float* restrict w1, int channels, int first, float16* sum) {
  float16 s[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) s[i] = first ? (float16)0.0f : sum[i * 4];
  for (int k = 0; k < channels; ++k, view0 += channel, view1 += channel, w0 += 36, w1 += 36) {
    const float16 v0 = vload16(0, view0);
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i] = fma((float16)(w0[i * 9]), v0, s[i]);
    const float16 v1 = vload16(0, view1);
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i] = fma((float16)(w1[i * 9]), v1, s[i]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i * 4] = s[i];
}
#else
#define ADD_TAP(tap, parity, v)                                     \
  _Pragma("unroll") for (int i = 0; i < 4; ++i) s[i * 4 + parity] = \
      fma((float16)(w[i * 9 + tap]), v, s[i * 4 + parity]);
#endif

// sum[4 input channels][4 parities] over all output channels; w[output channel][4][9]. Meanwhile `step` floats per
// output channel of what
// is multiplied later are brought to the second-level cache. Not inlined: Intel's compiler would keep some of the sums
// in memory.
__attribute__((noinline)) void multiply_panel(__global const float* restrict p, Layout layout,
                                              __global const float* restrict w, int channels,
                                              __global const float* later, int step, float16* sum) {
#if NARROW_REGISTERS
  // Blocks of channels whose views stay in the first-level cache.
  for (int begin = 0; begin < channels; begin += 32, p += 32 * layout.channel, w += 32 * 36) {
    const int count = MIN_OF(32, channels - begin), first = begin == 0;
    for (int k = 0; k < count; ++k, later += step)
      for (int i = 0; i < step; i += 16) PREFETCH_SECOND(later + i);
    add_taps(p, p + layout.view01, layout.channel, w + 8, w + 6, count, first, sum + 3);
    add_taps(p + layout.view10, p + layout.view11, layout.channel, w + 2, w, count, 0, sum + 3);
    add_taps(p, p + layout.view01, layout.channel, w + 5, w + 3, count, first, sum + 1);
    add_taps(p, p + layout.view10, layout.channel, w + 7, w + 1, count, first, sum + 2);
    add_tap(p, layout.channel, w + 4, count, first, sum);
  }
#else
  float16 s[16];  // in registers, whatever becomes of sum
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i] = (float16)0.0f;
  for (int k = 0; k < channels; ++k) {
    const float16 v00 = vload16(0, p), v01 = vload16(0, p + layout.view01), v10 = vload16(0, p + layout.view10),
                  v11 = vload16(0, p + layout.view11);
    ADD_TAP(4, 0, v00);
    ADD_TAP(5, 1, v00);
    ADD_TAP(7, 2, v00);
    ADD_TAP(8, 3, v00);
    ADD_TAP(3, 1, v01);
    ADD_TAP(6, 3, v01);
    ADD_TAP(1, 2, v10);
    ADD_TAP(2, 3, v10);
    ADD_TAP(0, 3, v11);
    for (int i = 0; i < step; i += 16) PREFETCH_SECOND(later + i);
    later += step;
    p += layout.channel;
    w += 36;
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) sum[i] = s[i];
#endif
}

// Grid: ceil(panels / panels_per_task) by groups of `channels_per_task` (a multiple of 4) input channels.
// Local memory: 16 pieces and their number per panel.
CPU_KERNEL void multiply_parities(global const float* restrict packed, global const float* restrict filters,
                                  global STORAGE(DTYPE) * restrict dx, Layout layout, int images, int rows, int pitch,
                                  int height, int width, int in_height, int in_width, int in_channels, int out_channels,
                                  int panels, int panels_per_task, int channels_per_task, local Piece* restrict pieces,
                                  local int* restrict counts) {
  local float scratch[64];
  const int first = get_group_id(0) * panels_per_task, count = MIN_OF(panels_per_task, panels - first);
  const int begin = get_group_id(1) * channels_per_task, end = MIN_OF(in_channels, begin + channels_per_task);
  for (int j = 0; j < count; ++j)
    counts[j] = find_pieces((first + j) * 16, images, rows, pitch, height, width, in_height, in_width, in_channels,
                            pieces + j * 16);
  const int step = (36 + count - 1) / count;  // the next filters, a part of them in each panel
  for (int c = begin; c < end; c += 4) {
    __global const float* w = filters + (long)c / 4 * out_channels * 36;
    for (int j = 0; j < count; ++j) {
      if (counts[j] == 0) continue;
      float16 sum[16];
      multiply_panel(packed + (first + j) * layout.panel, layout, w, out_channels, w + (36 + j * step) * out_channels,
                     step, sum);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        store_parities(sum + i * 4, counts[j], pieces + j * 16, scratch, dx + (long)(c + i) * in_height * in_width,
                       in_width);
    }
  }
}
