// Tiled gemm for GPUs: a group of 16 x 16 work-items computes a TILE x TILE tile of c, each work-item an RT x RT part
// of it in
// registers. Slabs of BK along k are staged in local memory, two buffers: the next slab is fetched into registers while
// the
// current one is multiplied, so there is one barrier per slab. Rows of the buffers are padded against bank conflicts.
// Slices of k (slices > 1, small c and long k) leave partial sums for gemm_simt_finish, which adds them in a fixed
// order.
// Local range (16, 16); grid of groups: (columns of c / TILE, rows of c / TILE, batch * slices). Chosen where kernels
// are not CPU.
#include "gemm/slices.clh"

// defines: DTYPE, WIDE, TILE (64 or 128)
#define ITEMS 256
#define BK 16
#define RT (TILE / 16)
#define QUADS (RT / 4)
#define PITCH (TILE + 4)
#define FETCH (TILE * BK / ITEMS)
#define T4 CAT(T, 4)

#define ALONG_PANEL 0

// Where this work-item's first element of a slab lies, and the distance to its next ones.
typedef struct {
  int panel, k, panel_step, k_step;
} fetch_map;

inline fetch_map map_of(int item, int mode) {
  fetch_map f;
  f.panel = mode == ALONG_PANEL ? item % TILE : item / BK;
  f.k = mode == ALONG_PANEL ? item / TILE : item % BK;
  f.panel_step = mode == ALONG_PANEL ? 0 : ITEMS / BK;
  f.k_step = mode == ALONG_PANEL ? ITEMS / TILE : 0;
  return f;
}

// Elements outside of the matrix are zero; memory there is not read.
inline void fetch(T* values, __global const storage_t* s, long step, long ld, fetch_map f, int extent, long k_left) {
#pragma unroll
  for (int i = 0; i < FETCH; i++) {
    const int panel = f.panel + i * f.panel_step, k = f.k + i * f.k_step;
    values[i] = (T)0;
    if (panel < extent && k < k_left) values[i] = LOAD(DTYPE, COMPUTE, s, panel * step + k * ld);
  }
}
inline void stage(__local T* buffer, const T* values, fetch_map f) {
#pragma unroll
  for (int i = 0; i < FETCH; i++) buffer[(f.k + i * f.k_step) * PITCH + f.panel + i * f.panel_step] = values[i];
}

// Row (column) of the tile of a work-item's x-th register: quads of neighbours, 64 apart.
#define REGISTER_POSITION(id, x) ((x) / 4 * 64 + (id) * 4 + (x) % 4)

inline void multiply_slab(__local const T* la, __local const T* lb, int tx, int ty, T sum[RT][RT]) {
#pragma unroll
  for (int k = 0; k < BK; k++) {
    T x[RT], y[RT];
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
      const T4 u = vload4(0, la + k * PITCH + q * 64 + ty * 4), v = vload4(0, lb + k * PITCH + q * 64 + tx * 4);
      x[q * 4] = u.x, x[q * 4 + 1] = u.y, x[q * 4 + 2] = u.z, x[q * 4 + 3] = u.w;
      y[q * 4] = v.x, y[q * 4 + 1] = v.y, y[q * 4 + 2] = v.z, y[q * 4 + 3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < RT; i++)
#pragma unroll
      for (int j = 0; j < RT; j++) sum[i][j] = fma(x[i], y[j], sum[i][j]);
  }
}

kernel __attribute__((reqd_work_group_size(16, 16, 1))) void gemm_simt(ARGUMENTS) {
  __local T la[2][BK * PITCH] __attribute__((aligned(16)));
  __local T lb[2][BK * PITCH] __attribute__((aligned(16)));
  const int tx = get_local_id(0), ty = get_local_id(1), item = ty * 16 + tx;
  const long batch = get_group_id(2) / plan.slices, slice = get_group_id(2) % plan.slices;
  const long m0 = (long)get_group_id(1) * TILE, n0 = (long)get_group_id(0) * TILE;
  const int rows = min((long)TILE, p.m - m0), columns = min((long)TILE, p.n - n0);
  const long start = slice * plan.slice, steps = max(0L, min(plan.slice, p.k - start));
  a += batch * p.a_batch + m0 * p.a_row + start * p.a_column;
  b += batch * p.b_batch + n0 * p.b_column + start * p.b_row;
  const fetch_map fa = map_of(item, plan.a_mode), fb = map_of(item, plan.b_mode);
  T sum[RT][RT], next_a[FETCH], next_b[FETCH];
#pragma unroll
  for (int i = 0; i < RT; i++)
#pragma unroll
    for (int j = 0; j < RT; j++) sum[i][j] = (T)0;
  fetch(next_a, a, p.a_row, p.a_column, fa, rows, steps);
  fetch(next_b, b, p.b_column, p.b_row, fb, columns, steps);
  int current = 0;
  for (long k = 0; k < steps; k += BK) {
    stage(la[current], next_a, fa);
    stage(lb[current], next_b, fb);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k + BK < steps) {
      fetch(next_a, a + (k + BK) * p.a_column, p.a_row, p.a_column, fa, rows, steps - k - BK);
      fetch(next_b, b + (k + BK) * p.b_row, p.b_column, p.b_row, fb, columns, steps - k - BK);
    }
    multiply_slab(la[current], lb[current], tx, ty, sum);
    current ^= 1;
  }
  c += batch * p.c_batch;
  d += batch * p.d_batch;
  partial += (slice * plan.batch + batch) * p.m * p.n;
  // The next row of sums moves to the first one: a loop over all of them is too long for compilers to unroll, and an
  // index that is not constant would bring the sums into memory.
  for (int i = 0; i < RT; i++) {
    const int row = REGISTER_POSITION(ty, i);
#pragma unroll
    for (int j = 0; j < RT; j++) {
      const int column = REGISTER_POSITION(tx, j);
      if (row < rows && column < columns) {
        if (plan.slices > 1)
          partial[(m0 + row) * p.n + n0 + column] = sum[0][j];
        else
          finish(sum[0][j], m0 + row, n0 + column, c, d, &p, alpha, beta);
      }
    }
#pragma unroll
    for (int r = 0; r + 1 < RT; r++)
#pragma unroll
      for (int j = 0; j < RT; j++) sum[r][j] = sum[r + 1][j];
  }
}

// One work-item per element of c. Grid: (n, m, batch).
kernel void gemm_simt_finish(ARGUMENTS) {
  const long column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  partial += (batch * p.m + row) * p.n + column;
  T sum = (T)0;
  for (int s = 0; s < plan.slices; s++) sum += partial[s * plan.batch * p.m * p.n];
  finish(sum, row, column, c + batch * p.c_batch, d + batch * p.d_batch, &p, alpha, beta);
}
