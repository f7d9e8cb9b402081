// The start-up self-test of kernels that are called as functions (csrc/opencl/kernel_function.h): y[16 * g + i] += g * pair.a + pair.b[6] + scale * i.
#include "common/memory.clh"

typedef struct {
  int a;
  float b[7];
} Pair;

FAT_CALLABLE(add_groups, (BUFFER(float, y), PLAIN(long, n), PLAIN(const Pair, pair), PLAIN(float, scale))) {
  OPEN(float, y);
  const long g = get_global_id(0) + get_num_groups(0) * (get_group_id(1) + get_global_size(1) * get_group_id(2));
  if (16 * g >= n) return;
  const float16 lanes = (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  vstore16(vload16(g, y) + g * pair.a + pair.b[6] + scale * lanes, g, y);
}
