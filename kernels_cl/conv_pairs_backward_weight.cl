// Weight gradient as a matrix product, fat style: dw[o, k] = sum_p dy[o, p] im2col(x)[k, p] over the pixels p of all images,
// k = (channel, tap). One work-item: `channels` output channels x `columns` of k of one conv group over `share` pixels. Slabs of
// PIXELS pixels of both operands, two pixels in one word, are loaded as pixel vectors and transposed 16 x 16 into local memory; the tile of
// dw stays there. Shares leave partial sums, which conv_sum_shares (conv_combine.cl) adds up in order (deterministic).
// Grid: (channels, columns, groups * shares).
#include "common/types.clh"
#include "common/transpose16.clh"
#include "common/conv_gather_pairs.clh"

#ifndef RESULT
#define RESULT DTYPE  // dw, or float32 for partial sums
#endif
#define RESULT_TYPE STORAGE(RESULT)
#define ROWS 128  // of a slab
#define PIXELS (2 * ROWS)
#define CHUNK 32  // pixels of one transpose
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

// CHUNK pixels of dy as they lie in memory, and with `count` of them valid.
inline packed16_t load_whole(__global const T* at) { return load_pairs(at); }
inline packed16_t load_part(__global const T* dy, long image, int plane, long pixel, int count) {
  return join_halves(load_pixels(dy, image, plane, pixel, MIN_OF(16, count)), count > 16 ? load_pixels(dy, image, plane, pixel + 16, count - 16) : (float16)0);
}

// a[o / 16][row][16]
inline void pack_gradient(__global const T* dy, long image, int plane, long pixel, int count, int channels, __local packed_t* a) {
  for (int o = 0; o < channels; o += 16)
    for (int p = 0; p < count; p += CHUNK) {
      packed16_t r[16];
      const int lanes = MIN_OF(CHUNK, count - p);
      const long n = (pixel + p) / plane;
      const int at = pixel + p - n * plane;
      if (channels - o >= 16 && lanes == CHUNK && at + CHUNK <= plane) {
        __global const T* from = dy + n * image + (long)o * plane + at;
        EACH_LANE r[l] = load_whole(from + (long)l * plane);
      } else if (channels - o >= 16) {
        EACH_LANE r[l] = load_part(dy + (long)(o + l) * plane, image, plane, pixel + p, lanes);
      } else {
        EACH_LANE r[l] = o + l < channels ? load_part(dy + (long)(o + l) * plane, image, plane, pixel + p, lanes) : (packed16_t)0;
      }
      TRANSPOSE16(packed16_t, r)
      __local packed_t* to = a + (o / 16 * ROWS + p * 16 / CHUNK) * 16;
      EACH_LANE *(__local packed16_t*)(to + l * 16) = r[l];
    }
}

// CHUNK pixels from chunk j on of one tap.
inline packed16_t load_columns(const GatherShape s, __global const T* x, __local const Piece* pieces, __local const int* first, int j, int chunks, __local const Tap* t) {
  return join_halves(load_chunk(s, x, pieces, first[j], first[j + 1], t), j + 1 < chunks ? load_chunk(s, x, pieces, first[j + 1], first[j + 2], t) : (float16)0);
}

// b[k / 32][row][32]; columns are filled up to a multiple of 32 with zeros.
inline void pack_columns(const GatherShape s, __global const T* x, int count, int columns, __local const Piece* pieces, __local const int* first, __local const Tap* taps,
                         __local packed_t* b) {
  const int pointwise = is_pointwise(s), chunks = (count + 15) / 16;
  for (int k = 0; k < columns; k += 16)
    for (int j = 0; j < chunks; j += CHUNK / 16) {
      packed16_t r[16];
      if (pointwise && k + 16 <= columns && run_length(pieces, first, j, MIN_OF(chunks, j + CHUNK / 16)) == CHUNK / 16) {
        __global const T* from = x + pieces[first[j]].image + pieces[first[j]].x + taps[k].channel;
        EACH_LANE r[l] = load_whole(from + l * s.x_plane);
      } else
        for (int l = 0; l < 16; l++) r[l] = k + l < columns ? load_columns(s, x, pieces, first, j, chunks, taps + k + l) : (packed16_t)0;
      TRANSPOSE16(packed16_t, r)
      __local packed_t* to = b + (k / 32 * ROWS + j * 16 / (CHUNK / 16)) * 32 + (k & 16);
      EACH_LANE *(__local packed16_t*)(to + l * 32) = r[l];
    }
  if (((columns + 15) / 16) & 1)
    for (int p = 0; p < STEPS(count); p++) *(__local packed16_t*)(b + (columns / 32 * ROWS + p) * 32 + 16) = (packed16_t)0;
}

FAT_KERNEL void conv_backward_weight(TENSOR(const T, x), TENSOR(const T, dy), TENSOR(RESULT_TYPE, dw), const GatherShape s, int groups, int channels, int columns, int share,
                                     __local packed_t* restrict memory) {
  OPEN_RESTRICT(const T, x); OPEN_RESTRICT(const T, dy); OPEN_RESTRICT(RESULT_TYPE, dw);
  __local Piece pieces[PIXELS + PIXELS / 16];
  __local int first[PIXELS / 16 + 1];
  __local Tap taps[MAX_COLUMNS];
  const int group = get_group_id(2) % groups, part = get_group_id(2) / groups, plane = s.output[0] * s.output[1] * s.output[2];
  const int size = s.in_channels * s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  const int o0 = get_group_id(0) * channels, k0 = get_group_id(1) * columns, rows = MIN_OF(channels, s.out_channels - o0), width = MIN_OF(columns, size - k0);
  const long begin = (long)part * share, end = MIN_OF((long)s.batch * plane, begin + share), image = (long)s.out_channels * groups * plane;
  __local packed_t* restrict a_block = memory;
  __local packed_t* restrict b_block = a_block + channels * ROWS;
  __local float* restrict sums = (__local float*)(b_block + columns * ROWS);  // [o / 8][k / 32][8][32]
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
        __local const packed_t* restrict a = a_block + o / 16 * ROWS * 16 + (o & 8);
        __local const packed_t* restrict b = b_block + k / 32 * ROWS * 32;
        __local float* restrict sum = sums + (o / 8 * (columns / 32) + k / 32) * 256;
        float16 c[8][2];
        if (pixel > begin) {
          EACH_ROW c[i][0] = *(__local float16*)(sum + i * 32), c[i][1] = *(__local float16*)(sum + i * 32 + 16);
        } else {
          EACH_ROW c[i][0] = c[i][1] = (float16)0;
        }
        for (int p = 0; p < STEPS(count); p++, a += 16, b += 32) {
          const packed16_t b0 = *(__local const packed16_t*)b, b1 = *(__local const packed16_t*)(b + 16);
          EACH_ROW { const packed16_t v = (packed16_t)a[i]; ADD_PRODUCTS(c[i][0], v, b0); ADD_PRODUCTS(c[i][1], v, b1); }
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
