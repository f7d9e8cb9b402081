// Depthwise convolution (one K x K filter per channel) of channels-last images, CPU style: lanes are 16 neighbouring
// channels.
//   conv_depthwise_channels_gather        forward; with TRANSPOSED backward-data (source dy, result dx)
//   conv_depthwise_channels_weight        backward-weight: K x K vectors per task, summed by row first (a long float32
//   chain loses digits) conv_depthwise_channels_sum           adds the tasks' shares and stores [channel][tap]
// Grids: gather: bands of rows of the result; weight: blocks of 16 channels by parts of the rows of dy; sum: channels.
#include "params/conv.h"
#include "common/types.clh"

#ifndef DTYPE
#define DTYPE float32
#define K 3
#define STRIDE 1
#define TRANSPOSED 0
#endif
#define T STORAGE(DTYPE)
#if K <= 3
#define UNROLL_EDGE _Pragma("unroll")
#else
#define UNROLL_EDGE \
  _Pragma("unroll 1")  // the filter does not fit the registers anyway, and unrolled the code takes seconds to compile
#endif

// Source coordinate that tap k of result coordinate o reads, or a negative number.
inline int source_of(int o, int k, int pad, int dilation, int size) {
#if TRANSPOSED
  const int t = o + pad - k * dilation;
  if (t < 0 || t % STRIDE) return -1;
  const int at = t / STRIDE;
#else
  const int at = o * STRIDE - pad + k * dilation;
#endif
  return at < size ? at : -1;
}

inline void store_channels(__global T* y, float16 v, int count) {
  if (count >= 16) {
    STOREV(DTYPE, float32, 16, y, 0, v);
    return;
  }
  float lanes[16];
  vstore16(v, 0, lanes);
  for (int l = 0; l < count; ++l) STORE(DTYPE, float32, y, l, lanes[l]);
}

CPU_KERNEL void conv_depthwise_channels_gather(global const T* restrict x, global const T* restrict filter,
                                               global const T* restrict bias, global T* restrict y,
                                               const ChannelSweep s, int has_bias) {
  const long rows = (long)s.batch * s.out_h, begin = rows * get_group_id(0) / get_num_groups(0),
             end = rows * (get_group_id(0) + 1) / get_num_groups(0);
  // result columns whose taps all lie inside the source
#if !TRANSPOSED
  const int inner_begin = (s.pad_w + STRIDE - 1) / STRIDE, inner_last = s.in_w - 1 - (K - 1) * s.dilation_w + s.pad_w;
  const int inner_end = inner_last < 0 ? 0 : inner_last / STRIDE + 1;
#elif STRIDE == 1
  const int inner_begin = (K - 1) * s.dilation_w - s.pad_w, inner_end = s.in_w - s.pad_w;
#else
  const int inner_begin = 0, inner_end = 0;
#endif
  for (int c = 0; c < s.channels; c += 16) {
    const int count = MIN_OF(16, s.channels - c);
    float16 w[K * K];
    for (int t = 0; t < K * K; ++t) {
      float lanes[16];
      for (int l = 0; l < 16; ++l)
        lanes[l] = LOAD(DTYPE, float32, filter, (long)(c + MIN_OF(l, count - 1)) * K * K + t);
      w[t] = vload16(0, lanes);
    }
    const float16 b = has_bias ? LOADV(DTYPE, float32, 16, bias, c) : (float16)0.0f;
    for (long r = begin; r < end; ++r) {
      const int n = r / s.out_h, row = r % s.out_h;
      __global const T* lines[K];
      for (int i = 0; i < K; ++i) {
        const int at = source_of(row, i, s.pad_h, s.dilation_h, s.in_h);
        lines[i] = at < 0 ? 0 : x + ((long)n * s.in_h + at) * s.in_w * s.channels + c;
      }
      __global T* to = y + r * s.out_w * s.channels + c;
      for (int o = 0; o < s.out_w; ++o, to += s.channels) {
        float16 sum = b;
        if (o >= inner_begin && o < inner_end) {
#if TRANSPOSED
          const long first = (long)(o + s.pad_w) * s.channels, step = -(long)s.dilation_w * s.channels;
#else
          const long first = (long)(o * STRIDE - s.pad_w) * s.channels, step = (long)s.dilation_w * s.channels;
#endif
#pragma unroll
          for (int i = 0; i < K; ++i) {
            if (!lines[i]) continue;
#pragma unroll
            for (int j = 0; j < K; ++j)
              sum = fma(LOADV(DTYPE, float32, 16, lines[i], first + j * step), w[i * K + j], sum);
          }
        } else {
          UNROLL_EDGE
          for (int j = 0; j < K; ++j) {
            const int at = source_of(o, j, s.pad_w, s.dilation_w, s.in_w);
            if (at < 0) continue;
            UNROLL_EDGE
            for (int i = 0; i < K; ++i)
              if (lines[i]) sum = fma(LOADV(DTYPE, float32, 16, lines[i], (long)at * s.channels), w[i * K + j], sum);
          }
        }
        store_channels(to, sum, count);
      }
    }
  }
}

#if !TRANSPOSED
// in_*: x, out_*: dy. shares: [parts][K * K][channels rounded up to 16].
CPU_KERNEL void conv_depthwise_channels_weight(global const T* restrict x, global const T* restrict dy,
                                               global float* restrict shares, const ChannelSweep s) {
  const int c = get_group_id(0) * 16;
  const long rows = (long)s.batch * s.out_h, begin = rows * get_group_id(1) / get_num_groups(1),
             end = rows * (get_group_id(1) + 1) / get_num_groups(1);
  float16 total[K * K];
#pragma unroll
  for (int t = 0; t < K * K; ++t) total[t] = 0.0f;
  for (long r = begin; r < end; ++r) {
    const int n = r / s.out_h, row = r % s.out_h;
    __global const T* from = dy + r * s.out_w * s.channels + c;
#pragma unroll
    for (int i = 0; i < K; ++i) {
      const int y = source_of(row, i, s.pad_h, s.dilation_h, s.in_h);
      if (y < 0) continue;
      __global const T* line = x + ((long)n * s.in_h + y) * s.in_w * s.channels + c;
      float16 sum[K];
#pragma unroll
      for (int j = 0; j < K; ++j) sum[j] = 0.0f;
      for (int o = 0; o < s.out_w; ++o) {
        const float16 d = LOADV(DTYPE, float32, 16, from, (long)o * s.channels);
#pragma unroll
        for (int j = 0; j < K; ++j) {
          const int at = o * STRIDE - s.pad_w + j * s.dilation_w;
          if (at >= 0 && at < s.in_w) sum[j] = fma(d, LOADV(DTYPE, float32, 16, line, (long)at * s.channels), sum[j]);
        }
      }
#pragma unroll
      for (int j = 0; j < K; ++j) total[i * K + j] += sum[j];
    }
  }
  const long width = (s.channels + 15) / 16 * 16;
#pragma unroll
  for (int t = 0; t < K * K; ++t) vstore16(total[t], 0, shares + ((long)get_group_id(1) * K * K + t) * width + c);
}

CPU_KERNEL void conv_depthwise_channels_sum(global const float* restrict shares, global T* restrict filter,
                                            int channels, int parts) {
  const long width = (channels + 15) / 16 * 16;
  for (long i = (long)channels * K * K * get_group_id(0) / get_num_groups(0);
       i < (long)channels * K * K * (get_group_id(0) + 1) / get_num_groups(0); ++i) {
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += shares[((long)part * K * K + i % (K * K)) * width + i / (K * K)];
    STORE(DTYPE, float32, filter, i, sum);
  }
}
#endif
