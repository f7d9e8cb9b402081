// What csrc/opencl/capabilities/bfloat16_pairs.cpp compares and times.
#include "common/bfloat16_pairs.clh"
#include "common/memory.clh"

// Words [0, 16) a, [16, 32) b, [32, 64) two vectors of sums, [64, 72) the first one rounded.
kernel ONE_WORK_ITEM void multiply_pairs(global float* x) {
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

#define CHAINS 12  // independent sums: more than any processor needs to hide the latency of its multiplier

// Words [0, 16) a; [16] rounds and [17] which instruction, both integers; [32, 48) the sum of all chains, which keeps
// the products alive.
kernel ONE_WORK_ITEM void repeat_products(global float* x) {
  const float16 a = vload16(0, x);
  const int rounds = as_int(x[16]), pairs = as_int(x[17]);
  float16 sums[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sums[i] = a;
  if (pairs) {
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) ADD_PRODUCTS(sums[i], as_int16(a), as_int16(a));
    }
  } else {
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) sums[i] = fma(a, a, sums[i]);
    }
  }
  float16 total = sums[0];
#pragma unroll
  for (int i = 1; i < CHAINS; ++i) total += sums[i];
  vstore16(total, 2, x);
}
