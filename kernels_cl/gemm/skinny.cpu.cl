// Gemm where one matrix is much larger than the other two, for CPU runtimes: the large one is read (or written) once,
// contiguously.
//   gemm_dot    few rows, a and b contiguous along k: lanes along k, 4 x DOT_COLUMNS dot products at a time. x W^T,
//   gemv, dot.
//   gemm_rows   few rows, b contiguous along n: blocks of BLOCK_K rows of b stay in L2 while all rows of a pass. dy W.
//   gemm_outer  k <= MAX_SMALL, c dense: outer products, written past the caches when c is large. dy^T x.
//   gemm_finish adds the partial sums of dot and rows when k was cut into slices, in a fixed order.
// Grids: (columns of c in blocks, slices of k, batch); outer: (rows of c in blocks, columns in blocks, batch).
// Programs: gemm_dot gemm_rows gemm_finish | gemm_outer
#include "params/gemm.h"
#include "common/programs.clh"
#include "gemm/gemm.clh"
#include "common/horizontal_sum.clh"

// defines: DTYPE, WIDE
#define MAX_SMALL skinny_small
#define DOT_COLUMNS skinny_columns
#define PARK_K 512            // dot: steps of k between passes over the rows of a
#define BLOCK_K 16            // rows: rows of b per pass
#define ROWS_TILE (1024 * L)  // rows: sums of one task, rows rounded up to 4 times columns rounded up to 4 L
#define OUTER_ROWS skinny_outer_rows

// Tiles of sums, for 32 registers of 64 bytes or 16 of 32: rows by DOT_COLUMNS vectors H of HL lanes, and 4 rows by
// TILE_VECTORS vectors.
#if NARROW_REGISTERS
#if WIDE
#define HL 4
#else
#define HL 8
#endif
#define DOT_ROWS 2
#define TILE_VECTORS 1
#define FIRST_HALF(v) (v).lo
#define WIDENED(h) ((V)(h, (H)0))
#else
#define HL L
#define DOT_ROWS 4
#define TILE_VECTORS 4
#define FIRST_HALF(v) (v)
#define WIDENED(h) (h)
#endif
#define H CAT(T, HL)

// Past the caches: c is not read again soon, and its lines need not be fetched first.
#if IS_BFLOAT16
#define STREAM(v, p) __builtin_nontemporal_store(float_to_bfloat1616(v), (__global ushort16*)(p))
#elif SIZEOF_STORAGE * L == 64
#define STREAM(v, p) __builtin_nontemporal_store(v, (__global V*)(p))
#else
#define STREAM(v, p) store_vector(v, p)
#endif

#define ARGUMENTS                                                                                       \
  global const storage_t *a, global const storage_t *b, global storage_t *c, global const storage_t *d, \
      global T *partial, GemmArguments p, SkinnyPlan plan, T alpha, T beta
#define TO_BATCH                      \
  const long batch = get_group_id(2); \
  a += batch * p.a_batch;             \
  b += batch * p.b_batch;             \
  c += batch * p.c_batch;             \
  d += batch * p.d_batch

// c[row, column] from its sum.
#define FINISH_SCALAR(sum, row, column)                                                                   \
  do {                                                                                                    \
    T v_ = alpha * (sum);                                                                                 \
    if (p.add) v_ = fma(beta, LOAD(DTYPE, COMPUTE, d, (row) * p.d_row + (column) * p.d_column), v_);      \
    STORE(DTYPE, COMPUTE, c, (row) * p.c_row + (column) * p.c_column, activate_scalar(v_, p.activation)); \
  } while (0)

#include "gemm/dots.clh"

#if HOLDS(0)
CPU_KERNEL void gemm_dot(ARGUMENTS) {
  TO_BATCH;
  const long n0 = (long)get_group_id(0) * plan.columns, n1 = min(n0 + plan.columns, p.n);
  const long start = get_group_id(1) * plan.slice, end = min(start + plan.slice, p.k);
  const int m = p.m;
  partial += (get_group_id(1) * plan.batch + batch) * p.m * p.n;
  if (m == 1) {
    dot_row(a, b, c, d, partial, &p, n0, n1, start, end, plan.slices > 1, alpha, beta);
    return;
  }
  V parked[MAX_SMALL * DOT_COLUMNS + L];
  T sums[MAX_SMALL * DOT_COLUMNS + L] __attribute__((aligned(64)));
  for (long n = n0; n < n1; n += DOT_COLUMNS) {
    __global const storage_t* column[DOT_COLUMNS];
    for (int j = 0; j < DOT_COLUMNS; j++) column[j] = b + min(n + j, n1 - 1) * p.b_column;
    long k0 = start;
    do {
      for (int q = 0; q < m; q += DOT_ROWS) {
        __global const storage_t* row[DOT_ROWS];
        H sum[DOT_ROWS][DOT_COLUMNS];
#pragma unroll
        for (int i = 0; i < DOT_ROWS; i++) {
          row[i] = a + min(q + i, m - 1) * p.a_row + k0;
#pragma unroll
          for (int j = 0; j < DOT_COLUMNS; j++)
            sum[i][j] = k0 == start ? (H)0 : FIRST_HALF(parked[(q + i) * DOT_COLUMNS + j]);
        }
        // For every two rows a column of the next steps, or of the next columns.
        __global const storage_t* ahead =
            k0 + PARK_K < end ? b + n * p.b_column + k0 + PARK_K : b + (n + DOT_COLUMNS) * p.b_column + start;
        ahead += q / 2 * p.b_column;
        add_dots(row, column, k0, min((long)PARK_K, end - k0), q / 2 < DOT_COLUMNS ? ahead : 0, p.b_column, sum);
#pragma unroll
        for (int i = 0; i < DOT_ROWS; i++)
#pragma unroll
          for (int j = 0; j < DOT_COLUMNS; j++) parked[(q + i) * DOT_COLUMNS + j] = WIDENED(sum[i][j]);
      }
      k0 += PARK_K;
    } while (k0 < end);
    for (int i = 0; i < m * DOT_COLUMNS; i += L) *(V*)(sums + i) = horizontal_sums(parked + i);
    for (int q = 0; q < m; q++)
      for (int j = 0; j < min((long)DOT_COLUMNS, n1 - n); j++) {
        const T sum = sums[q * DOT_COLUMNS + j];
        if (plan.slices > 1)
          partial[q * p.n + n + j] = sum;
        else
          FINISH_SCALAR(sum, q, n + j);
      }
  }
}
#endif

// `rows` rows of sums, `pitch` apart, by TILE_VECTORS vectors: += factors (MAX_SMALL for every step) times `steps` rows
// of b. first: sums begin at 0. 16 registers take 6 rows, which keep the multiply-adds busy where 4 do not quite.
inline __attribute__((always_inline)) void add_rows(const int rows, __local const T* factors,
                                                    __global const storage_t* b, long b_row, int steps, __local T* sums,
                                                    int pitch, int first) {
  V sum[6][TILE_VECTORS];
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] = first ? (V)0 : *(__local V*)(sums + i * pitch + j * L);
  for (int k = 0; k < steps; k++) {
    V w[TILE_VECTORS];
#pragma unroll
    for (int j = 0; j < TILE_VECTORS; j++) w[j] = load_vector(b + k * b_row + j * L);
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const V s = (V)(factors[k * MAX_SMALL + i]);
#pragma unroll
      for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] = fma(s, w[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < rows; i++)
#pragma unroll
    for (int j = 0; j < TILE_VECTORS; j++) *(__local V*)(sums + i * pitch + j * L) = sum[i][j];
}

#if HOLDS(0)
CPU_KERNEL void gemm_rows(ARGUMENTS) {
  TO_BATCH;
  local T tile[ROWS_TILE];
  local T factors[BLOCK_K * MAX_SMALL];
  const long n0 = (long)get_group_id(0) * plan.columns;
  const int columns = min((long)plan.columns, p.n - n0), m = p.m, pitch = plan.columns;
  const long start = get_group_id(1) * plan.slice, end = min(start + plan.slice, p.k);
  partial += (get_group_id(1) * plan.batch + batch) * p.m * p.n + n0;
  b += n0;
  c += n0 * p.c_column;
  d += n0 * p.d_column;
  long k0 = start;
  do {
    const int steps = min((long)BLOCK_K, end - k0);
    for (int k = 0; k < steps; k++) {
      for (int q = 0; q < MAX_SMALL; q++)
        if (q < m) factors[k * MAX_SMALL + q] = LOAD(DTYPE, COMPUTE, a, q * p.a_row + (k0 + k) * p.a_column);
      // Rows are multiplied four or six at a time: rubbish in the missing ones may be denormal, which slows
      // multiply-adds a hundredfold.
      for (int q = m; q % 4 != 0; q++) factors[k * MAX_SMALL + q] = 0;
    }
    for (int x = 0; x < columns; x += TILE_VECTORS * L) {
      const int padded = (m + 3) / 4 * 4;
      for (int q = 0; q < padded;) {
        __local T *sums = tile + q * pitch + x, *row_factors = factors + q;
        if (NARROW_REGISTERS && (padded - q >= 12 || padded - q == 6)) {
          add_rows(6, row_factors, b + k0 * p.b_row + x, p.b_row, steps, sums, pitch, k0 == start);
          q += 6;
        } else {
          add_rows(4, row_factors, b + k0 * p.b_row + x, p.b_row, steps, sums, pitch, k0 == start);
          q += 4;
        }
      }
    }
    k0 += BLOCK_K;
  } while (k0 < end);
  for (int q = 0; q < m; q++)
    for (int x = 0; x < columns; x += L) {
      __local const T* sums = tile + q * pitch + x;
      if (x + L <= columns && (plan.slices > 1 || p.c_column == 1)) {
        V v = *(__local const V*)sums;
        if (plan.slices > 1) {
          CAT(vstore, L)(v, 0, partial + q * p.n + x);
          continue;
        }
        v *= (V)alpha;
        if (p.add) v = fma((V)beta, load_addend(d + q * p.d_row + x * p.d_column, p.d_column), v);
        if (p.activation) v = activate(v, p.activation);
        store_vector(v, c + q * p.c_row + x);
      } else {
        for (int y = 0; y < min(L, columns - x); y++)
          if (plan.slices > 1)
            partial[q * p.n + x + y] = sums[y];
          else
            FINISH_SCALAR(sums[y], q, (long)(x + y));
      }
    }
}
#endif

#if HOLDS(1)
CPU_KERNEL void gemm_outer(ARGUMENTS) {
  TO_BATCH;
  local T factors[MAX_SMALL * OUTER_ROWS];
  const long m0 = (long)get_group_id(0) * OUTER_ROWS, n0 = (long)get_group_id(1) * plan.columns;
  const int rows = min((long)OUTER_ROWS, p.m - m0), columns = min((long)plan.columns, p.n - n0), steps = p.k;
  a += m0 * p.a_row;
  b += n0;
  c += m0 * p.c_row + n0;
  d += m0 * p.d_row + n0 * p.d_column;
  for (int k = 0; k < steps; k++) {
    for (int r = 0; r < rows; r++)
      factors[k * OUTER_ROWS + r] = alpha * LOAD(DTYPE, COMPUTE, a, r * p.a_row + k * p.a_column);
    for (int r = rows; r % 4 != 0; r++) factors[k * OUTER_ROWS + r] = 0;  // as in gemm_rows
  }
  // Blocks of columns whose part of b stays in L1.
  const int block = 16 * L;
  for (int x0 = 0; x0 < columns; x0 += block)
    for (int r = 0; r < rows; r += 4)
      for (int x = x0; x < min(x0 + block, columns); x += TILE_VECTORS * L) {
        V sum[4][TILE_VECTORS];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] = (V)0;
        for (int k = 0; k < steps; k++) {
          V w[TILE_VECTORS];
#pragma unroll
          for (int j = 0; j < TILE_VECTORS; j++) w[j] = load_vector(b + k * p.b_row + x + j * L);
#pragma unroll
          for (int i = 0; i < 4; i++) {
            const V s = (V)(factors[k * OUTER_ROWS + r + i]);
#pragma unroll
            for (int j = 0; j < TILE_VECTORS; j++) sum[i][j] = fma(s, w[j], sum[i][j]);
          }
        }
        if (plan.streaming && r + 4 <= rows && x + TILE_VECTORS * L <= columns) {
#pragma unroll
          for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < TILE_VECTORS; j++) STREAM(sum[i][j], c + (r + i) * p.c_row + x + j * L);
          continue;
        }
        for (int i = 0; i < min(4, rows - r); i++)
          for (int j = 0; j < TILE_VECTORS; j++) {
            const int y = x + j * L;
            V v = sum[i][j];
            if (y + L <= columns) {
              if (p.add) v = fma((V)beta, load_addend(d + (r + i) * p.d_row + y * p.d_column, p.d_column), v);
              if (p.activation) v = activate(v, p.activation);
              store_vector(v, c + (r + i) * p.c_row + y);
            } else {
              for (int z = 0; z < columns - y; z++) {
                T u = ((T*)&v)[z];
                if (p.add) u = fma(beta, LOAD(DTYPE, COMPUTE, d, (r + i) * p.d_row + (y + z) * p.d_column), u);
                STORE(DTYPE, COMPUTE, c, (r + i) * p.c_row + y + z, activate_scalar(u, p.activation));
              }
            }
          }
      }
}
#endif

#if HOLDS(0)
// Grid: (columns in blocks, rows, batch).
CPU_KERNEL void gemm_finish(ARGUMENTS) {
  TO_BATCH;
  const long n0 = (long)get_group_id(0) * plan.columns, n1 = min(n0 + plan.columns, p.n), row = get_group_id(1);
  partial += (batch * p.m + row) * p.n;
  for (long n = n0; n < n1; n++) {
    T sum = 0;
    for (int s = 0; s < plan.slices; s++) sum += partial[s * plan.batch * p.m * p.n + n];
    FINISH_SCALAR(sum, row, n);
  }
}
#endif
