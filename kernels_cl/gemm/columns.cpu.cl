// Gemm with up to 32 rows, a and b contiguous along k (x W^T), for CPU runtimes, where b is too large for the caches:
// lanes are rows of a, and each task multiplies them by COLUMNS columns of b over all of k, with its sums in registers.
// Sums of CHAIN steps are added up.
//   gemm_columns_pack  a to packed[k][ROWS], zeros behind the last row. Grid: (blocks of PACK_DEPTH along k, batch).
//   gemm_columns       grid: (columns of c in groups of COLUMNS, batch).
// b is copied DEPTH steps of k at a time to where its columns do not fall into the same sets of the cache; the next
// steps are on their
// way to the second level meanwhile.
#include "gemm/gemm.clh"
#include "common/transpose16.clh"

// defines: DTYPE, WIDE 0
#define VECTORS 2
#define ROWS (16 * VECTORS)
#define COLUMNS columns_of_task
#define DEPTH 128
#define PITCH (DEPTH + 16)  // a column's in the copy; not a power of two
#define CHAIN 512           // steps of k that are summed one after the other, a multiple of DEPTH
#define PACK_DEPTH columns_packed

CPU_KERNEL void gemm_columns_pack(global const storage_t* a, global float* packed, GemmArguments p) {
  a += get_group_id(1) * p.a_batch;
  packed += get_group_id(1) * p.k * ROWS;
  const long start = (long)get_group_id(0) * PACK_DEPTH, end = min(start + PACK_DEPTH, p.k);
  for (long k = start; k < end; k += 16)
    for (int q = 0; q < ROWS; q += 16) {
      float16 r[16];
#pragma unroll
      for (int i = 0; i < 16; i++) r[i] = q + i < p.m ? load_vector(a + (q + i) * p.a_row + k) : (float16)0;
      TRANSPOSE16(float16, r);
#pragma unroll
      for (int i = 0; i < 16; i++)
        if (k + i < end) *(__global float16*)(packed + (k + i) * ROWS + q) = r[i];
    }
}

CPU_KERNEL void gemm_columns(global const float* packed, global const storage_t* b, global storage_t* c,
                             global const storage_t* d, GemmArguments p, float alpha, float beta) {
  const long n0 = (long)get_group_id(0) * COLUMNS, batch = get_group_id(1);
  const int columns = min((long)COLUMNS, p.n - n0);
  packed += batch * p.k * ROWS;
  b += batch * p.b_batch + n0 * p.b_column;
  c += batch * p.c_batch + n0 * p.c_column;
  d += batch * p.d_batch + n0 * p.d_column;
  local float block[COLUMNS * PITCH];
  float16 total[VECTORS * COLUMNS];
  for (int i = 0; i < VECTORS * COLUMNS; i++) total[i] = (float16)0;
  for (long start = 0; start < p.k; start += CHAIN) {
    const long end = min(start + CHAIN, p.k);
    float16 sum[VECTORS][COLUMNS];
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) sum[i][j] = (float16)0;
    for (long k0 = start; k0 < end; k0 += DEPTH) {
      const int steps = min((long)DEPTH, end - k0);
      for (int j = 0; j < COLUMNS; j++) {
        __global const storage_t* column = b + min(j, columns - 1) * p.b_column + k0;
        for (int k = 0; k < steps; k += 16) *(__local float16*)(block + j * PITCH + k) = load_vector(column + k);
      }
      __global const storage_t* next = k0 + DEPTH < p.k ? b + k0 + DEPTH : b + COLUMNS * p.b_column;
      for (int v = 0; v < steps; v += 16) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) PREFETCH_SECOND(next + j * p.b_column + v);
        const int stop = min(v + 16, steps);
        for (int k = v; k < stop; k++) {
          float16 x[VECTORS];
#pragma unroll
          for (int i = 0; i < VECTORS; i++) x[i] = *(__global const float16*)(packed + (k0 + k) * ROWS + i * 16);
#pragma unroll
          for (int j = 0; j < COLUMNS; j++) {
            const float16 w = (float16)(block[j * PITCH + k]);
#pragma unroll
            for (int i = 0; i < VECTORS; i++) sum[i][j] = fma(x[i], w, sum[i][j]);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) total[i * COLUMNS + j] += sum[i][j];
  }
  float result[COLUMNS * ROWS] __attribute__((aligned(64)));
  for (int i = 0; i < VECTORS; i++)
    for (int j = 0; j < COLUMNS; j++) *(float16*)(result + j * ROWS + i * 16) = total[i * COLUMNS + j];
  for (int q = 0; q < p.m; q++)
    for (int j = 0; j < columns; j++) {
      float v = alpha * result[j * ROWS + q];
      if (p.add) v = fma(beta, LOAD(DTYPE, COMPUTE, d, q * p.d_row + j * p.d_column), v);
      STORE(DTYPE, COMPUTE, c, q * p.c_row + j * p.c_column, activate_scalar(v, p.activation));
    }
}
