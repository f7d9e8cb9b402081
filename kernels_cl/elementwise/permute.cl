// to = from in another order of dimensions: `to` is contiguous along dimension 0, `from` along dimension 1, the rest
// are counted off as
// batches. Elements are bits of E bytes; whole tiles are transposed in registers, so that both sides move whole
// vectors.
//   permute_cpu   grid: blocks along 0, blocks along 1, shares of the batches
//   permute_rows  CPU: runs of size0 elements that stay together, in the same order or reversed, counted along
//   dimension 1 and the batches; grid: shares of the runs permute_gpu  grid: tiles along 0, tiles along 1, batches; the
//   tile in local memory is padded against bank conflicts
// defines: E (element bytes), FOR_CPU
#include "params/elementwise.h"
#include "common/memory.clh"

#ifndef E
#define E 4
#define FOR_CPU 1
#endif

#if E == 1
#define T uchar
#elif E == 2
#define T ushort
#elif E == 4
#define T uint
#elif E == 8
#define T ulong
#else
#define T uint4
#endif

static inline void batch_offsets(SHARED const PermuteGeometry* g, long batch, long* from, long* to) {
  long f = 0, t = 0;
  for (int d = 0; d < 6 && batch > 0; d++) {
    const long q = batch / g->sizes[d], at = batch - q * g->sizes[d];
    batch = q;
    f += at * g->from[d];
    t += at * g->to[d];
  }
  *from = f;
  *to = t;
}

#if FOR_CPU

#if E == 16
// No vector holds several elements: one cache line of `to` after the other.
static inline void copy_block(__global const T* restrict from, __global T* restrict to, long from0, long to1, int width,
                              int height) {
  for (int j = 0; j < height; j += 4)
    for (int i = 0; i < width; i += 4)
      for (int jj = j; jj < MIN_OF(j + 4, height); jj++)
        for (int ii = i; ii < MIN_OF(i + 4, width); ii++) to[jj * to1 + ii] = from[ii * from0 + jj];
}
#else
#include "common/transpose16.clh"
#include "common/transpose8.clh"
#if E == 8
#define L 8
#else
#define L 16
#endif
#define V CAT(T, L)

// L x L elements, of which `rows` of `from` exist: r[j] becomes elements i .. i + L - 1 of row j of `to`.
static inline void load_tile(__global const T* restrict from, long from0, int rows, V* r) {
  if (rows >= L) {
    _Pragma("unroll") for (int l = 0; l < L; l++) r[l] = CAT(vload, L)(0, from + l * from0);
  } else {
    _Pragma("unroll") for (int l = 0; l < L; l++) r[l] = CAT(vload, L)(0, from + MIN_OF(l, rows - 1) * from0);
  }
  CAT(TRANSPOSE, L)(V, r)
}

static inline void copy_block(__global const T* restrict from, __global T* restrict to, long from0, long to1, int width,
                              int height) {
  V r[L];
  if (width >= L) {
    for (int j = 0; j < height; j += L) {
      const int columns = MIN_OF(L, height - j);
      for (int i = 0; i < width; i += L) {
        if (i + L > width) i = width - L;  // the last tile overlaps the one before
        load_tile(from + i * from0 + j, from0, L, r);
        __global T* out = to + j * to1 + i;
        if (columns == L) {
          _Pragma("unroll") for (int l = 0; l < L; l++) STORE_VECTOR(T, L, r[l], out + l * to1);
        } else {
          _Pragma("unroll") for (int l = 0; l < L; l++) if (l < columns) STORE_VECTOR(T, L, r[l], out + l * to1);
        }
      }
    }
    return;
  }
  // Rows shorter than a vector: packed in a scratch, where each row overwrites the excess of the one before.
  T scratch[L * L + L];
  for (int j = 0; j < height; j += L) {
    const int columns = MIN_OF(L, height - j);
    load_tile(from + j, from0, width, r);
    for (int l = 0; l < L; l++) CAT(vstore, L)(r[l], 0, scratch + l * width);
    __global T* out = to + j * to1;
    if (to1 == width) {
      const int n = columns * width;
      int k = 0;
      for (; k + L <= n; k += L) STORE_VECTOR(T, L, CAT(vload, L)(0, scratch + k), out + k);
      for (; k < n; k++) out[k] = scratch[k];
    } else {
      for (int l = 0; l < columns; l++)
        for (int i = 0; i < width; i++) out[l * to1 + i] = scratch[l * width + i];
    }
  }
}
#endif

CPU_KERNEL void permute_cpu(global const T* restrict from, global T* restrict to, PermuteGeometry g, long block0,
                            long block1, long batch_share, long batches) {
  const long i = get_group_id(0) * block0, j = get_group_id(1) * block1, first = get_group_id(2) * batch_share;
  const int width = MIN_OF(block0, g.size0 - i), height = MIN_OF(block1, g.size1 - j);
  for (long batch = first; batch < MIN_OF(first + batch_share, batches); batch++) {
    long f, t;
    batch_offsets(&g, batch, &f, &t);
    copy_block(from + f + i * g.from0 + j, to + t + j * g.to1 + i, g.from0, g.to1, width, height);
  }
}

#if E < 16
#define ELEMENT T
#include "common/copy_run.clh"

CPU_KERNEL void permute_rows(global const T* restrict from, global T* restrict to, PermuteGeometry g, long share,
                             long rows, int reversed) {
  const long last = MIN_OF((get_group_id(0) + 1) * share, rows);
  for (long row = get_group_id(0) * share; row < last;) {
    const long batch = row / g.size1, first = row - batch * g.size1, end = MIN_OF(g.size1, first + last - row);
    long f, t;
    batch_offsets(&g, batch, &f, &t);
    for (long r = first; r < end; r++)
      if (reversed)
        copy_reversed(to + t + r * g.to1, from + f + r * g.from1, g.size0);
      else
        copy_run(to + t + r * g.to1, from + f + r * g.from1, g.size0);
    row += end - first;
  }
}
#endif

#else
#define TILE 32
#define ROWS 8  // of a tile that the group's work-items hold at once

kernel __attribute__((reqd_work_group_size(TILE, ROWS, 1))) void permute_gpu(global const T* from, global T* to,
                                                                             PermuteGeometry g) {
  SHARE(PermuteGeometry, g, shared);
  __local T tile[TILE][TILE + 1];
  const int x = get_local_id(0), y = get_local_id(1);
  const long i = (long)get_group_id(0) * TILE, j = (long)get_group_id(1) * TILE;
  long f, t;
  batch_offsets(shared, get_group_id(2), &f, &t);
#pragma unroll
  for (int r = 0; r < TILE; r += ROWS)
    if (i + y + r < g.size0 && j + x < g.size1) tile[y + r][x] = from[f + (i + y + r) * g.from0 + j + x];
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int r = 0; r < TILE; r += ROWS)
    if (i + x < g.size0 && j + y + r < g.size1) to[t + (j + y + r) * g.to1 + i + x] = tile[x][y + r];
}
#endif
