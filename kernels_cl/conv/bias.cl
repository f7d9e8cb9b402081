// Bias gradient: db[c] = sum over images n and pixels p of dy[n, c, p]. DTYPE: elements; ACCUMULATE: sums.
#include "common/types.clh"

#ifndef DTYPE
#define DTYPE float32
#define ACCUMULATE float32
#endif
#define T STORAGE(DTYPE)
#define A VALUE(ACCUMULATE)

#if FOR_CPU
inline float sum_lanes(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
}

#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

// Channels first, one task: one channel. Sums by plane, then over images.
CPU_KERNEL void conv_bias_planes(global const T* restrict dy, global T* restrict db, int batch, int channels,
                                 long plane) {
  float total = 0;
  for (int n = 0; n < batch; n++) {
    __global const T* p = dy + ((long)n * channels + get_group_id(0)) * plane;
    float16 a = 0, b = 0;
    long i = 0;
    for (; i + 32 <= plane; i += 32) a += LOADV(DTYPE, float32, 16, p, i), b += LOADV(DTYPE, float32, 16, p, i + 16);
    for (; i + 16 <= plane; i += 16) a += LOADV(DTYPE, float32, 16, p, i);
    if (i < plane) b += select((float16)0, LOADV(DTYPE, float32, 16, p, i), LANES < (int)(plane - i));
    total += sum_lanes(a + b);
  }
  STORE(DTYPE, float32, db, get_group_id(0), total);
}

// Channels last, one task: 16 channels. Blocks of 256 pixels are summed on their own first.
CPU_KERNEL void conv_bias_rows(global const T* restrict dy, global T* restrict db, int channels, long pixels) {
  const int c = get_group_id(0) * 16;
  float16 total = 0;
  for (long i = 0; i < pixels; i += 256) {
    float16 part = 0;
    for (long p = i; p < MIN_OF(pixels, i + 256); p++) part += LOADV(DTYPE, float32, 16, dy, p * channels + c);
    total += part;
  }
  for (int l = 0; l < MIN_OF(16, channels - c); l++) STORE(DTYPE, float32, db, c + l, ((float*)&total)[l]);
}
#else
#define GROUP 256

// One work-group: one channel. element(n, p) = n * image + c * channel_step + p * pixel_step.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_bias_gpu(global const T* dy, global T* db,
                                                                             int batch, long image, long plane,
                                                                             long channel_step, long pixel_step) {
  __local A sums[GROUP];
  const int id = get_local_id(0);
  A total = 0;
  for (int n = 0; n < batch; n++) {
    A part = 0;
    for (long p = id; p < plane; p += GROUP)
      part += LOAD(DTYPE, ACCUMULATE, dy, n * image + get_group_id(0) * channel_step + p * pixel_step);
    total += part;
  }
  sums[id] = total;
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < half_size) sums[id] += sums[id + half_size];
  }
  if (id == 0) STORE(DTYPE, ACCUMULATE, db, get_group_id(0), sums[0]);
}
#endif
