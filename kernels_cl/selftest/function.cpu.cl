// The start-up self-test of kernels that are called as functions (csrc/cpu/kernel_function.h): y[16 * g + i] += g *
// pair.a + pair.b[6] + scale * i. lanes: memory for 16 floats.
#include "params/selftest.h"
#include "common/memory.clh"

CPU_KERNEL void add_groups(global float* y, long n, const Pair pair, float scale, local float* restrict lanes) {
  local int numbers[16];
  const long g = get_global_id(0) + get_num_groups(0) * (get_group_id(1) + get_global_size(1) * get_group_id(2));
  if (16 * g >= n) return;
  for (int i = 0; i < 16; i++) numbers[i] = i;
  for (int i = 0; i < 16; i++) lanes[i] = scale * numbers[i];
  vstore16(vload16(g, y) + g * pair.a + pair.b[6] + vload16(0, lanes), g, y);
}
