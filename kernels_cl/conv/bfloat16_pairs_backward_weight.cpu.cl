// Weight gradient as a matrix product, CPU style: dw[o, k] = sum_p dy[o, p] im2col(x)[k, p] over the pixels p of all
// images,
// k = (channel, tap). One work-item: `channels` output channels x `columns` of k of one conv group over `share` pixels.
// Slabs of
// PIXELS pixels of both operands, two pixels in one word, are loaded as pixel vectors and transposed 16 x 16 into local
// memory; the tile of
// dw stays there. Shares leave partial sums, which conv_sum_shares (conv/combine.cpu.cl) adds up in order
// (deterministic).
// Grid: (channels, columns, groups * shares).
#include "common/types.clh"
#include "common/transpose16.clh"
#include "conv/gather_pairs.clh"
#include "conv/weight_gradient.clh"

#define ROWS 128  // of a slab
#define PIXELS (2 * ROWS)
#define ADD_STEP(c, v, b) ADD_PRODUCTS(c, v, b)
#define CHUNK 32  // pixels of one transpose

// CHUNK pixels of dy as they lie in memory, and with `count` of them valid.
inline packed16_t load_whole(__global const T* at) { return load_pairs(at); }
inline packed16_t load_part(__global const T* dy, long image, int plane, long pixel, int count) {
  return join_halves(load_pixels(dy, image, plane, pixel, MIN_OF(16, count)),
                     count > 16 ? load_pixels(dy, image, plane, pixel + 16, count - 16) : (float16)0);
}

// a[o / 16][row][16]
inline void pack_gradient(__global const T* dy, long image, int plane, long pixel, int count, int channels,
                          __local packed_t* a) {
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
        EACH_LANE r[l] =
            o + l < channels ? load_part(dy + (long)(o + l) * plane, image, plane, pixel + p, lanes) : (packed16_t)0;
      }
      TRANSPOSE16(packed16_t, r)
      __local packed_t* to = a + (o / 16 * ROWS + p * 16 / CHUNK) * 16;
      EACH_LANE*(__local packed16_t*)(to + l * 16) = r[l];
    }
}

// CHUNK pixels from chunk j on of one tap.
inline packed16_t load_columns(const GatherShape s, __global const T* x, __local const Piece* pieces,
                               __local const int* first, int j, int chunks, __local const Tap* t) {
  return join_halves(load_chunk(s, x, pieces, first[j], first[j + 1], t),
                     j + 1 < chunks ? load_chunk(s, x, pieces, first[j + 1], first[j + 2], t) : (float16)0);
}

// b[k / 32][row][32]; columns are filled up to a multiple of 32 with zeros.
inline void pack_columns(const GatherShape s, __global const T* x, int count, int columns, __local const Piece* pieces,
                         __local const int* first, __local const Tap* taps, __local packed_t* b) {
  const int pointwise = is_pointwise(s), chunks = (count + 15) / 16;
  for (int k = 0; k < columns; k += 16)
    for (int j = 0; j < chunks; j += CHUNK / 16) {
      packed16_t r[16];
      if (pointwise && k + 16 <= columns &&
          run_length(pieces, first, j, MIN_OF(chunks, j + CHUNK / 16)) == CHUNK / 16) {
        __global const T* from = x + pieces[first[j]].image + pieces[first[j]].x + taps[k].channel;
        EACH_LANE r[l] = load_whole(from + l * s.x_plane);
      } else
        for (int l = 0; l < 16; l++)
          r[l] = k + l < columns ? load_columns(s, x, pieces, first, j, chunks, taps + k + l) : (packed16_t)0;
      TRANSPOSE16(packed16_t, r)
      __local packed_t* to = b + (k / 32 * ROWS + j * 16 / (CHUNK / 16)) * 32 + (k & 16);
      EACH_LANE*(__local packed16_t*)(to + l * 32) = r[l];
    }
  if (((columns + 15) / 16) & 1)
    for (int p = 0; p < STEPS(count); p++)
      *(__local packed16_t*)(b + (columns / 32 * ROWS + p) * 32 + 16) = (packed16_t)0;
}

#include "conv/weight_gradient_kernel.clh"
