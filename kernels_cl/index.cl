// Moves elements of BYTES bytes through an index (csrc/ops/index/indexed.h); any dtype of that width.
//   index_fat   a task copies a block; rows that are contiguous on both sides go by vectors of 16
//   index_simt  a work-item per element
//   index_rows  whole rows of the source, destination[r] = source[index[r]]; a task, or a group of ROW_ITEMS work-items, copies `block` rows
#include "common/memory.clh"

#ifndef BYTES
#define BYTES 4
#endif
#ifndef INDEX_DTYPE
#define INDEX_DTYPE int64
#endif

#define ELEMENT_1 uchar
#define ELEMENT_2 ushort
#define ELEMENT_4 uint
#define ELEMENT_8 ulong
#define ELEMENT_16 ulong2
#define ELEMENT CAT(ELEMENT_, BYTES)

#define UPDATE(d, s) *(d) = (s)
#if DEVICE_FAT && BYTES < 16
#include "common/copy_run.clh"
#define UPDATE_ROW(d, s, n) copy_run(d, s, n)
#define UPDATE_REVERSED(d, s, n) copy_reversed(d, s, n)
#endif

#include "common/indexed.clh"

#if DEVICE_FAT
INDEXED_FAT(index_fat)

#else
INDEXED_SIMT(index_simt)
#endif

#if !DEVICE_FAT || BYTES < 16
#if DEVICE_FAT
#define ROWS_KERNEL FAT_KERNEL
#define COPY_ROW(d, s, n) copy_run(d, s, n)
#else
#define ROW_ITEMS 64
#define ROWS_KERNEL __kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
#define COPY_ROW(d, s, n) \
  for (int i = get_local_id(0); i < (n); i += ROW_ITEMS) (d)[i] = (s)[i]
#endif
// `checked`: all indices are below the limit, and a negative one is skipped. Steps in elements.
ROWS_KERNEL void index_rows(TENSOR(ELEMENT, dst), TENSOR(const ELEMENT, src), TENSOR(const STORAGE(INDEX_DTYPE), idx), TENSOR(int, error), int code,
                            int checked, long rows, long width, long lowest, long limit, long dst_row, long src_row, long src_step, long idx_row, long block) {
  OPEN(ELEMENT, dst); OPEN(const ELEMENT, src); OPEN(const STORAGE(INDEX_DTYPE), idx); OPEN(int, error);
  const long first = get_group_id(0) * block, last = MIN_OF(first + block, rows);
  for (long r = first; r < last; ++r) {
    const long given = (long)idx[r * idx_row], k = checked ? given : checked_index(given, lowest, limit, error, code);
    if (k >= 0) COPY_ROW(dst + r * dst_row, src + r * src_row + k * src_step, width);
  }
}
#endif
