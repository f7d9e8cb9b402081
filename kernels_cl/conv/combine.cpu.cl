// Last steps of convolutions that were computed in parts.
//   conv_interleave   sub-grids of dx, one for each residue of the stride, to dx
//   conv_sum_shares   partial sums of dw over shares of the pixels to dw, in order
#include "common/types.clh"
#include "common/transpose16.clh"

#ifndef DTYPE
#define DTYPE float32
#endif
#define T STORAGE(DTYPE)
#define MAX_STRIDE 64
// Moving elements without looking at them.
#define ELEMENT CAT(ELEMENT_, DTYPE)
#define ELEMENT4 CAT(ELEMENT, 4)
#define ELEMENT16 CAT(ELEMENT, 16)
#define ELEMENT_float32 uint
#define ELEMENT_float16 ushort
#define ELEMENT_bfloat16 ushort

// One row of x from rows of sub-grids: x[i] = parts[i % stride][i / stride], 0 where the part is absent,
// bit i % stride of `present` clear.
inline void interleave_row(__global T* x, int width, int stride, __global const T* const* parts, ulong present) {
  int i = 0;
  if (stride == 2) {
    __global const ELEMENT* even = (__global const ELEMENT*)parts[0];
    __global const ELEMENT* odd = (__global const ELEMENT*)parts[1];
    const int has_even = present & 1, has_odd = present >> 1 & 1;
    for (; i + 32 <= width; i += 32) {
      const ELEMENT16 a = has_even ? vload16(0, even + i / 2) : (ELEMENT16)0,
                      b = has_odd ? vload16(0, odd + i / 2) : (ELEMENT16)0;
      STORE_VECTOR(ELEMENT, 16, SHUFFLE16(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                   (__global ELEMENT*)x + i);
      STORE_VECTOR(ELEMENT, 16, SHUFFLE16(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
                   (__global ELEMENT*)x + i + 16);
    }
    // Eight at a time, the last of them again where the row is even.
    while (width >= 8 && i < width && (i + 8 <= width || width % 2 == 0)) {
      i = MIN_OF(i, width - 8);
      const ELEMENT4 a = has_even ? vload4(0, even + i / 2) : (ELEMENT4)0,
                     b = has_odd ? vload4(0, odd + i / 2) : (ELEMENT4)0;
      STORE_VECTOR(ELEMENT, 8, SHUFFLE16(a, b, 0, 4, 1, 5, 2, 6, 3, 7), (__global ELEMENT*)x + i);
      i += 8;
    }
  }
  for (int r = 0; r < stride; r++)
    for (int j = i + r; j < width; j += stride)
      ((__global ELEMENT*)x)[j] = present >> r & 1 ? ((__global const ELEMENT*)parts[r])[j / stride] : 0;
}

// x [planes, D, H, W]. Sub-grid r = (rz * stride[1] + ry) * stride[2] + rx lies at parts + r * slot; bit r of `present`
// is clear
// where no tap reaches it. One task: `per_task` planes.
CPU_KERNEL void conv_interleave(global const T* restrict parts, global T* restrict x, const int3 size,
                                const int3 stride, long slot, ulong present, long planes, long per_task) {
  const long begin = get_group_id(0) * per_task, end = MIN_OF(planes, begin + per_task);
  for (long plane = begin; plane < end; plane++)
    for (int z = 0; z < size.x; z++)
      for (int y = 0; y < size.y; y++) {
        const int rz = z % stride.x, ry = y % stride.y, d = (size.x - rz + stride.x - 1) / stride.x,
                  h = (size.y - ry + stride.y - 1) / stride.y;
        __global const T* row[MAX_STRIDE];
        for (int rx = 0; rx < stride.z; rx++) {
          const int r = (rz * stride.y + ry) * stride.z + rx, w = (size.z - rx + stride.z - 1) / stride.z;
          row[rx] = present >> r & 1 ? parts + r * slot + ((plane * d + z / stride.x) * h + y / stride.y) * w : parts;
        }
        interleave_row(x + ((plane * size.x + z) * size.y + y) * size.z, size.z, stride.z, row,
                       present >> (rz * stride.y + ry) * stride.z);
      }
}

// dw[i] = sum over parts of shares[part][i]. One task: 4096 elements.
CPU_KERNEL void conv_sum_shares(global const float* restrict shares, global T* restrict dw, long size, int parts) {
  long i = get_group_id(0) * 4096L;
  const long end = MIN_OF(size, i + 4096);
  for (; i < end; i += 16) {
    float16 sum = vload16(0, shares + i);
    for (int p = 1; p < parts; p++) sum += vload16(0, shares + p * size + i);
    if (i + 16 <= end)
      STOREV(DTYPE, float32, 16, dw, i, sum);
    else
      for (int l = 0; l < end - i; l++) STORE(DTYPE, float32, dw, i + l, ((float*)&sum)[l]);
  }
}
