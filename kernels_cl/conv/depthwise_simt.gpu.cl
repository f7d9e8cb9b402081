// Depthwise convolution (one filter per channel), SIMT style, two dimensions.
//   conv_depthwise_simt_forward        one work-item per result; grid: (pixels, channels, images), channels last:
//   (channels * pixels, 1, images) conv_depthwise_simt_backward_data  the same over the input
//   conv_depthwise_simt_weight         dw[part, c, i, j] over a share of the images (channels last: of their rows): a
//   group of 256 work-items per
//                                      (tap row, channel or LAST_CHANNELS channels, part); conv_simt_sum adds the parts
// Defines: DTYPE, ACCUMULATE, KW; CHANNELS_LAST; STRIDE_H, STRIDE_W (0: only known at run time).
#include "params/conv.h"
#include "common/types.clh"

#ifndef DTYPE
#define DTYPE float32
#define ACCUMULATE float32
#define KW 3
#define CHANNELS_LAST 0
#define STRIDE_H 1
#define STRIDE_W 1
#endif
#define T STORAGE(DTYPE)
#define A VALUE(ACCUMULATE)
#define AT(p, i) LOAD(DTYPE, ACCUMULATE, p, i)
#define GROUP 256
#define LAST_CHANNELS 32
#if STRIDE_H
#define STRIDE_OF_ROWS STRIDE_H
#else
#define STRIDE_OF_ROWS s.stride_h
#endif
#if STRIDE_W
#define STRIDE_OF_COLUMNS STRIDE_W
#else
#define STRIDE_OF_COLUMNS s.stride_w
#endif

// Channel and pixel of a work-item; where a plane's pixel 0 lies, and the distance to its next pixel.
#if CHANNELS_LAST
#define LOCATE const int at = get_global_id(0), pixel = at / s.channels, c = at - pixel * s.channels;
#define PLANE(n, c, pixels) ((long)(n) * (pixels) * s.channels + (c))
#define PIXEL s.channels
#else
#define LOCATE const int pixel = get_global_id(0), c = get_global_id(1);
#define PLANE(n, c, pixels) (((long)(n) * s.channels + (c)) * (pixels))
#define PIXEL 1
#endif

kernel void conv_depthwise_simt_forward(global const T* x, global const T* w, global const T* bias, global T* y,
                                        const Depthwise s, int has_bias) {
  LOCATE
  const int row = pixel / s.out_w, column = pixel - row * s.out_w;
  if (row >= s.out_h) return;
  x += PLANE(get_global_id(2), c, s.in_h * s.in_w);
  w += (long)c * s.kh * KW;
  const int y0 = row * STRIDE_OF_ROWS - s.pad_h, x0 = column * STRIDE_OF_COLUMNS - s.pad_w;
  A sum = has_bias ? AT(bias, c) : (A)0;
  for (int i = 0; i < s.kh; i++) {
    const int iy = y0 + i * s.dilation_h;
    if (iy < 0 || iy >= s.in_h) continue;
    _Pragma("unroll") for (int j = 0; j < KW; j++) {
      const int ix = x0 + j * s.dilation_w;
      if (ix >= 0 && ix < s.in_w) sum = fma(AT(x, (long)(iy * s.in_w + ix) * PIXEL), AT(w, i * KW + j), sum);
    }
  }
  STORE(DTYPE, ACCUMULATE, y, PLANE(get_global_id(2), c, s.out_h * s.out_w) + (long)pixel * PIXEL, sum);
}

kernel void conv_depthwise_simt_backward_data(global T* x, global const T* w, global const T* y, const Depthwise s) {
  LOCATE
  const int row = pixel / s.in_w, column = pixel - row * s.in_w;
  if (row >= s.in_h) return;
  y += PLANE(get_global_id(2), c, s.out_h * s.out_w);
  w += (long)c * s.kh * KW;
  A sum = 0;
  for (int i = 0; i < s.kh; i++) {
    const int ty = row + s.pad_h - i * s.dilation_h, oy = ty / STRIDE_OF_ROWS;
    if (ty < 0 || oy * STRIDE_OF_ROWS != ty || oy >= s.out_h) continue;
    _Pragma("unroll") for (int j = 0; j < KW; j++) {
      const int tx = column + s.pad_w - j * s.dilation_w, ox = tx / STRIDE_OF_COLUMNS;
      if (tx >= 0 && ox * STRIDE_OF_COLUMNS == tx && ox < s.out_w)
        sum = fma(AT(y, (long)(oy * s.out_w + ox) * PIXEL), AT(w, i * KW + j), sum);
    }
  }
  STORE(DTYPE, ACCUMULATE, x, PLANE(get_global_id(2), c, s.in_h * s.in_w) + (long)pixel * PIXEL, sum);
}

// Adds the products of output pixel (row, column) with tap row i.
inline void add_products(A* sum, __global const T* x, __global const T* y, const Depthwise s, int i, int row,
                         int column) {
  const int iy = row * STRIDE_OF_ROWS - s.pad_h + i * s.dilation_h, x0 = column * STRIDE_OF_COLUMNS - s.pad_w;
  if (iy < 0 || iy >= s.in_h) return;
  const A d = AT(y, (long)(row * s.out_w + column) * PIXEL);
  _Pragma("unroll") for (int j = 0; j < KW; j++) {
    const int ix = x0 + j * s.dilation_w;
    if (ix >= 0 && ix < s.in_w) sum[j] = fma(d, AT(x, (long)(iy * s.in_w + ix) * PIXEL), sum[j]);
  }
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_depthwise_simt_weight(
    global const T* x, global A* dw, global const T* y, const Depthwise s, int parts) {
  __local A sums[GROUP];
  const int id = get_local_id(0), i = get_group_id(0), part = get_group_id(2), in_pixels = s.in_h * s.in_w,
            out_pixels = s.out_h * s.out_w;
  A sum[KW];
  for (int j = 0; j < KW; j++) sum[j] = 0;
#if CHANNELS_LAST
  const int lanes = LAST_CHANNELS, c = get_group_id(1) * LAST_CHANNELS + id % LAST_CHANNELS, rows = s.batch * s.out_h;
  if (c < s.channels)
    for (int r = (long)rows * part / parts; r < (long)rows * (part + 1) / parts; r++) {
      const int n = r / s.out_h, row = r - n * s.out_h;
      for (int column = id / LAST_CHANNELS; column < s.out_w; column += GROUP / LAST_CHANNELS)
        add_products(sum, x + PLANE(n, c, in_pixels), y + PLANE(n, c, out_pixels), s, i, row, column);
    }
#else
  const int lanes = 1, c = get_group_id(1);
  for (int n = (long)s.batch * part / parts; n < (long)s.batch * (part + 1) / parts; n++)
    for (int p = id; p < out_pixels; p += GROUP) {
      const int row = p / s.out_w;
      add_products(sum, x + PLANE(n, c, in_pixels), y + PLANE(n, c, out_pixels), s, i, row, p - row * s.out_w);
    }
#endif
  dw += (long)part * s.channels * s.kh * KW;
  for (int j = 0; j < KW; j++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[id] = sum[j];
    for (int half_size = GROUP / 2; half_size >= lanes; half_size /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (id < half_size) sums[id] += sums[id + half_size];
    }
    if (id < lanes && c < s.channels) dw[((long)c * s.kh + i) * KW + j] = sums[id];
  }
}
