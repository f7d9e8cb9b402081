// Tiles of products on tensor cores (common/tensor_cores.clh): a group of GROUP_ITEMS work-items computes a TILE_M x
// TILE_N tile of c. Slices of k as in gemm/simt.gpu.cl, whose gemm_simt_finish adds them. Local range GROUP_ITEMS; grid
// of groups: (columns of c / TILE_N, rows of c / TILE_M, batch * slices). Defines: DTYPE (float32, bfloat16, float16),
// OUT_DTYPE (of c and d: DTYPE or float32), EXACT, TILE_M, TILE_N, WARPS_N, A_ALONG_K and B_ALONG_K (1: neighbours
// along k are neighbours in memory, or nothing is; 0: those along m or n are), and
//   CHUNKS 1   both operands come in whole aligned chunks of 16 bytes, which are copied to local memory while earlier
//   slabs are multiplied
//   CHUNKS 0   any strides: the next slab is fetched into registers, unit by unit, while the current one is multiplied
#ifndef DTYPE
#define DTYPE float32
#define EXACT 1
#define TILE_M 128
#define TILE_N 128
#define A_ALONG_K 1
#define B_ALONG_K 0
#define CHUNKS 1
#endif
#define WIDE 0
#if CHUNKS
#if A_ALONG_K
#define LAYOUT_A LAYOUT_ALONG_K
#else
#define LAYOUT_A LAYOUT_ALONG_X
#endif
#if B_ALONG_K
#define LAYOUT_B LAYOUT_ALONG_K
#else
#define LAYOUT_B LAYOUT_ALONG_X
#endif
#else
#define LAYOUT_A LAYOUT_LINES
#define LAYOUT_B LAYOUT_LINES
#endif
#define SWIZZLED_A QUADS_SWIZZLED
#define SWIZZLED_B QUADS_SWIZZLED
#include "gemm/slices.clh"
#include "common/tensor_cores.clh"
#define GROUP_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))

// (column, row) of the group's tile: groups that run together take tiles of BAND rows, column by column, so that they
// share operands in the L2 cache.
#define BAND 8
inline uint2 tile_of_group() {
  const uint columns = get_num_groups(0), id = (uint)get_group_id(1) * columns + (uint)get_group_id(0);
  const uint first = id / (BAND * columns) * BAND, rows = min((uint)BAND, (uint)get_num_groups(1) - first),
             at = id - first * columns;
  return (uint2)(at / rows, first + at % rows);
}

#define FIND_TILE                                                                                         \
  const int item = get_local_id(0);                                                                       \
  const uint layer = get_group_id(2), batch = layer / plan.slices, slice = layer % plan.slices;           \
  const uint2 tile = tile_of_group();                                                                     \
  const long m0 = (long)tile.y * TILE_M, n0 = (long)tile.x * TILE_N;                                      \
  const int rows = min((long)TILE_M, p.m - m0), columns = min((long)TILE_N, p.n - n0);                    \
  const long start = slice * plan.slice, steps = max(0L, min(plan.slice, p.k - start));                   \
  const long outer = batch / (uint)plan.inner, inner = batch - outer * plan.inner;                        \
  a += outer * plan.a_outer + inner * p.a_batch + m0 * p.a_row + start * p.a_column;                      \
  b += outer * plan.b_outer + (uint)inner / plan.b_group * p.b_batch + n0 * p.b_column + start * p.b_row; \
  float sum[BLOCKS_M][BLOCKS_N][4];                                                                       \
  EACH_SUM(i, j, e) sum[i][j][e] = 0;

#define CLOSE_TILE                                                          \
  c += outer * plan.c_outer + inner * p.c_batch;                            \
  d += outer * plan.c_outer + inner * p.d_batch;                            \
  partial += ((long)slice * plan.batch + batch) * p.m * p.n;                \
  EACH_SUM(i, j, e) {                                                       \
    const int row = SUM_ROW(item, i, e), column = SUM_COLUMN(item, j, e);   \
    if (row < rows && column < columns) {                                   \
      if (plan.slices > 1)                                                  \
        partial[(m0 + row) * p.n + n0 + column] = sum[i][j][e];             \
      else                                                                  \
        finish(sum[i][j][e], m0 + row, n0 + column, c, d, &p, alpha, beta); \
    }                                                                       \
  }

#if CHUNKS
// A work-item copies COPIES(TILE) chunks of a slab. Element and step of k of its chunk i, relative to the slab; the
// same chunk's unit in local memory.
#define COPIES(tile) ((tile) * 4 / GROUP_ITEMS)
#define COPY_X(ALONG_K, tile, i) ((ALONG_K) ? item / 4 + (i) * (GROUP_ITEMS / 4) : item % ((tile) / CHUNK) * CHUNK)
#define COPY_K(ALONG_K, tile, i) \
  ((ALONG_K) ? item % 4 * CHUNK : item / ((tile) / CHUNK) + (i) * (GROUP_ITEMS * CHUNK / (tile)))
#define COPY_PLACE(ALONG_K, tile, i)                             \
  ((ALONG_K) ? CHUNK_ALONG_K(COPY_X(ALONG_K, tile, i), item % 4) \
             : CHUNK_ALONG_X(tile, COPY_K(ALONG_K, tile, i), COPY_X(ALONG_K, tile, i)))

#define COPY_OPERAND(ALONG_K, tile, slab, s, step, ld, extent)                                             \
  _Pragma("unroll") for (int i = 0; i < COPIES(tile); i++) {                                               \
    const int x = COPY_X(ALONG_K, tile, i), k = COPY_K(ALONG_K, tile, i);                                  \
    const int inside = x < (extent) && k < left;                                                           \
    COPY_CHUNK((slab) + COPY_PLACE(ALONG_K, tile, i), inside ? (s) + x * (step) + k * (ld) : (s), inside); \
  }
// Begins to copy the slab at a and b, of which `left` steps of k are to be multiplied.
#define COPY_SLAB(stage)                                                             \
  {                                                                                  \
    COPY_OPERAND(A_ALONG_K, TILE_M, STAGE_A(stage), a, p.a_row, p.a_column, rows)    \
    COPY_OPERAND(B_ALONG_K, TILE_N, STAGE_B(stage), b, p.b_column, p.b_row, columns) \
    a += SLAB * p.a_column, b += SLAB * p.b_row, left -= SLAB;                       \
  }                                                                                  \
  END_OF_COPIES

GROUP_KERNEL void gemm_tensor_cores(ARGUMENTS) {
  DECLARE_STAGES
  FIND_TILE
  int left = (int)steps;
  MULTIPLY_STAGES(sum, 0, steps)
  CLOSE_TILE
}
#else
// A work-item has TILE / 64 quads of an operand's slab: four units of one element of the panel, or one unit of four
// elements.
#define QUADS(tile) ((tile) / 64)
#define QUAD_X(ALONG_K, tile, q) ((ALONG_K) ? item / 4 + (q) * 64 : item % ((tile) / 4) * 4)
#define QUAD_UNIT(ALONG_K, tile, q) ((ALONG_K) ? item % 4 * 4 : item / ((tile) / 4) + (q) * (GROUP_ITEMS * 4 / (tile)))

#if IS_WORD
#define UNIT_OF(s, step, k_left) ((k_left) > 0 ? as_uint((s)[0]) : 0u)
#else
#define UNIT_OF(s, step, k_left) (((k_left) > 0 ? (uint)(s)[0] : 0u) | ((k_left) > 1 ? (uint)(s)[step] << 16 : 0u))
#endif

// The quad at element x of the panel and element k of the sum; `step`: from one element of the panel to the next, `ld`:
// along k. What is outside of the matrix is zero and not read.
#define DEFINE_FETCH(NAME, ALONG_K)                                                                          \
  inline uint4 NAME(__global const storage_t* s, long step, long ld, int x, int k, int extent, int k_left) { \
    uint unit[4];                                                                                            \
    _Pragma("unroll") for (int j = 0; j < 4; j++) {                                                          \
      const int at_x = (ALONG_K) ? x : x + j, at_k = (ALONG_K) ? k + j * PER_UNIT : k;                       \
      unit[j] = UNIT_OF(s + at_x * step + at_k * ld, ld, at_x < extent ? k_left - at_k : 0);                 \
    }                                                                                                        \
    return (uint4)(unit[0], unit[1], unit[2], unit[3]);                                                      \
  }
DEFINE_FETCH(fetch_a, A_ALONG_K)
DEFINE_FETCH(fetch_b, B_ALONG_K)

#define DEFINE_STAGE(NAME, ALONG_K, PITCH, SWIZZLED)                                      \
  inline void NAME(__local uint* slab, uint4 v, int x, int unit) {                        \
    slab += unit * (PITCH) + SWIZZLED(unit, x, 0);                                        \
    if (ALONG_K)                                                                          \
      slab[0] = v.x, slab[PITCH] = v.y, slab[2 * (PITCH)] = v.z, slab[3 * (PITCH)] = v.w; \
    else                                                                                  \
      *(__local uint4*)slab = v;                                                          \
  }
DEFINE_STAGE(stage_a, A_ALONG_K, PITCH_OF(TILE_M), SWIZZLED_A)
DEFINE_STAGE(stage_b, B_ALONG_K, PITCH_OF(TILE_N), SWIZZLED_B)

#define EACH_QUAD(tile, q) _Pragma("unroll") for (int q = 0; q < QUADS(tile); q++)
#define FETCH(k)                                                                               \
  EACH_QUAD(TILE_M, q)                                                                         \
  next_a[q] = fetch_a(a + (k) * p.a_column, p.a_row, p.a_column, QUAD_X(A_ALONG_K, TILE_M, q), \
                      QUAD_UNIT(A_ALONG_K, TILE_M, q) * PER_UNIT, rows, left);                 \
  EACH_QUAD(TILE_N, q)                                                                         \
  next_b[q] = fetch_b(b + (k) * p.b_row, p.b_column, p.b_row, QUAD_X(B_ALONG_K, TILE_N, q),    \
                      QUAD_UNIT(B_ALONG_K, TILE_N, q) * PER_UNIT, columns, left);

GROUP_KERNEL void gemm_tensor_cores(ARGUMENTS) {
  __local uint slab_a[2][SLAB_SIZE(LAYOUT_A, TILE_M)] __attribute__((aligned(16)));
  __local uint slab_b[2][SLAB_SIZE(LAYOUT_B, TILE_N)] __attribute__((aligned(16)));
  FIND_TILE
  uint4 next_a[QUADS(TILE_M)], next_b[QUADS(TILE_N)];
  int left = (int)min(steps, (long)SLAB);
  FETCH(0L)
  int current = 0;
  for (long k = 0; k < steps; k += SLAB) {
    EACH_QUAD(TILE_M, q)
    stage_a(slab_a[current], next_a[q], QUAD_X(A_ALONG_K, TILE_M, q), QUAD_UNIT(A_ALONG_K, TILE_M, q));
    EACH_QUAD(TILE_N, q)
    stage_b(slab_b[current], next_b[q], QUAD_X(B_ALONG_K, TILE_N, q), QUAD_UNIT(B_ALONG_K, TILE_N, q));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k + SLAB < steps) {
      left = (int)min(steps - k - SLAB, (long)SLAB);
      FETCH(k + SLAB)
    }
    multiply_slabs(sum, slab_a[current], slab_b[current], item);
    current ^= 1;
  }
  CLOSE_TILE
}
#endif
