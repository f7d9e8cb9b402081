// Laying elements of BYTES bytes out anew (csrc/ops/shape/shape.h). A work-item makes `block` consecutive elements (or
// rows) of the output:
// many on CPU devices, one on GPU devices.
#include "params/shape.h"
#include "common/divide.clh"
#include "common/memory.clh"

#ifndef BYTES
#define BYTES 4
#endif
#define ELEMENT_1 uchar
#define ELEMENT_2 ushort
#define ELEMENT_4 uint
#define ELEMENT_8 ulong
#define ELEMENT_16 ulong2
#define ELEMENT CAT(ELEMENT_, BYTES)

#if CPU_STYLE && BYTES < 16
#include "common/copy_run.clh"
#define copy_elements copy_run
#else
static inline void copy_elements(__global ELEMENT* d, __global const ELEMENT* s, long n) {
  for (long j = 0; j < n; ++j) d[j] = s[j];
}
#endif

// ---- concatenate: rows of `pitch` elements; input i, whose rows are pitches[i] apart, fills columns [start[i],
// start[i] + length[i]); this launch covers `width` columns from `first`
#define PIECES                                                                                            \
  global const ELEMENT *i0, global const ELEMENT *i1, global const ELEMENT *i2, global const ELEMENT *i3, \
      global const ELEMENT *i4, global const ELEMENT *i5, global const ELEMENT *i6, global const ELEMENT *i7
#if CPU_STYLE
#define INPUT_LIST __global const ELEMENT* inputs[concatenate_slots] = {i0, i1, i2, i3, i4, i5, i6, i7};
CPU_KERNEL void concatenate(global ELEMENT* out, PIECES, ConcatenateShape shape) {
  INPUT_LIST
  long at = (long)get_global_id(0) * shape.block;
  if (at >= shape.total) return;
  const long to = MIN_OF(at + shape.block, shape.total);
  long row = divide(at, shape.width), column = at - row * shape.width + shape.first;
  int slot = 0;
  while (at < to) {
    while (column >= shape.start[slot] + shape.length[slot]) ++slot;
    const long inside = column - shape.start[slot], n = MIN_OF(shape.length[slot] - inside, to - at);
    copy_elements(out + row * shape.pitch + column, inputs[slot] + row * shape.pitches[slot] + inside, n);
    at += n;
    column += n;
    if (column == shape.first + shape.width) {
      column = shape.first;
      ++row;
      slot = 0;
    }
  }
}
#else
#define GROUP 256
#define UNROLLED 4  // elements of a work-item, GROUP apart; their loads do not wait for each other
// Where column `c` of a row comes from. Unused inputs start past every column; no array is indexed, which would lie in
// memory.
#define FROM_PIECE(k) \
  if (c >= shape.start[k]) from = i##k + row * shape.pitches[k] - shape.start[k];

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void concatenate(global ELEMENT* out, PIECES,
                                                                           ConcatenateShape shape) {
  const long first = (long)get_group_id(0) * (UNROLLED * GROUP) + get_local_id(0);
  ELEMENT v[UNROLLED];
  long to[UNROLLED];
#pragma unroll
  for (int u = 0; u < UNROLLED; ++u) {
    const long at = first + u * GROUP;
    if (at >= shape.total) continue;
    const long row = divide(at, shape.width), c = at - row * shape.width + shape.first;
    __global const ELEMENT* from = i0 + row * shape.pitches[0] - shape.start[0];
    FROM_PIECE(1)
    if (c >= shape.start[2]) {
      FROM_PIECE(2)
      FROM_PIECE(3)
      FROM_PIECE(4)
      FROM_PIECE(5)
      FROM_PIECE(6)
      FROM_PIECE(7)
    }
    v[u] = from[c];
    to[u] = row * shape.pitch + c;
  }
#pragma unroll
  for (int u = 0; u < UNROLLED; ++u)
    if (first + u * GROUP < shape.total) out[to[u]] = v[u];
}
#undef GROUP
#undef UNROLLED
#endif

#if CPU_STYLE && BYTES < 16
// The same for pieces of few elements, as when tensors are stacked along a last dimension: input after input for ROWS
// rows, which stay in the
// cache meanwhile. A work-item makes `block` rows.
#define ROWS 128
#define JOINED(a, b, S)                                                                                               \
  __builtin_shufflevector(a, b, S, 16 + S, S + 1, 17 + S, S + 2, 18 + S, S + 3, 19 + S, S + 4, 20 + S, S + 5, 21 + S, \
                          S + 6, 22 + S, S + 7, 23 + S)
CPU_KERNEL void concatenate_narrow(global ELEMENT* out, PIECES, ConcatenateShape shape, int slots) {
  INPUT_LIST
  const long begin = get_global_id(0) * shape.block, end = MIN_OF(begin + shape.block, shape.total / shape.width),
             pitch = shape.pitch;
  for (long row = begin; row < end; row += ROWS) {
    const long rows = MIN_OF((long)ROWS, end - row);
    long done = 0;
    if (slots == 2 && pitch == 2 && shape.pitches[0] == 1 && shape.pitches[1] == 1)
      for (; done + 16 <= rows; done += 16) {
        const CAT(ELEMENT, 16) a = RUN_LOAD(i0 + row + done), b = RUN_LOAD(i1 + row + done);
        RUN_STORE(JOINED(a, b, 0), out + 2 * (row + done));
        RUN_STORE(JOINED(a, b, 8), out + 2 * (row + done) + 16);
      }
    for (int slot = 0; slot < slots; ++slot) {
      const long n = shape.length[slot], step = shape.pitches[slot];
      __global const ELEMENT* restrict from = inputs[slot] + row * step;
      __global ELEMENT* restrict to = out + row * pitch + shape.start[slot];
      if (n == 1)
        for (long r = done; r < rows; ++r) to[r * pitch] = from[r * step];
      else if (n == 2)
        for (long r = done; r < rows; ++r) to[r * pitch] = from[r * step], to[r * pitch + 1] = from[r * step + 1];
      else
        for (long r = done; r < rows; ++r) copy_run(to + r * pitch, from + r * step, n);
    }
  }
}
#endif

// ---- triangle, eye
static inline ELEMENT no_element(void) { return (ELEMENT)(0); }

// Elements [from, to) of one row.
static inline void triangle_row(__global ELEMENT* out, __global const ELEMENT* in, SHARED const TriangleShape* s,
                                long linear, long from, long to) {
  long rest = divide(linear, s->rows), o = 0, i = 0;
  const long row = linear - rest * s->rows;
  for (int d = s->dims - 1; d >= 0; --d) {
    const long next = divide(rest, s->sizes[d]), coordinate = rest - next * s->sizes[d];
    o += coordinate * s->out[d];
    i += coordinate * s->in[d];
    rest = next;
  }
  out += o + row * s->out_row;
  in += i + row * s->in_row;
  // columns [keep_from, keep_to) are kept
  const long edge = row + s->diagonal;
  const long keep_from = s->upper ? MIN_OF(MAX_OF(edge, from), to) : from,
             keep_to = s->upper ? to : MIN_OF(MAX_OF(edge + 1, from), to);
  const long oc = s->out_column, ic = s->in_column;
  for (long c = from; c < keep_from; ++c) out[c * oc] = no_element();
  if (out + keep_from * oc != in + keep_from * ic) {
    if (oc == 1 && ic == 1)
      copy_elements(out + keep_from, in + keep_from, keep_to - keep_from);
    else
      for (long c = keep_from; c < keep_to; ++c) out[c * oc] = in[c * ic];
  }
  for (long c = keep_to; c < to; ++c) out[c * oc] = no_element();
}

// CPU: a work-item does `block` rows; GPU: one element
TASK_KERNEL void triangle(global ELEMENT* out, global const ELEMENT* in, TriangleShape shape, long block) {
  SHARE(TriangleShape, shape, shared);
  const long item = get_global_id(0);
#if CPU_STYLE
  const long to = MIN_OF((item + 1) * block, shape.total_rows);
  for (long r = item * block; r < to; ++r) triangle_row(out, in, shared, r, 0, shape.columns);
#else
  const long r = divide(item, shape.columns), c = item - r * shape.columns;
  if (r < shape.total_rows) triangle_row(out, in, shared, r, c, c + 1);
#endif
}

TASK_KERNEL void eye(global ELEMENT* out, long rows, long columns, long row_stride, long column_stride, ulong low,
                     ulong high, long block) {
  union {
    ulong bits[2];
    ELEMENT element;
  } one;
  one.bits[0] = low;
  one.bits[1] = high;
  const long from = (long)get_global_id(0) * block, to = MIN_OF(from + block, rows * columns);
  for (long at = from; at < to;) {
    const long row = divide(at, columns), column = at - row * columns, n = MIN_OF(columns - column, to - at);
    __global ELEMENT* p = out + row * row_stride;
    long c = column;
#if CPU_STYLE && BYTES < 16
    for (; column_stride == 1 && c + 16 <= column + n; c += 16) STORE_VECTOR(ELEMENT, 16, (CAT(ELEMENT, 16))0, p + c);
#endif
    for (; c < column + n; ++c) p[c * column_stride] = no_element();
    if (column <= row && row < column + n) p[row * column_stride] = one.element;
    at += n;
  }
}

#if BYTES == 4 || BYTES == 8
// ---- int32 or int64 results
#define INTEGER_4 int
#define INTEGER_8 long
#define INTEGER CAT(INTEGER_, BYTES)

// out[j] = i where cumulative[i - 1] <= j < cumulative[i]; `cumulative` has INTEGER elements too
TASK_KERNEL void repeat_indices(global INTEGER* out, global const INTEGER* cumulative, long count, long total,
                                long block) {
  const long from = (long)get_global_id(0) * block, to = MIN_OF(from + block, total);
  if (from >= to) return;
  long low = 0, high = count - 1;  // first i with cumulative[i] > from
  while (low < high) {
    const long middle = (low + high) / 2;
    if (cumulative[middle] > from)
      high = middle;
    else
      low = middle + 1;
  }
  for (long j = from; j < to; ++j) {
    while (low < count - 1 && cumulative[low] <= j) ++low;
    out[j] = (INTEGER)low;
  }
}

// Sum over rows q < row of clamp(q + k, 0, columns).
static inline long triangle_start(long row, long k, long columns) {
  const long from = MIN_OF(MAX_OF(-k, 0), row), full = MIN_OF(MAX_OF(columns - k, from), row);
  return (full - from) * k + (full * (full - 1) - from * (from - 1)) / 2 + (row - full) * columns;
}

TASK_KERNEL void triangle_indices(global INTEGER* out, long rows, long columns, long diagonal, long total, int upper,
                                  long block) {
  const long from = (long)get_global_id(0) * block, to = MIN_OF(from + block, rows);
  for (long r = from; r < to; ++r) {
    const long k = upper ? diagonal : diagonal + 1, edge = MIN_OF(MAX_OF(r + k, 0), columns);
    long at = upper ? r * columns - triangle_start(r, k, columns) : triangle_start(r, k, columns);
    for (long c = upper ? edge : 0; c < (upper ? columns : edge); ++c, ++at) {
      out[at] = (INTEGER)r;
      out[total + at] = (INTEGER)c;
    }
  }
}
#endif
