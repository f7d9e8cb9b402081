// Weight gradient as a matrix product, fat style: dw[o, k] = sum_p dy[o, p] im2col(x)[k, p] over the pixels p of all images,
// k = (channel, tap). One work-item: `channels` output channels x `columns` of k of one conv group over `share` pixels. Slabs of
// PIXELS pixels of both operands are loaded as pixel vectors and transposed 16 x 16 into local memory; the tile of dw stays
// there. Shares leave partial sums, which conv_sum_shares (conv_combine.cl) adds up in order (deterministic).
// Grid: (channels, columns, groups * shares).
#include "common/types.clh"
#include "common/transpose16.clh"
#include "common/conv_gather.clh"

#ifndef RESULT
#define RESULT DTYPE  // dw, or float32 for partial sums
#endif
#define RESULT_TYPE STORAGE(RESULT)
#define PIXELS 128
#define MAX_COLUMNS 256
#define EACH_ROW _Pragma("unroll") for (int i = 0; i < 8; i++)
#define EACH_LANE _Pragma("unroll") for (int l = 0; l < 16; l++)

// 16 pixels of dy of one channel, the first `count` of them valid; dy: the channel in image 0.
inline float16 load_pixels(__global const T* dy, long image, int plane, long pixel, int count) {
  const long n = pixel / plane;
  int r = pixel - n * plane;
  __global const T* at = dy + n * image + r;
  float16 v = LOADV(DTYPE, float32, 16, at, 0);
  if (r + count > plane)
    for (int l = plane - r; l < count; l += plane) {
      at += image - plane;
      v = select(v, LOADV(DTYPE, float32, 16, at, 0), LANES >= l);
    }
  return count < 16 ? select((float16)0, v, LANES < count) : v;
}

// a[o / 16][pixel][16]
inline void pack_gradient(__global const T* dy, long image, int plane, long pixel, int count, int channels, __local float* a) {
  for (int o = 0; o < channels; o += 16)
    for (int p = 0; p < count; p += 16) {
      float16 r[16];
      const int lanes = MIN_OF(16, count - p);
      const long n = (pixel + p) / plane;
      const int at = pixel + p - n * plane;
      if (channels - o >= 16 && lanes == 16 && at + 16 <= plane) {
        __global const T* from = dy + n * image + (long)o * plane + at;
        EACH_LANE r[l] = LOADV(DTYPE, float32, 16, from, (long)l * plane);
      } else if (channels - o >= 16) {
        EACH_LANE r[l] = load_pixels(dy + (long)(o + l) * plane, image, plane, pixel + p, lanes);
      } else {
        EACH_LANE r[l] = o + l < channels ? load_pixels(dy + (long)(o + l) * plane, image, plane, pixel + p, lanes) : (float16)0;
      }
      TRANSPOSE16(float16, r)
      __local float* to = a + (o / 16 * PIXELS + p) * 16;
      EACH_LANE *(__local float16*)(to + l * 16) = r[l];
    }
}

// b[k / 32][pixel][32]; columns are filled up to a multiple of 32 with zeros.
inline void pack_columns(const GatherShape s, __global const T* x, int count, int columns, __local const Piece* pieces, __local const int* first, __local const Tap* taps,
                         __local float* b) {
  const int pointwise = is_pointwise(s), chunks = (count + 15) / 16;
  for (int j = 0; j < chunks; j++) {
    const int begin = first[j], end = first[j + 1], copied = pointwise && end - begin == 1 && pieces[begin].to - pieces[begin].from == 16;
#if STRIDE != 0
    Views views;
    const int found = !copied && find_views(s, pieces + begin, end - begin, &views);
#endif
    for (int k = 0; k < columns; k += 16) {
      float16 r[16];
      const int rows = MIN_OF(16, columns - k);
      if (copied && rows == 16) {
        __global const T* from = x + pieces[begin].image + pieces[begin].x + taps[k].channel;
        EACH_LANE r[l] = LOADV(DTYPE, float32, 16, from, l * s.x_plane);
      }
#if STRIDE != 0
      else if (found)
        for (int l = 0; l < 16; l++) r[l] = l < rows ? load_views(&views, x, taps[k + l].channel, taps[k + l].number) : (float16)0;
#endif
      else
        for (int l = 0; l < 16; l++) r[l] = l < rows ? load_chunk(s, x, pieces, begin, end, taps + k + l) : (float16)0;
      TRANSPOSE16(float16, r)
      __local float* to = b + (k / 32 * PIXELS + j * 16) * 32 + (k & 16);
      EACH_LANE *(__local float16*)(to + l * 32) = r[l];
    }
  }
  if (((columns + 15) / 16) & 1)
    for (int p = 0; p < count; p++) *(__local float16*)(b + (columns / 32 * PIXELS + p) * 32 + 16) = (float16)0;
}

FAT_KERNEL void conv_backward_weight(TENSOR(const T, x), TENSOR(const T, dy), TENSOR(RESULT_TYPE, dw), const GatherShape s, int groups, int channels, int columns, int share,
                                     __local float* restrict memory) {
  OPEN_RESTRICT(const T, x); OPEN_RESTRICT(const T, dy); OPEN_RESTRICT(RESULT_TYPE, dw);
  __local Piece pieces[PIXELS + PIXELS / 16];
  __local int first[PIXELS / 16 + 1];
  __local Tap taps[MAX_COLUMNS];
  const int group = get_group_id(2) % groups, part = get_group_id(2) / groups, plane = s.output[0] * s.output[1] * s.output[2];
  const int size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  const int o0 = get_group_id(0) * channels, k0 = get_group_id(1) * columns, rows = MIN_OF(channels, s.out_channels - o0), width = MIN_OF(columns, size - k0);
  const long begin = (long)part * share, end = MIN_OF((long)s.batch * plane, begin + share), image = (long)s.out_channels * groups * plane;
  __local float* restrict a_block = memory;
  __local float* restrict b_block = a_block + channels * PIXELS;
  __local float* restrict sums = b_block + columns * PIXELS;  // [o / 8][k / 32][8][32]
  x += (long)group * s.in_channels * s.x_plane;
  dy += ((long)group * s.out_channels + o0) * plane;
  find_taps(s, k0, width, taps);
  for (long pixel = begin; pixel < end; pixel += PIXELS) {
    const int count = MIN_OF((long)PIXELS, end - pixel);
    find_pieces(s, pixel, count, pieces, first);
    pack_gradient(dy, image, plane, pixel, count, rows, a_block);
    pack_columns(s, x, count, width, pieces, first, taps, b_block);
    for (int k = 0; k < width; k += 32)
      for (int o = 0; o < rows; o += 8) {
        __local const float* restrict a = a_block + o / 16 * PIXELS * 16 + (o & 8);
        __local const float* restrict b = b_block + k / 32 * PIXELS * 32;
        __local float* restrict sum = sums + (o / 8 * (columns / 32) + k / 32) * 256;
        float16 c[8][2];
        if (pixel > begin) {
          EACH_ROW c[i][0] = *(__local float16*)(sum + i * 32), c[i][1] = *(__local float16*)(sum + i * 32 + 16);
        } else {
          EACH_ROW c[i][0] = c[i][1] = (float16)0;
        }
        for (int p = 0; p < count; p++, a += 16, b += 32) {
          const float16 b0 = *(__local const float16*)b, b1 = *(__local const float16*)(b + 16);
          EACH_ROW { const float16 v = (float16)a[i]; c[i][0] = fma(v, b0, c[i][0]); c[i][1] = fma(v, b1, c[i][1]); }
        }
        EACH_ROW *(__local float16*)(sum + i * 32) = c[i][0], *(__local float16*)(sum + i * 32 + 16) = c[i][1];
      }
  }
  dw += ((long)get_group_id(2) * s.out_channels + o0) * size + k0;
  for (int o = 0; o < rows; o++)
    for (int k = 0; k < width; k += 16) {
      __local const float* from = sums + (o / 8 * (columns / 32) + k / 32) * 256 + (o & 7) * 32 + (k & 16);
      if (k + 16 <= width) STOREV(RESULT, float32, 16, dw, (long)o * size + k, *(__local const float16*)from);
      else for (int l = 0; l < width - k; l++) STORE(RESULT, float32, dw, (long)o * size + k + l, from[l]);
    }
}
