// Depthwise convolution (one filter per channel), SIMT style, two dimensions, channels first.
//   conv_depthwise_simt_forward        one work-item per output pixel; grid: (pixels, channels, images)
//   conv_depthwise_simt_backward_data  one work-item per input pixel
//   conv_depthwise_simt_weight         one work-group of 256 per (tap row, channel); KW accumulators each, added in a tree
#include "common/types.clh"

#ifndef DTYPE
#define DTYPE float32
#define ACCUMULATE float32
#define KW 3
#endif
#define T STORAGE(DTYPE)
#define A VALUE(ACCUMULATE)
#define AT(p, i) LOAD(DTYPE, ACCUMULATE, p, i)
#define GROUP 256

typedef struct {
  int batch, channels, in_h, in_w, out_h, out_w, kh, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
} Depthwise;

__kernel void conv_depthwise_simt_forward(TENSOR(const T, x), TENSOR(const T, w), TENSOR(const T, bias), TENSOR(T, y), const Depthwise s, int has_bias) {
  OPEN(const T, x); OPEN(const T, w); OPEN(const T, bias); OPEN(T, y);
  const int p = get_global_id(0), c = get_global_id(1), row = p / s.out_w, column = p - row * s.out_w;
  if (row >= s.out_h) return;
  const long plane = (long)get_global_id(2) * s.channels + c;
  const int y0 = row * s.stride_h - s.pad_h, x0 = column * s.stride_w - s.pad_w;
  A sum = has_bias ? AT(bias, c) : (A)0;
  for (int i = 0; i < s.kh; i++) {
    const int iy = y0 + i * s.dilation_h;
    if (iy < 0 || iy >= s.in_h) continue;
    const long from = (plane * s.in_h + iy) * s.in_w;
    _Pragma("unroll") for (int j = 0; j < KW; j++) {
      const int ix = x0 + j * s.dilation_w;
      if (ix >= 0 && ix < s.in_w) sum = fma(AT(x, from + ix), AT(w, ((long)c * s.kh + i) * KW + j), sum);
    }
  }
  STORE(DTYPE, ACCUMULATE, y, plane * s.out_h * s.out_w + p, sum);
}

__kernel void conv_depthwise_simt_backward_data(TENSOR(T, x), TENSOR(const T, w), TENSOR(const T, y), const Depthwise s) {
  OPEN(T, x); OPEN(const T, w); OPEN(const T, y);
  const int p = get_global_id(0), c = get_global_id(1), row = p / s.in_w, column = p - row * s.in_w;
  if (row >= s.in_h) return;
  const long plane = (long)get_global_id(2) * s.channels + c;
  A sum = 0;
  for (int i = 0; i < s.kh; i++) {
    const int oy = row + s.pad_h - i * s.dilation_h;
    if (oy < 0 || oy % s.stride_h || oy / s.stride_h >= s.out_h) continue;
    const long from = (plane * s.out_h + oy / s.stride_h) * s.out_w;
    _Pragma("unroll") for (int j = 0; j < KW; j++) {
      const int ox = column + s.pad_w - j * s.dilation_w;
      if (ox >= 0 && ox % s.stride_w == 0 && ox / s.stride_w < s.out_w) sum = fma(AT(y, from + ox / s.stride_w), AT(w, ((long)c * s.kh + i) * KW + j), sum);
    }
  }
  STORE(DTYPE, ACCUMULATE, x, plane * s.in_h * s.in_w + p, sum);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void conv_depthwise_simt_weight(TENSOR(const T, x), TENSOR(T, w), TENSOR(const T, y), const Depthwise s) {
  OPEN(const T, x); OPEN(T, w); OPEN(const T, y);
  __local A sums[GROUP];
  const int id = get_local_id(0), i = get_group_id(0), c = get_group_id(1), pixels = s.out_h * s.out_w;
  A sum[KW];
  for (int j = 0; j < KW; j++) sum[j] = 0;
  for (int n = 0; n < s.batch; n++) {
    const long plane = (long)n * s.channels + c;
    for (int p = id; p < pixels; p += GROUP) {
      const int row = p / s.out_w, iy = row * s.stride_h - s.pad_h + i * s.dilation_h, x0 = (p - row * s.out_w) * s.stride_w - s.pad_w;
      if (iy < 0 || iy >= s.in_h) continue;
      const A d = AT(y, plane * pixels + p);
      const long from = (plane * s.in_h + iy) * s.in_w;
      _Pragma("unroll") for (int j = 0; j < KW; j++) {
        const int ix = x0 + j * s.dilation_w;
        if (ix >= 0 && ix < s.in_w) sum[j] = fma(d, AT(x, from + ix), sum[j]);
      }
    }
  }
  for (int j = 0; j < KW; j++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[id] = sum[j];
    for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (id < half_size) sums[id] += sums[id + half_size];
    }
    if (id == 0) STORE(DTYPE, ACCUMULATE, w, ((long)c * s.kh + i) * KW + j, sums[0]);
  }
}
