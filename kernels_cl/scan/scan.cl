// Inclusive scans y[o, i] = x[o, 0] * ... * x[o, i] of the associative operator COMBINE along one dimension.
// The row of the table in csrc/ops/scan/scan.cpp supplies
//   IDENTITY, COMBINE_VALUES(W, a, b)     value rows;  WINS(a, b): the later b replaces a     INDEXED rows
//   IN, ACC, OUT     dtypes of input, block arithmetic and output;  CARRY: dtype of the value carried from block to
//   block
// Long scans are cut into chunks: pass 0 writes the total of every chunk, scan_carries turns totals into the state
// before each
// chunk, pass 1 scans the chunks. With one chunk only pass 1 runs.
#include "params/scan.h"
#include "common/types.clh"

#ifndef IN
#define IN float32
#define ACC float32
#define OUT float32
#define CARRY float32
#define INDEXED 0
#define IDENTITY 0
#define COMBINE_VALUES(W, a, b) ((a) + (b))
#endif

#define LOWEST_float32 (-INFINITY)
#define LOWEST_float64 (-(double)INFINITY)
#define LOWEST_int32 INT_MIN
#define LOWEST_int64 LONG_MIN
#define LOWEST_uint64 0
#define LOWEST CAT(LOWEST_, ACC)
#define HIGHEST_float32 INFINITY
#define HIGHEST_float64 ((double)INFINITY)
#define HIGHEST_int32 INT_MAX
#define HIGHEST_int64 LONG_MAX
#define HIGHEST_uint64 ULONG_MAX
#define HIGHEST CAT(HIGHEST_, ACC)
#if IS_COMPLEX(ACC)
#define PRODUCT(a, b) ((VALUE(ACC))((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x))
#define ONE ((VALUE(ACC))(1, 0))
#else
#define PRODUCT(a, b) ((a) * (b))
#define ONE 1
#endif
#define VALUES(W) VALUE_V(ACC, W)
#define CONSTANT(W, c) ((VALUES(W))(c))
#define CARRIES(W) VALUE_V(CARRY, W)
#define INPUT __global const STORAGE(IN)*

static inline long offset_of(long i, int dims, SHARED const long* size, SHARED const long* stride) {
  long offset = 0;
  for (int d = dims - 1; d > 0; --d) {
    const long q = i / size[d];
    offset += (i - q * size[d]) * stride[d];
    i = q;
  }
  return dims ? offset + i * stride[0] : 0;
}

// log(exp(a) + exp(b)); equal infinities stay, NaN propagates.
#if IS_FLOATING(ACC)
#define DEFINE_LOG_ADD_EXP(W)                                                                       \
  static inline VALUES(W) CAT(log_add_exp_, W)(VALUES(W) a, VALUES(W) b) {                          \
    const VALUES(W) low = a < b ? a : b, high = a < b ? b : a, sum = high + log1p(exp(low - high)); \
    const VALUES(W) result = ((low == high) & (fabs(high) == (VALUE(ACC))INFINITY)) ? high : sum;   \
    return ((a != a) | (b != b)) ? a + b : result;                                                  \
  }
DEFINE_LOG_ADD_EXP(1)
#if VECTOR
DEFINE_LOG_ADD_EXP(16)
#endif
#define LOG_ADD_EXP(W, a, b) CAT(log_add_exp_, W)(a, b)
#endif

#define ARGUMENTS                                                                                             \
  global const STORAGE(IN) * x, global STORAGE(OUT) * y, global long *y_index, global STORAGE(CARRY) * carry, \
      global long *carry_index, ScanShape shape

#define TO_CARRY(v) CONVERT(CARRY, ACC, v)

// Totals of the chunks of row o become the states before them; carry[chunk][row].
kernel void scan_carries(global STORAGE(CARRY) * carry, global long* carry_index, long rows, long chunks) {
  const long o = get_global_id(0);
  if (o >= rows) return;
  VALUE(CARRY) state = TO_CARRY(CONSTANT(1, IDENTITY));
#if INDEXED
  long state_index = 0;
#endif
  for (long c = 0; c < chunks; ++c) {
    const VALUE(CARRY) total = carry[c * rows + o];
    carry[c * rows + o] = state;
#if INDEXED
    const long total_index = carry_index[c * rows + o];
    carry_index[c * rows + o] = state_index;
    if (c == 0 || WINS(state, total)) state = total, state_index = total_index;
#else
    state = COMBINE_VALUES(1, state, total);
#endif
  }
}

// Sequential scan of elements [begin, end) of one row.
static inline void scan_sequence(INPUT x, __global STORAGE(OUT) * y, __global long* y_index, long begin, long end,
                                 const ScanShape* shape, VALUE(CARRY) * state, long* state_index) {
  for (long i = begin; i < end; ++i) {
    const VALUE(ACC) v = LOAD(IN, ACC, x, i * shape->x_stride);
#if INDEXED
    if (i == 0 || WINS(*state, v)) *state = v, *state_index = i;
    if (shape->pass) y_index[i * shape->index_stride] = *state_index;
#else
    const VALUE(CARRY) w = TO_CARRY(v);
    *state = COMBINE_VALUES(1, *state, w);
#endif
    if (shape->pass) STORE(OUT, CARRY, y, i * shape->y_stride, *state);
  }
}

#if CPU_STYLE
// Rows of contiguous elements in blocks of 16: a prefix tree in registers, then the carry. Value rows of real types
// only.
#if VECTOR
#define SHIFT_IN(v, n)                                                                                               \
  __builtin_shufflevector((CARRIES(16))(TO_CARRY(CONSTANT(1, IDENTITY))), v, 16 - n, 17 - n, 18 - n, 19 - n, 20 - n, \
                          21 - n, 22 - n, 23 - n, 24 - n, 25 - n, 26 - n, 27 - n, 28 - n, 29 - n, 30 - n, 31 - n)
static inline long scan_blocks(INPUT x, __global STORAGE(OUT) * y, long begin, long end, int pass,
                               VALUE(CARRY) * state) {
  long i = begin;
  for (; i + 16 <= end; i += 16) {
    CARRIES(16) v = LOADV(IN, CARRY, 16, x, i);
    v = COMBINE_VALUES(16, SHIFT_IN(v, 1), v);
    v = COMBINE_VALUES(16, SHIFT_IN(v, 2), v);
    v = COMBINE_VALUES(16, SHIFT_IN(v, 4), v);
    v = COMBINE_VALUES(16, SHIFT_IN(v, 8), v);
    const CARRIES(16) before = (CARRIES(16))(*state);
    if (pass) STOREV(OUT, CARRY, 16, y, i, COMBINE_VALUES(16, before, v));
    *state = COMBINE_VALUES(1, *state, v.sf);
  }
  return i;
}
#endif

// A task is `group` rows and one chunk.
CPU_KERNEL void scan_rows(ARGUMENTS) {
  SHARE(ScanShape, shape, shared);
  const long task = get_global_id(0), chunk = task % shape.chunks, first = task / shape.chunks * shape.group;
  const long last = MIN_OF(first + shape.group, shape.rows);
  const long begin = chunk * shape.chunk, end = MIN_OF(begin + shape.chunk, shape.n);
  for (long o = first; o < last; ++o) {
    INPUT px = x + offset_of(o, shape.kept, shared->kept_size, shared->kept_x);
    __global STORAGE(OUT)* py = y + offset_of(o, shape.kept, shared -> kept_size, shared->kept_y);
    __global long* pi = y_index + (INDEXED ? offset_of(o, shape.kept, shared->kept_size, shared->kept_index) : 0);
    const bool carried = shape.pass && shape.chunks > 1;
    VALUE(CARRY) state = carried ? carry[chunk * shape.rows + o] : TO_CARRY(CONSTANT(1, IDENTITY));
    long state_index = INDEXED && carried ? carry_index[chunk * shape.rows + o] : begin;
    long i = begin;
#if INDEXED
    if (!carried) state = LOAD(IN, ACC, px, begin * shape.x_stride);
#endif
#if VECTOR
    if (shape.x_stride == 1 && shape.y_stride == 1) i = scan_blocks(px, py, begin, end, shape.pass, &state);
#endif
    scan_sequence(px, py, pi, i, end, &shape, &state, &state_index);
    if (!shape.pass) {
      carry[chunk * shape.rows + o] = state;
#if INDEXED
      carry_index[chunk * shape.rows + o] = state_index;
#endif
    }
  }
}

// The innermost kept dimension is contiguous in x and y: 16 neighbouring rows in the lanes. Value rows of real types.
#if VECTOR_COLUMNS
CPU_KERNEL void scan_columns(ARGUMENTS) {
  SHARE(ScanShape, shape, shared);
  const long columns = shape.kept_size[shape.kept - 1], strips = (columns + 15) / 16;
  const long task = get_global_id(0), chunk = task % shape.chunks, first = task / shape.chunks * shape.group;
  const long last = MIN_OF(first + shape.group, shape.rows / columns * strips);
  const long begin = chunk * shape.chunk, end = MIN_OF(begin + shape.chunk, shape.n);
  for (long item = first; item < last; ++item) {
    const long outer = item / strips, column = (item - outer * strips) * 16, o = outer * columns + column;
    const int lanes = (int)MIN_OF(columns - column, 16L);
    INPUT px = x + offset_of(outer, shape.kept - 1, shared->kept_size, shared->kept_x) + column;
    __global STORAGE(OUT)* py = y + offset_of(outer, shape.kept - 1, shared -> kept_size, shared->kept_y) + column;
    VALUE(CARRY) value[16] = {0};
    CARRIES(16) state = (CARRIES(16))(TO_CARRY(CONSTANT(1, IDENTITY)));
    if (shape.pass && shape.chunks > 1) {
      for (int l = 0; l < lanes; ++l) value[l] = carry[chunk * shape.rows + o + l];
      state = vload16(0, value);
    }
    for (long i = begin; i < end; ++i) {
      CARRIES(16) v;
      if (lanes == 16) {
        v = LOADV(IN, CARRY, 16, px, i * shape.x_stride);
      } else {  // another task may be writing what lies behind
        for (int l = 0; l < lanes; ++l) value[l] = LOAD(IN, CARRY, px, i * shape.x_stride + l);
        v = vload16(0, value);
      }
      state = COMBINE_VALUES(16, state, v);
      if (!shape.pass) continue;
      if (lanes == 16) {
        STOREV(OUT, CARRY, 16, py, i * shape.y_stride, state);
      } else {
        vstore16(state, 0, value);
        for (int l = 0; l < lanes; ++l) STORE(OUT, CARRY, py, i * shape.y_stride + l, value[l]);
      }
    }
    if (shape.pass) continue;
    vstore16(state, 0, value);
    for (int l = 0; l < lanes; ++l) carry[chunk * shape.rows + o + l] = value[l];
  }
}
#endif

#else
#define GROUP 256

// One work-item per row and chunk: neighbouring items are neighbouring rows.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void scan_items(ARGUMENTS) {
  SHARE(ScanShape, shape, shared);
  const long o = get_global_id(0), chunk = get_global_id(1);
  if (o >= shape.rows) return;
  const long begin = chunk * shape.chunk, end = MIN_OF(begin + shape.chunk, shape.n);
  const bool carried = shape.pass && shape.chunks > 1;
  VALUE(CARRY) state = carried ? carry[chunk * shape.rows + o] : TO_CARRY(CONSTANT(1, IDENTITY));
  long state_index = INDEXED && carried ? carry_index[chunk * shape.rows + o] : begin;
  INPUT px = x + offset_of(o, shape.kept, shared->kept_size, shared->kept_x);
#if INDEXED
  if (!carried) state = LOAD(IN, ACC, px, begin * shape.x_stride);
#endif
  scan_sequence(px, y + offset_of(o, shape.kept, shared->kept_size, shared->kept_y),
                y_index + (INDEXED ? offset_of(o, shape.kept, shared->kept_size, shared->kept_index) : 0), begin, end,
                &shape, &state, &state_index);
  if (shape.pass) return;
  carry[chunk * shape.rows + o] = state;
#if INDEXED
  carry_index[chunk * shape.rows + o] = state_index;
#endif
}

// A work-group per row and chunk, GROUP elements at a time: a prefix tree in local memory, then the carry.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void scan_groups(ARGUMENTS) {
  SHARE(ScanShape, shape, shared);
  __local VALUE(ACC) values[2][GROUP];
#if INDEXED
  __local int indices[2][GROUP];
#endif
  const int id = get_local_id(0);
  const long task = get_group_id(0), chunk = task % shape.chunks, o = task / shape.chunks;
  const long begin = chunk * shape.chunk, end = MIN_OF(begin + shape.chunk, shape.n);
  INPUT px = x + offset_of(o, shape.kept, shared->kept_size, shared->kept_x);
  __global STORAGE(OUT)* py = y + offset_of(o, shape.kept, shared -> kept_size, shared->kept_y);
  __global long* pi = y_index + (INDEXED ? offset_of(o, shape.kept, shared->kept_size, shared->kept_index) : 0);
  const bool carried = shape.pass && shape.chunks > 1;
  VALUE(CARRY) state = carried ? carry[chunk * shape.rows + o] : TO_CARRY(CONSTANT(1, IDENTITY));
  long state_index = INDEXED && carried ? carry_index[chunk * shape.rows + o] : begin;
#if INDEXED
  if (!carried) state = LOAD(IN, ACC, px, begin * shape.x_stride);
#endif
  for (long base = begin; base < end; base += GROUP) {
    const long i = base + id;
    VALUE(ACC) v = i < end ? LOAD(IN, ACC, px, i * shape.x_stride) : CONSTANT(1, IDENTITY);
#if INDEXED
    int at = id;
#endif
    int side = 0;
    for (int step = 1; step < GROUP; step *= 2, side ^= 1) {
      values[side][id] = v;
#if INDEXED
      indices[side][id] = at;
#endif
      barrier(CLK_LOCAL_MEM_FENCE);
      if (id >= step) {
        const VALUE(ACC) earlier = values[side][id - step];
#if INDEXED
        if (!(WINS(earlier, v))) v = earlier, at = indices[side][id - step];
#else
        v = COMBINE_VALUES(1, earlier, v);
#endif
      }
    }
    // total of the block
    values[side][id] = v;
#if INDEXED
    indices[side][id] = at;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const int tail = (int)MIN_OF(end - base, (long)GROUP) - 1;
    const VALUE(ACC) total = values[side][tail];
#if INDEXED
    const bool later = WINS(state, v);
    if (shape.pass && i < end) {
      pi[i * shape.index_stride] = later ? base + at : state_index;
      STORE(OUT, ACC, py, i * shape.y_stride, later ? v : state);
    }
    if (WINS(state, total)) state = total, state_index = base + indices[side][tail];
#else
    if (shape.pass && i < end) {
      const VALUE(CARRY) w = TO_CARRY(v);
      STORE(OUT, CARRY, py, i * shape.y_stride, COMBINE_VALUES(1, state, w));
    }
    const VALUE(CARRY) wide_total = TO_CARRY(total);
    state = COMBINE_VALUES(1, state, wide_total);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (id == 0 && !shape.pass) {
    carry[chunk * shape.rows + o] = state;
#if INDEXED
    carry_index[chunk * shape.rows + o] = state_index;
#endif
  }
}
#endif
