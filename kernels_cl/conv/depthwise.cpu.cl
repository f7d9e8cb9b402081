// Depthwise convolution (one KH x K filter per channel; square for stride 2), CPU style. One work-item: one channel of
// all images. Bands of rows are copied into a zero-bordered local image that is split into STRIDE x STRIDE phases, so
// that a tap is one constant displacement:
//   out[r, c] = sum_{i,j} w[i,j] image[i % S][j % S][r + i / S][c + j / S],  rows of `pitch` = out columns + (K - 1) /
//   S.
// Rows of 16 and more columns are swept row by row, the last vector overlapping its neighbour; narrower ones as one
// line over all
// rows, whose few columns between rows are computed and dropped.
//   conv_depthwise_gather    forward, and backward-data of stride 1 (flipped filter)
//   conv_depthwise_scatter   backward-data of stride 2: even and odd columns apart, interleaved on the way out
//   conv_depthwise_weight    backward-weight: KH x K vector accumulators
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
#define S STRIDE
#define IMAGE depthwise_image
#define BORDER 64
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define EVEN(a, b) SHUFFLE16(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) SHUFFLE16(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define ZIP_LOW(a, b) SHUFFLE16(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) SHUFFLE16(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOAD16(p, i) LOADV(DTYPE, float32, 16, p, i)
#define STORE16(p, i, v) STOREV(DTYPE, float32, 16, p, i, v)

// Displacement of tap (i, j); `plane`: floats of one phase.
#define TAP(i, j) ((((i) % S) * S + (j) % S) * plane + (i) / S * pitch + (j) / S)

inline void zero_row(__local float* to, int n) {
  for (int i = 0; i < n; i += 16) vstore16((float16)0, 0, to + i);
}

// Input rows from `top`, `rows` of them, into phases. Writes up to 47 floats past a row, which the next row (or slack)
// takes.
inline void fill_image(__global const T* x, __local float* image, int in_h, int in_w, int pad, int top, int rows,
                       int pitch, int plane) {
  for (int r = 0; r < rows; r++) {
    const int y = top + r, inside = y >= 0 && y < in_h;
    __global const T* from = x + (long)y * in_w;
#if S == 1
    __local float* to = image + r * pitch;
    if (!inside) {
      zero_row(to, pitch);
      continue;
    }
    vstore16((float16)0, 0, to);
    for (int c = 0; c < in_w; c += 16) vstore16(LOAD16(from, c), 0, to + pad + c);
    vstore16((float16)0, 0, to + pad + in_w);
    for (int c = pad + in_w + 16; c < pitch; c += 16) vstore16((float16)0, 0, to + c);
#else
    __local float* to = image + (r & 1) * 2 * plane + r / 2 * pitch;
    if (!inside) {
      zero_row(to, pitch);
      zero_row(to + plane, pitch);
      continue;
    }
    for (int c = 0; c < pitch; c += 16) {
      const int at = 2 * c - pad;
      float16 a = 0, b = 0;
      if (at < in_w) {
        a = LOAD16(from, at), b = LOAD16(from, at + 16);
        if (at < 0) a = select((float16)0, a, LANES >= -at);
        if (at + 32 > in_w)
          a = select((float16)0, a, LANES < in_w - at), b = select((float16)0, b, LANES < in_w - at - 16);
      }
      vstore16(EVEN(a, b), 0, to + c);
      vstore16(ODD(a, b), 0, to + plane + c);
    }
#endif
  }
}

inline void store_row(__global T* to, __local const float* from, int n) {
  int i = 0;
  for (; i + 16 <= n; i += 16) STORE16(to, i, vload16(0, from + i));
  if (n & 8) {
    STOREV(DTYPE, float32, 8, to, i, vload8(0, from + i));
    i += 8;
  }
  if (n & 4) {
    STOREV(DTYPE, float32, 4, to, i, vload4(0, from + i));
    i += 4;
  }
  for (; i < n; i++) STORE(DTYPE, float32, to, i, from[i]);
}

inline float16 sweep_at(__local const float* p, const float* w, int pitch, int plane) {
  float16 even = 0, odd = 0;  // two chains: a single one waits for its own latency
  _Pragma("unroll") for (int i = 0; i < KH; i++) {
    _Pragma("unroll") for (int j = 0; j < K; j++) {
      const float16 v = vload16(0, p + TAP(i, j));
      if ((i + j) & 1)
        odd = fma(v, (float16)w[i * K + j], odd);
      else
        even = fma(v, (float16)w[i * K + j], even);
    }
  }
  return even + odd;
}

inline float16 sweep_limited(__local const float* p, const float* w, int pitch, int plane, float bias, Limits limits) {
  const float16 sum = sweep_at(p, w, pitch, plane) + bias;
  return LIMIT(float16, sum, limits);
}

#if S == 1
#define ROWS 4
// ROWS rows of results below each other: a vector of the image is loaded once for all of them.
inline void sweep_rows(__local const float* p, const float* w, int pitch, float16* sums) {
  float16 a = 0, b = 0, c = 0, d = 0;
#define ADD_ROW(sum, m) \
  if (r >= m && r - m < KH) sum = fma(v, (float16)w[(r - m) * K + j], sum);
  _Pragma("unroll") for (int r = 0; r < KH + ROWS - 1; r++) {
    _Pragma("unroll") for (int j = 0; j < K; j++) {
      const float16 v = vload16(0, p + r * pitch + j);
      ADD_ROW(a, 0) ADD_ROW(b, 1) ADD_ROW(c, 2) ADD_ROW(d, 3)
    }
  }
  sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}
#endif

CPU_KERNEL void conv_depthwise_gather(global const T* restrict x, global const T* restrict filter,
                                      global const T* restrict bias, global T* restrict y, const Sweep s, int has_bias,
                                      int flip, const Limits limits) {
  local float image[IMAGE + S * S * BORDER];
  local float line[IMAGE / (S * S) + BORDER];
  const int c = get_group_id(0), pitch = s.pitch;
  float w[KH * K];
  for (int t = 0; t < KH * K; t++) w[t] = LOAD(DTYPE, float32, filter, (long)c * KH * K + (flip ? KH * K - 1 - t : t));
  const float b = has_bias ? LOAD(DTYPE, float32, bias, c) : 0;
  for (int n = 0; n < s.batch; n++)
    for (int r0 = 0; r0 < s.out_h; r0 += s.band) {
      const int rows = MIN_OF(s.band, s.out_h - r0), in_rows = (rows - 1) * S + KH,
                plane = ((in_rows + S - 1) / S) * pitch + 48;
      fill_image(x + ((long)n * s.channels + c) * s.in_h * s.in_w, image, s.in_h, s.in_w, s.pad_w, r0 * S - s.pad_h,
                 in_rows, pitch, plane);
      __global T* to = y + (((long)n * s.channels + c) * s.out_h + r0) * s.out_w;
      int r = 0;
#if S == 1
      if (s.out_w >= 16 || K > 3)  // narrow rows of small filters are better swept as one line
        for (; r + ROWS <= rows; r += ROWS, to += ROWS * s.out_w) {
          float16 sums[ROWS];
          for (int q = 0; q < s.out_w; q += 16) {
            const int at = s.out_w >= 16 ? MIN_OF(q, s.out_w - 16) : 0;
            sweep_rows(image + r * pitch + at, w, pitch, sums);
            _Pragma("unroll") for (int m = 0; m < ROWS; m++) {
              if (s.out_w >= 16) {
                STORE16(to + m * s.out_w, at, LIMIT(float16, sums[m] + b, limits));
              } else {
                *(__local float16*)line = LIMIT(float16, sums[m] + b, limits);
                store_row(to + m * s.out_w, line, s.out_w);
              }
            }
          }
        }
#endif
      if (s.out_w >= 16)
        for (; r < rows; r++, to += s.out_w) {
          for (int q = 0; q + 16 < s.out_w; q += 16)
            STORE16(to, q, sweep_limited(image + r * pitch + q, w, pitch, plane, b, limits));
          STORE16(to, s.out_w - 16, sweep_limited(image + r * pitch + s.out_w - 16, w, pitch, plane, b, limits));
        }
      else if (r < rows) {
        for (int q = 0; q < (rows - r) * pitch; q += 16)
          *(__local float16*)(line + q) = sweep_limited(image + r * pitch + q, w, pitch, plane, b, limits);
        for (int k = 0; k < rows - r; k++, to += s.out_w) store_row(to, line + k * pitch, s.out_w);
      }
    }
}

inline float sum_lanes(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
}

// sum[t] += d * image(tap t) over 16 positions, in the lanes of mask (everywhere when masked == 0).
#define ACCUMULATE_TAPS(p, d, masked, mask, first, last)                                 \
  _Pragma("unroll") for (int i = first; i < last; i++) {                                 \
    _Pragma("unroll") for (int j = 0; j < K; j++) {                                      \
      const float16 v = vload16(0, (p) + TAP(i, j));                                     \
      sum[i * K + j] = fma(d, masked ? select((float16)0, v, mask) : v, sum[i * K + j]); \
    }                                                                                    \
  }

CPU_KERNEL void conv_depthwise_weight(global const T* restrict x, global const T* restrict dy,
                                      global T* restrict filter, const Sweep s) {
  local float image[IMAGE + S * S * BORDER];
  local float line[IMAGE / (S * S) + BORDER];
  local int inside[IMAGE / (S * S) + BORDER];  // -1 in the columns of dy, 0 between its rows
  const int c = get_group_id(0), pitch = s.pitch, narrow = s.out_w < 16;
  float16 sum[KH * K];
  _Pragma("unroll") for (int t = 0; t < KH * K; t++) sum[t] = 0;
  if (narrow)
    for (int q = 0, column = 0; q < s.band * pitch + 16; q++) {
      inside[q] = column < s.out_w ? -1 : 0;
      if (++column == pitch) column = 0;
    }
  for (int n = 0; n < s.batch; n++)
    for (int r0 = 0; r0 < s.out_h; r0 += s.band) {
      const int rows = MIN_OF(s.band, s.out_h - r0), in_rows = (rows - 1) * S + KH,
                plane = ((in_rows + S - 1) / S) * pitch + 48;
      fill_image(x + ((long)n * s.channels + c) * s.in_h * s.in_w, image, s.in_h, s.in_w, s.pad_w, r0 * S - s.pad_h,
                 in_rows, pitch, plane);
      __global const T* from = dy + (((long)n * s.channels + c) * s.out_h + r0) * s.out_w;
      if (narrow) {
        for (int r = 0; r < rows; r++) vstore16(LOAD16(from, r * s.out_w), 0, line + r * pitch);
        for (int q = 0; q < rows * pitch; q += 16) {
          const int16 mask = *(__local int16*)(inside + q) & (LANES < rows * pitch - q);
          const float16 d = select((float16)0, *(__local float16*)(line + q), mask);
          ACCUMULATE_TAPS(image + q, d, 1, mask, 0, KH)
        }
      } else
        for (int r = 0; r < rows; r++, from += s.out_w) {
          int q = 0;
          for (; q + 16 <= s.out_w; q += 16) {
            const float16 d = LOAD16(from, q);
            ACCUMULATE_TAPS(image + r * pitch + q, d, 0, (int16)0, 0, KH)
          }
          if (q < s.out_w) {
            const int16 mask = LANES < s.out_w - q;
            const float16 d = select((float16)0, LOAD16(from, q), mask);
            ACCUMULATE_TAPS(image + r * pitch + q, d, 1, mask, 0, KH)
          }
        }
    }
  _Pragma("unroll") for (int t = 0; t < KH * K; t++)
      STORE(DTYPE, float32, filter, (long)c * KH * K + t, sum_lanes(sum[t]));
}

#if S == 1 && KH == K
// Backward-data of stride 2. dx column 2 m + phase - pad takes the taps j = phase, phase + 2, ... of dy column m - j /
// 2; rows alike.
// s.in_*: dy, s.out_*: dx, s.pad_*: padding of the forward pass; the image holds dy with (K - 1) / 2 zero rows and
// columns before it.
CPU_KERNEL void conv_depthwise_scatter(global const T* restrict dy, global const T* restrict filter,
                                       global T* restrict dx, const Sweep s) {
  local float image[IMAGE + BORDER];
  local float line[2 * IMAGE / K + 2 * BORDER];
  const int c = get_group_id(0), pitch = s.pitch, border = (K - 1) / 2, pairs = (s.out_w + s.pad_w + 1) / 2;
  float w[K * K];
  for (int t = 0; t < K * K; t++) w[t] = LOAD(DTYPE, float32, filter, (long)c * K * K + t);
  for (int n = 0; n < s.batch; n++)
    for (int y0 = 0; y0 < s.out_h; y0 += s.band) {
      const int rows = MIN_OF(s.band, s.out_h - y0), top = (y0 + s.pad_h) / 2 - border,
                in_rows = (y0 + rows - 1 + s.pad_h) / 2 - top + 1;
      fill_image(dy + ((long)n * s.channels + c) * s.in_h * s.in_w, image, s.in_h, s.in_w, border, top, in_rows, pitch,
                 0);
      __global T* to = dx + (((long)n * s.channels + c) * s.out_h + y0) * s.out_w;
      for (int y = y0; y < y0 + rows; y++, to += s.out_w) {
        const int first = (y + s.pad_h) & 1;
        __local const float* row = image + ((y + s.pad_h) / 2 - top) * pitch + border;
        for (int m = 0; m < pairs; m += 16) {
          float16 even = 0, odd = 0;
          for (int i = first; i < K; i += 2) {
            __local const float* p = row - i / 2 * pitch + m;
            _Pragma("unroll") for (int j = 0; j < K; j++) {
              const float16 v = vload16(0, p - j / 2);
              if (j & 1)
                odd = fma(v, (float16)w[i * K + j], odd);
              else
                even = fma(v, (float16)w[i * K + j], even);
            }
          }
          vstore16(ZIP_LOW(even, odd), 0, line + 2 * m);
          vstore16(ZIP_HIGH(even, odd), 0, line + 2 * m + 16);
        }
        store_row(to, line + s.pad_w, s.out_w);
      }
    }
}
#endif
