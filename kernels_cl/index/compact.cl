// Compaction by a mask, keeping the order (csrc/ops/index/compact.h). Block b holds elements [b * block, (b + 1) *
// block).
//   compact_count        offsets[b] = nonzero elements of block b
//   compact_scan         exclusive prefix sums in place, the total behind them
//   compact_coordinates  out[r, :] = coordinates of the r-th nonzero element
//   compact_select       out[r] = in[i] of the r-th nonzero element i
//   compact_scatter      out[i] = in[r]
// Fat: a task per block. GPU: a work-group of 256 per block; rounds of 256 elements, ranks by prefix sums in local
// memory.
#include "params/index.h"
#include "common/device_errors.clh"
#include "common/divide.clh"
#include "common/memory.clh"

#ifndef BYTES
#define BYTES 1  // of a mask element
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 4  // of a moved element
#endif
#define WORD_1 uchar
#define WORD_2 ushort
#define WORD_4 uint
#define WORD_8 ulong
#define WORD_16 ulong2
#define MASK CAT(WORD_, BYTES)
#define ELEMENT CAT(WORD_, ELEMENT_BYTES)
#if BYTES == 16
#define SELECTED(m, bits) ((((m).x | (m).y) & (bits)) != 0)
#else
#define SELECTED(m, bits) (((m) & (MASK)(bits)) != 0)
#endif

#define GROUP 256
#if CPU_STYLE
#define COMPACT_KERNEL CPU_KERNEL
#else
#define COMPACT_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))

// Inclusive prefix sum of `value` over the work-group; sums[GROUP - 1] is the total until the next barrier.
static inline long group_prefix(long value, __local long* sums) {
  const int t = get_local_id(0);
  sums[t] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < GROUP; step *= 2) {
    const long other = t >= step ? sums[t - step] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[t] += other;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return sums[t];
}
#endif

COMPACT_KERNEL void compact_count(global long* offsets, global const MASK* mask, ulong bits, long numel, long block,
                                  long blocks) {
  const long b = get_group_id(0), to = MIN_OF((b + 1) * block, numel);
  long count = 0;
#if CPU_STYLE
  for (long i = b * block; i < to;) {
    const long stop = MIN_OF(i + 4096, to);
    int part = 0;  // short runs of int vectorise
    for (; i < stop; ++i) part += SELECTED(mask[i], bits);
    count += part;
  }
  offsets[b] = count;
#else
  __local long sums[GROUP];
  for (long i = b * block + get_local_id(0); i < to; i += GROUP) count += SELECTED(mask[i], bits);
  count = group_prefix(count, sums);
  if (get_local_id(0) == GROUP - 1) offsets[b] = count;
#endif
}

COMPACT_KERNEL void compact_scan(global long* offsets, long blocks) {
#if CPU_STYLE
  long from = 0, to = blocks, sum = 0;
#else
  __local long sums[GROUP];
  const long part = (blocks + GROUP - 1) / GROUP;
  const long from = MIN_OF(get_local_id(0) * part, blocks), to = MIN_OF(from + part, blocks);
  long sum = 0;
  for (long b = from; b < to; ++b) sum += offsets[b];
  sum = group_prefix(sum, sums) - sum;
#endif
  for (long b = from; b < to; ++b) {
    const long count = offsets[b];
    offsets[b] = sum;
    sum += count;
  }
  if (to == blocks && (from < to || get_local_id(0) == 0)) offsets[blocks] = sum;
}

// ---- what is done with the r-th selected element i
#define COMPACT_PARAMETERS                                                                                            \
  global const MASK *mask, global const long *offsets, global int *error, CompactShape shape, ulong bits, long numel, \
      long block, long limit, int code
#if CPU_STYLE
#define COMPACT_RUN(ACTION)          \
  long r = offsets[get_group_id(0)]; \
  for (long i = from_; i < to_; ++i) \
    if (SELECTED(mask[i], bits)) {   \
      ACTION(i, r);                  \
      ++r;                           \
    }
#else
#define COMPACT_RUN(ACTION)                                                   \
  __local long sums[GROUP];                                                   \
  long base = offsets[get_group_id(0)];                                       \
  for (long start = from_; start < to_; start += GROUP) {                     \
    const long i = start + get_local_id(0);                                   \
    const int selected = i < to_ && SELECTED(mask[MIN_OF(i, to_ - 1)], bits); \
    const long r = base + group_prefix(selected, sums) - 1;                   \
    if (selected) ACTION(i, r);                                               \
    base += sums[GROUP - 1];                                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
  }
#endif

static inline void put_coordinates(__global long* out, long i, SHARED const CompactShape* shape) {
  for (int d = shape->dims - 1; d >= 0; --d) {
    const long rest = divide(i, shape->sizes[d]);
    out[d * shape->column] = i - rest * shape->sizes[d];
    i = rest;
  }
}
#define PUT_COORDINATES(i, r) \
  if ((r) < limit) put_coordinates(out + (r) * shape.row, i, shared)
COMPACT_KERNEL void compact_coordinates(global long* out, global const long* in, COMPACT_PARAMETERS) {
  SHARE(CompactShape, shape, shared);
  const long from_ = get_group_id(0) * block, to_ = MIN_OF(from_ + block, numel);
  COMPACT_RUN(PUT_COORDINATES);
}

#define PUT_ELEMENT(i, r) \
  if ((r) < limit) out[r] = in[i]
COMPACT_KERNEL void compact_select(global ELEMENT* out, global const ELEMENT* in, COMPACT_PARAMETERS) {
  const long from_ = get_group_id(0) * block, to_ = MIN_OF(from_ + block, numel);
  COMPACT_RUN(PUT_ELEMENT);
}

#define TAKE_ELEMENT(i, r)                 \
  do {                                     \
    if ((r) < limit)                       \
      out[i] = in[r];                      \
    else                                   \
      report_error(error, code, r, limit); \
  } while (0)
COMPACT_KERNEL void compact_scatter(global ELEMENT* out, global const ELEMENT* in, COMPACT_PARAMETERS) {
  const long from_ = get_group_id(0) * block, to_ = MIN_OF(from_ + block, numel);
  COMPACT_RUN(TAKE_ELEMENT);
}
