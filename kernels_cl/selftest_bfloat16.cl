// What csrc/opencl/bfloat16_pairs.cpp compares: words [0, 16) a, [16, 32) b, [32, 64) two vectors of sums, [64, 72) the first one rounded.
#include "common/bfloat16_pairs.clh"
#include "common/memory.clh"

FAT_KERNEL void multiply_pairs(TENSOR(float, x)) {
  OPEN(float, x);
  const int16 a = as_int16(vload16(0, x)), b = as_int16(vload16(1, x));
  float16 first = vload16(2, x), second = vload16(3, x);
  for (int i = 0; i < 2; i++) {
    ADD_PRODUCTS(first, a, b);
    ADD_PRODUCTS(second, a, a);
  }
  vstore16(first, 2, x);
  vstore16(second, 3, x);
  ushort16 rounded;
  ROUND_PAIRS(rounded, first);
  vstore16(rounded, 0, (__global ushort*)(x + 64));
}
