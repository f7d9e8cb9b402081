// Depthwise convolution (one KH x K filter per channel) of small images, CPU style: lanes are 16 channels, whose pixels
// are transposed in registers on the way in and out. Rows of few pixels would leave many lanes of
// conv/depthwise.cpu.cl's vectors unused.
//   conv_depthwise_planes            forward, and backward-data of stride 1 (flipped filter)
//   conv_depthwise_planes_scatter    backward-data of stride 2, x being dy
//   conv_depthwise_planes_weight     backward-weight, y being dy
// The image stands in local memory with a border of zeros, [rows][pitch][16 channels]. Grid: C / 16 by parts of the
// batch; the last: C / 16.
#include "params/conv.h"
#include "common/types.clh"
#include "common/transpose16.clh"
#include "conv/limits.clh"

#ifndef DTYPE
#define DTYPE float32
#define KH 3
#define K 3
#define STRIDE 1
#endif
#define T STORAGE(DTYPE)
#define PIXELS depthwise_pixels
#define RESULTS depthwise_results
#define LOAD16(p, i) LOADV(DTYPE, float32, 16, p, i)

// Pixels of one image [C][height][width] and 16 channels (the last one again for those that are missing) to image[row *
// pitch + column], from the pixel `at` on.
inline void load_planes(__global const T* x, int channels, int height, int width, int pitch, int at,
                        __local float* image) {
  const int pixels = height * width;
  int column = 0;
  for (int i = 0; i < pixels; i += 16) {
    float16 rows[16];
    _Pragma("unroll") for (int l = 0; l < 16; ++l) rows[l] = LOAD16(x + (long)MIN_OF(l, channels - 1) * pixels, i);
    TRANSPOSE16(float16, rows);
    for (int k = 0; k < 16 && i + k < pixels; ++k) {
      vstore16(rows[k], at, image);
      ++at;
      if (++column == width) column = 0, at += pitch - width;
    }
  }
}

inline void load_filters(__global const T* filter, int channels, int flip, float16* w) {
  for (int t = 0; t < KH * K; ++t) {
    float lanes[16];
    for (int l = 0; l < 16; ++l)
      lanes[l] = LOAD(DTYPE, float32, filter, (long)MIN_OF(l, channels - 1) * KH * K + (flip ? KH * K - 1 - t : t));
    w[t] = vload16(0, lanes);
  }
}

inline void zero_pixels(__local float* image, int pixels) {
  for (int i = 0; i < pixels; ++i) vstore16((float16)0, i, image);
}

inline void store_planes(__local const float* result, int channels, int pixels, __global T* y) {
  for (int i = 0; i < pixels; i += 16) {
    float16 rows[16];
    _Pragma("unroll") for (int k = 0; k < 16; ++k) rows[k] = vload16(i + k, result);
    TRANSPOSE16(float16, rows);
    if (i + 16 <= pixels) {
      for (int l = 0; l < channels; ++l) STOREV(DTYPE, float32, 16, y + (long)l * pixels, i, rows[l]);
      continue;
    }
    float last[256];
    _Pragma("unroll") for (int l = 0; l < 16; ++l) vstore16(rows[l], l, last);
    for (int l = 0; l < channels; ++l)
      for (int k = 0; i + k < pixels; ++k) STORE(DTYPE, float32, y + (long)l * pixels, i + k, last[l * 16 + k]);
  }
}

// Four results side by side: a pixel of the image is loaded once for all of them.
inline void sweep_pixels(__local const float* p, const float16* w, int pitch, float16 bias, Limits limits,
                         __local float* result) {
  float16 a = bias, b = bias, c = bias, d = bias;
#define ADD_COLUMN(sum, m) \
  if (j >= (m) * STRIDE && j - (m) * STRIDE < K) sum = fma(v, w[i * K + j - (m) * STRIDE], sum);
  _Pragma("unroll") for (int i = 0; i < KH; ++i) {
    _Pragma("unroll") for (int j = 0; j < K + 3 * STRIDE; ++j) {
      const float16 v = vload16(i * pitch + j, p);
      ADD_COLUMN(a, 0) ADD_COLUMN(b, 1) ADD_COLUMN(c, 2) ADD_COLUMN(d, 3)
    }
  }
  vstore16(LIMIT(float16, a, limits), 0, result);
  vstore16(LIMIT(float16, b, limits), 1, result);
  vstore16(LIMIT(float16, c, limits), 2, result);
  vstore16(LIMIT(float16, d, limits), 3, result);
}

CPU_KERNEL void conv_depthwise_planes(global const T* restrict x, global const T* restrict filter,
                                      global const T* restrict bias, global T* restrict y, const Sweep s, int has_bias,
                                      int flip, const Limits limits) {
  local float image[(PIXELS + 16) * 16];
  local float result[(RESULTS + 16) * 16];
  const int first = get_group_id(0) * 16, channels = MIN_OF(16, s.channels - first);
  float16 w[KH * K], offset = 0;
  load_filters(filter + (long)first * KH * K, channels, flip, w);
  if (has_bias) offset = LOAD16(bias, first);
  zero_pixels(image, s.band * s.pitch + 16);
  const long in = (long)s.in_h * s.in_w, out = (long)s.out_h * s.out_w;
  const int begin = (long)s.batch * get_group_id(1) / get_num_groups(1),
            end = (long)s.batch * (get_group_id(1) + 1) / get_num_groups(1);
  for (int n = begin; n < end; ++n) {
    load_planes(x + ((long)n * s.channels + first) * in, channels, s.in_h, s.in_w, s.pitch, s.pad_h * s.pitch + s.pad_w,
                image);
    // What lies past the end of a row is written again by the next one.
    for (int r = 0; r < s.out_h; ++r)
      for (int c = 0; c < s.out_w; c += 4)
        sweep_pixels(image + (r * STRIDE * s.pitch + c * STRIDE) * 16, w, s.pitch, offset, limits,
                     result + (r * s.out_w + c) * 16);
    store_planes(result, channels, out, y + ((long)n * s.channels + first) * out);
  }
}

#if STRIDE == 1
// Four pixels of dx two columns apart, all reached by the taps (PI, PJ), (PI, PJ + 2), (PI + 2, PJ), ...: p is the
// pixel of dy under the first of them.
#define SCATTER_PHASE(PI, PJ)                                                                            \
  inline void scatter_##PI##PJ(__local const float* p, const float16* w, int pitch, __local float* dx) { \
    float16 a = 0, b = 0, c = 0, d = 0;                                                                  \
    _Pragma("unroll") for (int i = 0; PI + 2 * i < KH; ++i) {                                            \
      _Pragma("unroll") for (int j = -((K - 1 - PJ) / 2); j < 4; ++j) {                                  \
        const float16 v = vload16(j - i * pitch, p);                                                     \
        ADD_PHASE(a, 0, PI, PJ) ADD_PHASE(b, 1, PI, PJ) ADD_PHASE(c, 2, PI, PJ) ADD_PHASE(d, 3, PI, PJ)  \
      }                                                                                                  \
    }                                                                                                    \
    vstore16(a, 0, dx);                                                                                  \
    vstore16(b, 2, dx);                                                                                  \
    vstore16(c, 4, dx);                                                                                  \
    vstore16(d, 6, dx);                                                                                  \
  }
#define ADD_PHASE(sum, m, PI, PJ) \
  if (m - j >= 0 && PJ + 2 * (m - j) < K) sum = fma(v, w[(PI + 2 * i) * K + PJ + 2 * (m - j)], sum);
SCATTER_PHASE(0, 0)
SCATTER_PHASE(0, 1)
SCATTER_PHASE(1, 0)
SCATTER_PHASE(1, 1)

// in_h and in_w are those of dy, out_h and out_w those of dx; padding is that of the forward pass. The border above and
// left of dy has (KH - 1) / 2 rows and (K - 1) / 2 columns.
CPU_KERNEL void conv_depthwise_planes_scatter(global const T* restrict x, global const T* restrict filter,
                                              global T* restrict y, const Sweep s) {
  local float image[(PIXELS + 16) * 16];
  local float result[(RESULTS + 16) * 16];
  const int first = get_group_id(0) * 16, channels = MIN_OF(16, s.channels - first), top = (KH - 1) / 2,
            left = (K - 1) / 2;
  float16 w[KH * K];
  load_filters(filter + (long)first * KH * K, channels, 0, w);
  zero_pixels(image, s.band * s.pitch + 16);
  const long in = (long)s.in_h * s.in_w, out = (long)s.out_h * s.out_w;
  const int begin = (long)s.batch * get_group_id(1) / get_num_groups(1),
            end = (long)s.batch * (get_group_id(1) + 1) / get_num_groups(1);
  for (int n = begin; n < end; ++n) {
    load_planes(x + ((long)n * s.channels + first) * in, channels, s.in_h, s.in_w, s.pitch, top * s.pitch + left,
                image);
    // What lies past the end of a row is written again by the next one.
    for (int r = 0; r < s.out_h; ++r)
      for (int phase = 0; phase < 2; ++phase)
        for (int c = phase; c < s.out_w; c += 8) {
          const int pi = (r + s.pad_h) & 1, pj = (c + s.pad_w) & 1;
          __local const float* p =
              image + ((top + (r + s.pad_h - pi) / 2) * s.pitch + left + (c + s.pad_w - pj) / 2) * 16;
          __local float* dx = result + (r * s.out_w + c) * 16;
          if (pi == 0 && pj == 0)
            scatter_00(p, w, s.pitch, dx);
          else if (pi == 0)
            scatter_01(p, w, s.pitch, dx);
          else if (pj == 0)
            scatter_10(p, w, s.pitch, dx);
          else
            scatter_11(p, w, s.pitch, dx);
        }
    store_planes(result, channels, out, y + ((long)n * s.channels + first) * out);
  }
}
#endif

CPU_KERNEL void conv_depthwise_planes_weight(global const T* restrict x, global const T* restrict y,
                                             global T* restrict filter, const Sweep s) {
  local float image[(PIXELS + 16) * 16];
  local float gradient[(RESULTS + 16) * 16];
  const int first = get_group_id(0) * 16, channels = MIN_OF(16, s.channels - first);
  float16 total[KH * K];
  for (int t = 0; t < KH * K; ++t) total[t] = 0;
  zero_pixels(image, s.band * s.pitch + 16);
  for (int n = 0; n < s.batch; ++n) {
    const long plane = (long)n * s.channels + first;
    load_planes(x + plane * s.in_h * s.in_w, channels, s.in_h, s.in_w, s.pitch, s.pad_h * s.pitch + s.pad_w, image);
    load_planes(y + plane * s.out_h * s.out_w, channels, s.out_h, s.out_w, s.out_w, 0, gradient);
    for (int i = 0; i < KH; ++i) {
      float16 sum[K];  // of one image: a long float32 chain loses digits
      _Pragma("unroll") for (int j = 0; j < K; ++j) sum[j] = 0;
      __local const float* d = gradient;
      for (int r = 0; r < s.out_h; ++r) {
        __local const float* p = image + (r * STRIDE + i) * s.pitch * 16;
        for (int c = 0; c < s.out_w; ++c, d += 16, p += STRIDE * 16) {
          const float16 v = vload16(0, d);
          _Pragma("unroll") for (int j = 0; j < K; ++j) sum[j] = fma(v, vload16(j, p), sum[j]);
        }
      }
      _Pragma("unroll") for (int j = 0; j < K; ++j) total[i * K + j] += sum[j];
    }
  }
  for (int t = 0; t < KH * K; ++t) {
    float lanes[16];
    vstore16(total[t], 0, lanes);
    for (int l = 0; l < channels; ++l) STORE(DTYPE, float32, filter, (long)(first + l) * KH * K + t, lanes[l]);
  }
}
