// What csrc/opencl/capabilities/tensor_cores.cpp checks: 64 x 64 sums over a slab, by one group of 256 work-items. x:
// [16][64] units of a, of b, then the sums. LAYOUT: of both operands in local memory (common/tensor_cores.clh).
#ifndef DTYPE
#define DTYPE float32
#define EXACT 1
#define LAYOUT 0
#endif
#define TILE_M 64
#define TILE_N 64
#define LAYOUT_A LAYOUT
#define LAYOUT_B LAYOUT
#define SWIZZLED_A QUADS_SWIZZLED
#define SWIZZLED_B LINES_SWIZZLED
#include "common/tensor_cores.clh"

// Unit u of the 64 elements that begin at `from`, chunk by chunk where the layout has chunks.
inline void stage_unit(__local uint* slab, __global const uint* from, int u, int x, int line) {
#if LAYOUT == LAYOUT_LINES
  slab[line] = from[u * 64 + x];
#elif LAYOUT == LAYOUT_ALONG_K
  slab[CHUNK_ALONG_K(x, u / 4) + u % 4] = from[u * 64 + x];
#else
  for (int h = 0; h < PER_UNIT; h++) {
    __local ELEMENT_BITS* chunk =
        (__local ELEMENT_BITS*)(slab + CHUNK_ALONG_X(64, u * PER_UNIT + h, x / CHUNK * CHUNK));
    chunk[x % CHUNK] = (ELEMENT_BITS)(from[u * 64 + x] >> (16 * h));
  }
#endif
}

kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void multiply_tile(global uint* x) {
  __local uint slab_a[SLAB_SIZE(LAYOUT_A, TILE_M)] __attribute__((aligned(SLAB_ALIGNMENT)));
  __local uint slab_b[SLAB_SIZE(LAYOUT_B, TILE_N)] __attribute__((aligned(SLAB_ALIGNMENT)));
  __local uint copied[4] __attribute__((aligned(16)));
  const int item = get_local_id(0);
  for (int i = item; i < UNITS * 64; i += GROUP_ITEMS) {
    const int u = i / 64, at = i % 64;
    stage_unit(slab_a, x, u, at, u * PITCH_OF(TILE_M) + SWIZZLED_A(u, at & ~8, at & 8));
    stage_unit(slab_b, x + UNITS * 64, u, at, u * PITCH_OF(TILE_N) + SWIZZLED_B(u, at & ~8, at & 8));
  }
  if (item == 0) COPY_CHUNK(copied, x, 1);
  END_OF_COPIES;
  WAIT_FOR_COPIES(0);
  SLABS_ARE_WRITTEN;
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum[BLOCKS_M][BLOCKS_N][4];
  EACH_SUM(i, j, e) sum[i][j][e] = 0;
  multiply_slabs(sum, slab_a, slab_b, item);
  WAIT_FOR_PRODUCTS;
  const int same = copied[0] == x[0] && copied[1] == x[1] && copied[2] == x[2] && copied[3] == x[3];
  EACH_SUM(i, j, e)
  x[2 * UNITS * 64 + SUM_ROW(item, i, e) * 64 + SUM_COLUMN(item, j, e)] = as_uint(same ? sum[i][j][e] : NAN);
}
