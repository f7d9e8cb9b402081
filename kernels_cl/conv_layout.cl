// y[n, j, i] = x[n, i, j] for `rows` x `columns` matrices: the two memory orders of convolution operands (rows = channels,
// columns = pixels, or the reverse). E: unsigned integer type as wide as an element.
#include "common/memory.clh"

#ifndef E
#define E uint
#endif

#if FAT
#include "common/transpose16.clh"
#define E16 CAT(E, 16)

// One task: 16 rows, all columns. Whole blocks in registers, the edges element by element.
FAT_KERNEL void conv_layout_fat(TENSOR(const E, x), TENSOR(E, y), int rows, int columns) {
  OPEN_RESTRICT(const E, x); OPEN_RESTRICT(E, y);
  const int row = get_group_id(0) * 16, height = MIN_OF(16, rows - row);
  const long matrix = (long)get_group_id(1) * rows * columns;
  __global const E* restrict from = x + matrix + (long)row * columns;
  __global E* restrict to = y + matrix + row;
  int column = 0;
  if (height == 16)
    for (; column + 16 <= columns; column += 16) {
      E16 r[16];
      _Pragma("unroll") for (int l = 0; l < 16; l++) r[l] = vload16(0, from + (long)l * columns + column);
      TRANSPOSE16(E16, r)
      _Pragma("unroll") for (int l = 0; l < 16; l++) vstore16(r[l], 0, to + (long)(column + l) * rows);
    }
  for (; column < columns; column++)
    for (int l = 0; l < height; l++) to[(long)column * rows + l] = from[(long)l * columns + column];
}
#else
#define TILE 16

// Work-groups of 16 x 16; the tile is padded against bank conflicts.
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void conv_layout_simt(TENSOR(const E, x), TENSOR(E, y), int rows, int columns) {
  OPEN(const E, x); OPEN(E, y);
  __local E tile[TILE][TILE + 1];
  const int i = get_local_id(0), j = get_local_id(1), row = get_group_id(1) * TILE, column = get_group_id(0) * TILE;
  const long matrix = (long)get_group_id(2) * rows * columns;
  if (row + j < rows && column + i < columns) tile[j][i] = x[matrix + (long)(row + j) * columns + column + i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (row + i < rows && column + j < columns) y[matrix + (long)(column + j) * rows + row + i] = tile[i][j];
}
#endif
