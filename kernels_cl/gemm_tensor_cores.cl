// Tiles of products on tensor cores (common/tensor_cores.clh): a group of 256 work-items computes a TILE_M x TILE_N tile of c. Slabs along k are
// staged in local memory, two buffers: the next slab is fetched into registers while the current one is multiplied. Slices of k as in gemm_simt.cl,
// whose gemm_simt_finish adds them. Local range 256; grid of groups: (columns of c / TILE_N, rows of c / TILE_M, batch * slices).
// Defines: DTYPE (float32, bfloat16, float16), EXACT, TILE_M, TILE_N; for each operand ALONG_K (1: neighbours along k are neighbours in memory, or
// nothing is; 0: those along m or n are) and VECTORS (1: quads of units are neighbours, aligned, and wholly inside or outside of the matrix).
#ifndef DTYPE
#define DTYPE float32
#define EXACT 1
#define TILE_M 128
#define TILE_N 128
#define A_ALONG_K 1
#define B_ALONG_K 0
#define A_VECTORS 1
#define B_VECTORS 1
#endif
#define WIDE 0
#define SWIZZLED_A(k, x, step) QUADS_SWIZZLED(k, x, step)
#define SWIZZLED_B(k, x, step) QUADS_SWIZZLED(k, x, step)
#include "common/gemm_slices.clh"
#include "common/tensor_cores.clh"

// ---- fetching. A work-item has TILE / 64 quads of an operand's slab: four units of one element of the panel, or one unit of four elements.
#define QUADS(TILE) ((TILE) / 64)
#define QUAD_X(ALONG_K, TILE, item, q) ((ALONG_K) ? (item) / 4 + (q) * 64 : (item) % ((TILE) / 4) * 4)
#define QUAD_UNIT(ALONG_K, TILE, item, q) ((ALONG_K) ? (item) % 4 * 4 : (item) / ((TILE) / 4) + (q) * (GROUP_ITEMS * 4 / (TILE)))

#if IS_WORD
#define UNIT_OF(s, step, extent_left) ((extent_left) > 0 ? as_uint((s)[0]) : 0u)
#define QUAD_ALONG_K(s) *(__global const uint4*)(s)
#define QUAD_ALONG_PANEL(s, step) *(__global const uint4*)(s)
#else
#define UNIT_OF(s, step, extent_left) (((extent_left) > 0 ? (uint)(s)[0] : 0u) | ((extent_left) > 1 ? (uint)(s)[step] << 16 : 0u))
#define QUAD_ALONG_K(s) *(__global const uint4*)(s)
#define QUAD_ALONG_PANEL(s, step) (convert_uint4(*(__global const ushort4*)(s)) | convert_uint4(*(__global const ushort4*)((s) + (step))) << 16)
#endif

// The quad at element x of the panel and element k of the sum; `step`: from one element of the panel to the next, `ld`: along k. What is outside of
// the matrix is zero and not read.
#define DEFINE_FETCH(NAME, ALONG_K, VECTORS)                                                                      \
  inline uint4 NAME(__global const storage_t* s, long step, long ld, int x, int k, int extent, int k_left) {      \
    if (VECTORS) {                                                                                                \
      if (x >= extent || k >= k_left) return (uint4)0;                                                            \
      s += x * step + k * ld;                                                                                     \
      return (ALONG_K) ? QUAD_ALONG_K(s) : QUAD_ALONG_PANEL(s, ld);                                               \
    }                                                                                                             \
    uint unit[4];                                                                                                 \
    _Pragma("unroll") for (int j = 0; j < 4; j++) {                                                               \
      const int at_x = (ALONG_K) ? x : x + j, at_k = (ALONG_K) ? k + j * PER_UNIT : k;                            \
      unit[j] = UNIT_OF(s + at_x * step + at_k * ld, ld, at_x < extent ? k_left - at_k : 0);                      \
    }                                                                                                             \
    return (uint4)(unit[0], unit[1], unit[2], unit[3]);                                                           \
  }
DEFINE_FETCH(fetch_a, A_ALONG_K, A_VECTORS)
DEFINE_FETCH(fetch_b, B_ALONG_K, B_VECTORS)

#define DEFINE_STAGE(NAME, ALONG_K, PITCH, SWIZZLED)                                                                                     \
  inline void NAME(__local uint* slab, uint4 v, int x, int unit) {                                                                       \
    if (ALONG_K) {                                                                                                                       \
      slab += unit * (PITCH) + SWIZZLED(unit, x, 0);                                                                                     \
      slab[0] = v.x, slab[PITCH] = v.y, slab[2 * (PITCH)] = v.z, slab[3 * (PITCH)] = v.w;                                                \
    } else                                                                                                                               \
      *(__local uint4*)(slab + unit * (PITCH) + SWIZZLED(unit, x, 0)) = v;                                                                       \
  }
DEFINE_STAGE(stage_a, A_ALONG_K, PITCH_OF(TILE_M), SWIZZLED_A)
DEFINE_STAGE(stage_b, B_ALONG_K, PITCH_OF(TILE_N), SWIZZLED_B)

#define EACH_QUAD(TILE, q) _Pragma("unroll") for (int q = 0; q < QUADS(TILE); q++)
#define FETCH(k)                                                                                                                                     \
  EACH_QUAD(TILE_M, q) next_a[q] = fetch_a(a + (k) * p.a_column, p.a_row, p.a_column, QUAD_X(A_ALONG_K, TILE_M, item, q),                            \
                                           QUAD_UNIT(A_ALONG_K, TILE_M, item, q) * PER_UNIT, rows, left);                                            \
  EACH_QUAD(TILE_N, q) next_b[q] = fetch_b(b + (k) * p.b_row, p.b_column, p.b_row, QUAD_X(B_ALONG_K, TILE_N, item, q),                               \
                                           QUAD_UNIT(B_ALONG_K, TILE_N, item, q) * PER_UNIT, columns, left);

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1))) void gemm_tensor_cores(ARGUMENTS) {
  __local uint slab_a[2][SLAB_SIZE(TILE_M)] __attribute__((aligned(16)));
  __local uint slab_b[2][SLAB_SIZE(TILE_N)] __attribute__((aligned(16)));
  EMULATION_SCRATCH
  OPEN(const storage_t, a);
  OPEN(const storage_t, b);
  OPEN(storage_t, c);
  OPEN(const storage_t, d);
  OPEN(T, partial);
  const int item = get_local_id(0);
  const long batch = get_group_id(2) / plan.slices, slice = get_group_id(2) % plan.slices;
  const long m0 = (long)get_group_id(1) * TILE_M, n0 = (long)get_group_id(0) * TILE_N;
  const int rows = min((long)TILE_M, p.m - m0), columns = min((long)TILE_N, p.n - n0);
  const long start = slice * plan.slice, steps = max(0L, min(plan.slice, p.k - start));
  a += batch * p.a_batch + m0 * p.a_row + start * p.a_column;
  b += batch * p.b_batch + n0 * p.b_column + start * p.b_row;
  float sum[BLOCKS_M][BLOCKS_N][4];
#pragma unroll
  for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
    for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
  uint4 next_a[QUADS(TILE_M)], next_b[QUADS(TILE_N)];
  int left = (int)min(steps, (long)SLAB);
  FETCH(0L)
  int current = 0;
  for (long k = 0; k < steps; k += SLAB) {
    EACH_QUAD(TILE_M, q) stage_a(slab_a[current], next_a[q], QUAD_X(A_ALONG_K, TILE_M, item, q), QUAD_UNIT(A_ALONG_K, TILE_M, item, q));
    EACH_QUAD(TILE_N, q) stage_b(slab_b[current], next_b[q], QUAD_X(B_ALONG_K, TILE_N, item, q), QUAD_UNIT(B_ALONG_K, TILE_N, item, q));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k + SLAB < steps) {
      left = (int)min(steps - k - SLAB, (long)SLAB);
      FETCH(k + SLAB)
    }
    multiply_slabs(sum, slab_a[current], slab_b[current], item SCRATCH_ARGUMENT);
    current ^= 1;
  }
  c += batch * p.c_batch;
  d += batch * p.d_batch;
  partial += (slice * plan.batch + batch) * p.m * p.n;
#pragma unroll
  for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
    for (int j = 0; j < BLOCKS_N; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = SUM_ROW(item, i, e), column = SUM_COLUMN(item, j, e);
        if (row < rows && column < columns) {
          if (plan.slices > 1) partial[(m0 + row) * p.n + n0 + column] = sum[i][j][e];
          else finish(sum[i][j][e], m0 + row, n0 + column, c, d, &p, alpha, beta);
        }
      }
}
