// Compaction by a mask, keeping the order (csrc/ops/index/compact.h). Block b holds elements [b * block, (b + 1) * block).
//   compact_count        offsets[b] = nonzero elements of block b
//   compact_scan         exclusive prefix sums in place, the total behind them
//   compact_coordinates  out[r, :] = coordinates of the r-th nonzero element
//   compact_select       out[r] = in[i] of the r-th nonzero element i
//   compact_scatter      out[i] = in[r]
// One work-item per block in both kernel styles.
#include "common/device_errors.clh"
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

typedef struct {
  int dims, unused;
  long sizes[16];
} CompactShape;

__kernel void compact_count(TENSOR(long, offsets), TENSOR(const MASK, mask), ulong bits, long numel, long block, long blocks) {
  OPEN(long, offsets);
  OPEN(const MASK, mask);
  const long b = get_global_id(0);
  if (b >= blocks) return;
  const long to = MIN_OF((b + 1) * block, numel);
  long count = 0;
  for (long i = b * block; i < to;) {
    const long stop = MIN_OF(i + 4096, to);
    int part = 0;  // short runs of int vectorise
    for (; i < stop; ++i) part += SELECTED(mask[i], bits);
    count += part;
  }
  offsets[b] = count;
}

__kernel void compact_scan(TENSOR(long, offsets), long blocks) {
  OPEN(long, offsets);
  long sum = 0;
  for (long b = 0; b < blocks; ++b) {
    const long count = offsets[b];
    offsets[b] = sum;
    sum += count;
  }
  offsets[blocks] = sum;
}

#define COMPACT_PARAMETERS(OUT, IN)                                                                                                     \
  TENSOR(OUT, out), TENSOR(const IN, in), TENSOR(const MASK, mask), TENSOR(const long, offsets), TENSOR(int, error), CompactShape shape, \
      ulong bits, long numel, long block, long limit, int code
#define COMPACT_OPEN(OUT, IN)                          \
  OPEN(OUT, out);                                      \
  OPEN(const IN, in);                                  \
  OPEN(const MASK, mask);                              \
  OPEN(const long, offsets);                           \
  OPEN(int, error);                                    \
  const long from = (long)get_global_id(0) * block;    \
  if (from >= numel) return;                           \
  const long to = MIN_OF(from + block, numel);         \
  long r = offsets[get_global_id(0)]

__kernel void compact_coordinates(COMPACT_PARAMETERS(long, long)) {
  COMPACT_OPEN(long, long);
  const int dims = shape.dims;
  const long last = shape.sizes[dims - 1];
  long rows = -1, row_start = 0;  // the row (all dimensions but the last) of the element found before
  long coordinates[16];
  for (long i = from; i < to; ++i) {
    if (!SELECTED(mask[i], bits)) continue;
    if (r >= limit) return;
    if (rows < 0 || i >= row_start + last) {
      long rest = rows = i / last;
      row_start = rows * last;
      for (int d = dims - 2; d >= 0; --d) {
        coordinates[d] = rest % shape.sizes[d];
        rest /= shape.sizes[d];
      }
    }
    for (int d = 0; d < dims - 1; ++d) out[r * dims + d] = coordinates[d];
    out[r * dims + dims - 1] = i - row_start;
    ++r;
  }
}

__kernel void compact_select(COMPACT_PARAMETERS(ELEMENT, ELEMENT)) {
  COMPACT_OPEN(ELEMENT, ELEMENT);
  for (long i = from; i < to; ++i)
    if (SELECTED(mask[i], bits) && r < limit) out[r++] = in[i];
}

__kernel void compact_scatter(COMPACT_PARAMETERS(ELEMENT, ELEMENT)) {
  COMPACT_OPEN(ELEMENT, ELEMENT);
  for (long i = from; i < to; ++i) {
    if (!SELECTED(mask[i], bits)) continue;
    if (r < limit)
      out[i] = in[r];
    else
      report_error(error, code, r, limit);
    ++r;
  }
}
