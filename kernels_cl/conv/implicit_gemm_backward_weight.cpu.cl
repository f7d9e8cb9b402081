// Weight gradient as a matrix product, CPU style: dw[o, k] = sum_p dy[o, p] im2col(x)[k, p] over the pixels p of all
// images,
// k = (channel, tap). One work-item: `channels` output channels x `columns` of k of one conv group over `share` pixels.
// Slabs of
// PIXELS pixels of both operands are loaded as pixel vectors and transposed 16 x 16 into local memory; the tile of dw
// stays
// there. Shares leave partial sums, which conv_sum_shares (conv/combine.cpu.cl) adds up in order (deterministic).
// Grid: (channels, columns, groups * shares).
#include "common/types.clh"
#include "common/transpose16.clh"
#include "conv/gather.clh"
#include "conv/weight_gradient.clh"

#define ROWS 128  // of a slab: pixels
#define PIXELS ROWS
typedef float packed_t;
typedef float16 packed16_t;
#define STEPS(k) (k)
#define ADD_STEP(c, v, b) c = fma(v, b, c)

// a[o / 16][pixel][16]
inline void pack_gradient(__global const T* dy, long image, int plane, long pixel, int count, int channels,
                          __local float* a) {
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
        EACH_LANE r[l] =
            o + l < channels ? load_pixels(dy + (long)(o + l) * plane, image, plane, pixel + p, lanes) : (float16)0;
      }
      TRANSPOSE16(float16, r)
      __local float* to = a + (o / 16 * PIXELS + p) * 16;
      EACH_LANE*(__local float16*)(to + l * 16) = r[l];
    }
}

// b[k / 32][pixel][32]; columns are filled up to a multiple of 32 with zeros.
inline void pack_columns(const GatherShape s, __global const T* x, int count, int columns, __local const Piece* pieces,
                         __local const int* first, __local const Tap* taps, __local float* b) {
  const int pointwise = is_pointwise(s), chunks = (count + 15) / 16;
  for (int j = 0; j < chunks; j++) {
    const int begin = first[j], end = first[j + 1],
              copied = pointwise && end - begin == 1 && pieces[begin].to - pieces[begin].from == 16;
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
        for (int l = 0; l < 16; l++)
          r[l] = l < rows ? load_views(&views, x, taps[k + l].channel, taps[k + l].number) : (float16)0;
#endif
      else
        for (int l = 0; l < 16; l++) r[l] = l < rows ? load_chunk(s, x, pieces, begin, end, taps + k + l) : (float16)0;
      TRANSPOSE16(float16, r)
      __local float* to = b + (k / 32 * PIXELS + j * 16) * 32 + (k & 16);
      EACH_LANE*(__local float16*)(to + l * 32) = r[l];
    }
  }
  if (((columns + 15) / 16) & 1)
    for (int p = 0; p < count; p++) *(__local float16*)(b + (columns / 32 * PIXELS + p) * 32 + 16) = (float16)0;
}

#include "conv/weight_gradient_kernel.clh"
