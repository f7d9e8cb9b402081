// What csrc/opencl/tensor_cores.cpp checks: 64 x 64 sums over a slab, by one group of 256 work-items. x: [16][64] units of a, of b, then the sums.
#ifndef DTYPE
#define DTYPE float32
#define EXACT 1
#endif
#define TILE_M 64
#define TILE_N 64
#define SWIZZLED_A(k, x, step) QUADS_SWIZZLED(k, x, step)
#define SWIZZLED_B(k, x, step) LINES_SWIZZLED(k, x, step)
#include "common/tensor_cores.clh"

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void multiply_tile(TENSOR(uint, x)) {
  __local uint slab_a[SLAB_SIZE(TILE_M)], slab_b[SLAB_SIZE(TILE_N)];
  EMULATION_SCRATCH
  OPEN(uint, x);
  const int item = get_local_id(0);
  for (int i = item; i < UNITS * 64; i += GROUP_ITEMS) {
    slab_a[i / 64 * PITCH_OF(TILE_M) + SWIZZLED_A(i / 64, i % 64, 0)] = x[i];
    slab_b[i / 64 * PITCH_OF(TILE_N) + SWIZZLED_B(i / 64, i % 64, 0)] = x[UNITS * 64 + i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum[BLOCKS_M][BLOCKS_N][4];
  for (int i = 0; i < BLOCKS_M; i++)
    for (int j = 0; j < BLOCKS_N; j++)
      for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
  multiply_slabs(sum, slab_a, slab_b, item SCRATCH_ARGUMENT);
  for (int i = 0; i < BLOCKS_M; i++)
    for (int j = 0; j < BLOCKS_N; j++)
      for (int e = 0; e < 4; e++) x[2 * UNITS * 64 + SUM_ROW(item, i, e) * 64 + SUM_COLUMN(item, j, e)] = as_uint(sum[i][j][e]);
}
