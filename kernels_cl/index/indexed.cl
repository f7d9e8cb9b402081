// Moves elements of BYTES bytes through an index (csrc/ops/index/indexed.h); any dtype of that width.
//   index_cpu   a task copies a block; rows that are contiguous on both sides go by vectors of 16
//   index_gpu  a work-item per element
//   index_rows  whole rows of the source, destination[r] = source[index[r]]; CPU: a task copies `block` rows; GPU:
//   `block` work-items, a power
//               of two, share a row
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
#if CPU_STYLE && BYTES < 16
#include "common/copy_run.clh"
#define UPDATE_ROW(d, s, n) copy_run(d, s, n)
#define UPDATE_REVERSED(d, s, n) copy_reversed(d, s, n)
#endif

#include "index/indexed.clh"

#if CPU_STYLE
CPU_KERNEL void index_cpu(INDEXED_PARAMETERS) {
  const IndexedArguments a = INDEXED_ARGUMENTS;
  indexed_task(&walk, a, get_group_id(0), a0, a1);
}

#else
kernel void index_gpu(INDEXED_PARAMETERS) {
  SHARE(IndexedWalk, walk, shared);
  const IndexedArguments a = INDEXED_ARGUMENTS;
  indexed_item(shared, a, get_global_id(0), a0, a1);
}
#endif

// `checked`: all indices are below the limit, and a negative one is skipped. Steps in elements.
#define ROWS_PARAMETERS                                                                                       \
  global ELEMENT *dst, global const ELEMENT *src, global const STORAGE(INDEX_DTYPE) * idx, global int *error, \
      int code, int checked, long rows, long width, long lowest, long limit, long dst_row, long src_row,      \
      long src_step, long idx_row, long block
#define INDEX_OF_ROW(r) \
  (checked ? (long)idx[(r) * idx_row] : checked_index((long)idx[(r) * idx_row], lowest, limit, error, code))

#if !CPU_STYLE
#define ROW_GROUP 256
#define UNROLLED 4  // loads of a work-item that do not wait for each other

kernel __attribute__((reqd_work_group_size(ROW_GROUP, 1, 1))) void index_rows(ROWS_PARAMETERS) {
  const int items = (int)block, line = get_local_id(0) / items, item = get_local_id(0) - line * items;
  const long r = (long)get_group_id(0) * (ROW_GROUP / items) + line;
  if (r >= rows) return;
  const long k = INDEX_OF_ROW(r);
  if (k < 0) return;
  __global ELEMENT* to = dst + r * dst_row;
  __global const ELEMENT* from = src + r * src_row + k * src_step;
  for (int i = item; i < width; i += UNROLLED * items) {
    ELEMENT v[UNROLLED];
#pragma unroll
    for (int u = 0; u < UNROLLED; ++u)
      if (i + u * items < width) v[u] = from[i + u * items];
#pragma unroll
    for (int u = 0; u < UNROLLED; ++u)
      if (i + u * items < width) to[i + u * items] = v[u];
  }
}
#elif BYTES < 16
CPU_KERNEL void index_rows(ROWS_PARAMETERS) {
  const long first = get_group_id(0) * block, last = MIN_OF(first + block, rows);
  for (long r = first; r < last; ++r) {
    const long k = INDEX_OF_ROW(r);
    if (k >= 0) copy_run(dst + r * dst_row, src + r * src_row + k * src_step, width);
  }
}
#endif
