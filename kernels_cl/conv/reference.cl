// Convolution by its definition, one work-item per output element in the memory order of the output.
//   y[n,o,p] = bias[o] + sum_{c,k} x[n,c, p*stride - padding + k*dilation] w[o,c,k]
// DTYPE: element type; ACCUMULATE: type of the sums (float32, float64, int64).
#include "common/types.clh"
#include "params/conv.h"

#ifndef DTYPE
#define DTYPE float32
#define ACCUMULATE float32
#endif
#define T STORAGE(DTYPE)
#define A VALUE(ACCUMULATE)
#define AT(p, i) LOAD(DTYPE, ACCUMULATE, p, i)

typedef struct {
  int n, c, p[3];
} Position;

// Coordinates of element i of a tensor of this size; the fastest dimension is the channel or the last spatial one.
inline Position unravel(long i, int channels, int d, int h, int w, int channels_last) {
  Position q;
  if (channels_last) q.c = i % channels, i /= channels;
  q.p[2] = i % w, i /= w;
  q.p[1] = i % h, i /= h;
  q.p[0] = i % d, i /= d;
  if (!channels_last) q.c = i % channels, i /= channels;
  q.n = i;
  return q;
}

kernel void conv_reference_forward(global const T* x, global const T* w, global const T* b, global T* y,
                                   const ConvShape s, int has_bias, int channels_last, long count) {
  const int taps = s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
    const Position q = unravel(i, s.groups * s.out_per_group, s.output[0], s.output[1], s.output[2], channels_last);
    const int z0 = q.p[0] * s.stride[0] - s.padding[0], y0 = q.p[1] * s.stride[1] - s.padding[1],
              x0 = q.p[2] * s.stride[2] - s.padding[2];
    A sum = has_bias ? AT(b, q.c) : (A)0;
    for (int c = 0; c < s.in_per_group; c++) {
      const long plane = q.n * s.x_stride[0] + ((long)(q.c / s.out_per_group) * s.in_per_group + c) * s.x_stride[1];
      long k = ((long)q.c * s.in_per_group + c) * taps;
      for (int kd = 0; kd < s.kernel_size[0]; kd++)
        for (int kh = 0; kh < s.kernel_size[1]; kh++, k += s.kernel_size[2]) {
          const int iz = z0 + kd * s.dilation[0], iy = y0 + kh * s.dilation[1];
          if (iz < 0 || iz >= s.input[0] || iy < 0 || iy >= s.input[1]) continue;
          const long row = plane + iz * s.x_stride[2] + iy * s.x_stride[3];
          for (int kw = 0; kw < s.kernel_size[2]; kw++) {
            const int ix = x0 + kw * s.dilation[2];
            if (ix >= 0 && ix < s.input[2]) sum += AT(x, row + ix * s.x_stride[4]) * AT(w, k + kw);
          }
        }
    }
    STORE(DTYPE, ACCUMULATE, y, i, sum);
  }
}

// Output coordinate that tap k of input coordinate i belongs to, or -1.
inline int output_of(int i, int k, int stride, int padding, int dilation, int size) {
  const int o = i + padding - k * dilation;
  if (o < 0 || o % stride) return -1;
  return o / stride < size ? o / stride : -1;
}

kernel void conv_reference_backward_data(global T* x, global const T* w, global const T* y, const ConvShape s,
                                         int channels_last, long count) {
  const int taps = s.kernel_size[0] * s.kernel_size[1] * s.kernel_size[2];
  for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
    const Position q = unravel(i, s.groups * s.in_per_group, s.input[0], s.input[1], s.input[2], channels_last);
    const int group = q.c / s.in_per_group;
    A sum = 0;
    for (int kd = 0; kd < s.kernel_size[0]; kd++) {
      const int oz = output_of(q.p[0], kd, s.stride[0], s.padding[0], s.dilation[0], s.output[0]);
      if (oz < 0) continue;
      for (int kh = 0; kh < s.kernel_size[1]; kh++) {
        const int oy = output_of(q.p[1], kh, s.stride[1], s.padding[1], s.dilation[1], s.output[1]);
        if (oy < 0) continue;
        for (int kw = 0; kw < s.kernel_size[2]; kw++) {
          const int ox = output_of(q.p[2], kw, s.stride[2], s.padding[2], s.dilation[2], s.output[2]);
          if (ox < 0) continue;
          long at = q.n * s.y_stride[0] + (long)group * s.out_per_group * s.y_stride[1] + oz * s.y_stride[2] +
                    oy * s.y_stride[3] + ox * s.y_stride[4];
          long k = ((long)group * s.out_per_group * s.in_per_group + q.c % s.in_per_group) * taps +
                   (kd * s.kernel_size[1] + kh) * s.kernel_size[2] + kw;
          for (int o = 0; o < s.out_per_group; o++, at += s.y_stride[1], k += (long)s.in_per_group * taps)
            sum += AT(y, at) * AT(w, k);
        }
      }
    }
    STORE(DTYPE, ACCUMULATE, x, i, sum);
  }
}

// Sums by row, then over rows: one long chain in float32 would lose digits.
kernel void conv_reference_backward_weight(global const T* x, global T* w, global const T* y, const ConvShape s,
                                           long count) {
  for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
    const Position q = unravel(i, s.in_per_group, s.kernel_size[0], s.kernel_size[1], s.kernel_size[2], 0);
    const int o = q.n, channel = o / s.out_per_group * s.in_per_group + q.c;
    const int x0 = q.p[2] * s.dilation[2] - s.padding[2];
    A sum = 0;
    for (int n = 0; n < s.batch; n++)
      for (int oz = 0; oz < s.output[0]; oz++) {
        const int iz = oz * s.stride[0] - s.padding[0] + q.p[0] * s.dilation[0];
        if (iz < 0 || iz >= s.input[0]) continue;
        for (int oy = 0; oy < s.output[1]; oy++) {
          const int iy = oy * s.stride[1] - s.padding[1] + q.p[1] * s.dilation[1];
          if (iy < 0 || iy >= s.input[1]) continue;
          const long in = n * s.x_stride[0] + channel * s.x_stride[1] + iz * s.x_stride[2] + iy * s.x_stride[3];
          const long out = n * s.y_stride[0] + o * s.y_stride[1] + oz * s.y_stride[2] + oy * s.y_stride[3];
          A part = 0;
          for (int ox = 0; ox < s.output[2]; ox++) {
            const int ix = ox * s.stride[2] + x0;
            if (ix >= 0 && ix < s.input[2]) part += AT(x, in + ix * s.x_stride[4]) * AT(y, out + ox * s.y_stride[4]);
          }
          sum += part;
        }
      }
    STORE(DTYPE, ACCUMULATE, w, i, sum);
  }
}
