// y[o] = finish(combine over r of map(x[o, r])) for any kept dimensions o and reduced dimensions r of a strided tensor.
// The row of the operator table (csrc/ops/reduce/table.cpp) is placed ahead of this file as
//   IDENTITY, MAP(W, x), COMBINE_VALUES(W, a, b), FINISH(a)         value rows
//   IDENTITY, MAP(W, x), BETTER(a, b) (b beats a), FINISH(a)        INDEXED rows: keeps the value and its first index
//   IN, ACC, OUT    dtypes of the input, of the accumulator and of the output;   INDEX: signed integer as wide as ACC
//   PARAM           dtype of `param` (float32 or float64)
//   LOAD_NONZERO, LOAD_ABS, CENTERED     read x != 0; read |x| of complex x; MAP may use `center`, one value per output
//   W               lanes of the fat kernels: 16, or 1 for complex accumulators
// The reduced range [0, extent) is cut into `splits` chunks; with more than one the states go to partial[split][output]
// (and partial_index) and reduce_final combines them in order, so results do not depend on scheduling.
#include "common/types.clh"

#ifndef IN
#define IN float32
#define ACC float32
#define OUT float32
#define INDEX int32
#define PARAM float32
#define W 16
#define INDEXED 0
#define LOAD_NONZERO 0
#define LOAD_ABS 0
#define CENTERED 0
#define IDENTITY 0
#define MAP(W, x) (x)
#define COMBINE_VALUES(W, a, b) ((a) + (b))
#define FINISH(a) (a)
#endif

// Dimensions from the outermost to the innermost; strides in elements. Same layout as ReduceShape in plan.h.
typedef struct {
  long kept_size[16], kept_x[16], kept_y[16], kept_index[16];
  long reduced_size[16], reduced_x[16];
  long outputs, extent, chunk, splits, per_task, lanes;
  int kept, reduced, has_y, has_index;
} Shape;

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

#define VALUES(W) VALUE_V(ACC, W)
#define INDICES(W) VALUE_V(INDEX, W)
#define CONSTANT(W, c) ((VALUES(W))(c))
#define ABSOLUTE(W, x) ((x) < CONSTANT(W, 0) ? -(x) : (x))
#if IS_COMPLEX(ACC)
#define PRODUCT(a, b) ((VALUE(ACC))((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x))
#define ONE ((VALUE(ACC))(1, 0))
#else
#define PRODUCT(a, b) ((a) * (b))
#define ONE 1
#endif

#define LOAD_1(D, C, p, i) LOAD(D, C, p, i)
#define LOAD_16(D, C, p, i) LOADV(D, C, 16, p, i)
#define CONVERT_1(D, C, v) CONVERT(D, C, v)
#define CONVERT_16(D, C, v) CONVERTV(D, C, 16, v)
#if LOAD_NONZERO
#define LOAD_X(W, p, i) CAT(CONVERT_, W)(ACC, boolean, CAT(LOAD_, W)(IN, boolean, p, i))
#elif LOAD_ABS
#define LOAD_X(W, p, i) hypot((p)[i].x, (p)[i].y)
#else
#define LOAD_X(W, p, i) CAT(LOAD_, W)(IN, ACC, p, i)
#endif
#define INPUT __global const STORAGE(IN)*

// ---- states of 1, 2, 4, 8 and 16 lanes
#if INDEXED
#define DEFINE_STATE(W)      \
  typedef struct {           \
    VALUES(W) a;             \
    INDICES(W) i;            \
  } CAT(State, W);
#define INITIALIZE(W, s, index) (s).a = CONSTANT(W, IDENTITY), (s).i = (index)
#define STEP(W, s, x, index)                             \
  do {                                                   \
    const VALUES(W) v_ = MAP(W, x);                      \
    const INDICES(W) t_ = BETTER((s).a, v_);             \
    (s).a = t_ ? v_ : (s).a;                             \
    (s).i = t_ ? (index) : (s).i;                        \
  } while (0)
#define MERGE(W, s, t)                                                                                   \
  do {                                                                                                   \
    const INDICES(W) t_ = BETTER((s).a, (t).a) | (!(BETTER((t).a, (s).a)) & ((t).i < (s).i));           \
    (s).a = t_ ? (t).a : (s).a;                                                                          \
    (s).i = t_ ? (t).i : (s).i;                                                                          \
  } while (0)
#define CHOOSE(s, t, mask) (s).a = (mask) ? (t).a : (s).a, (s).i = (mask) ? (t).i : (s).i
#define FOLD(W, H)                                       \
  inline CAT(State, H) CAT(fold, W)(CAT(State, W) s) {   \
    CAT(State, H) lo, hi;                                \
    lo.a = s.a.lo, lo.i = s.i.lo;                        \
    hi.a = s.a.hi, hi.i = s.i.hi;                        \
    MERGE(H, lo, hi);                                    \
    return lo;                                           \
  }
#else
#define DEFINE_STATE(W) \
  typedef struct {      \
    VALUES(W) a;        \
  } CAT(State, W);
#define INITIALIZE(W, s, index) (s).a = CONSTANT(W, IDENTITY)
#define STEP(W, s, x, index)                       \
  do {                                             \
    const VALUES(W) v_ = MAP(W, x);                \
    (s).a = COMBINE_VALUES(W, (s).a, v_);          \
  } while (0)
#define MERGE(W, s, t) (s).a = COMBINE_VALUES(W, (s).a, (t).a)
#define CHOOSE(s, t, mask) (s).a = (mask) ? (t).a : (s).a
#define FOLD(W, H)                                       \
  inline CAT(State, H) CAT(fold, W)(CAT(State, W) s) {   \
    CAT(State, H) lo, hi;                                \
    lo.a = s.a.lo;                                       \
    hi.a = s.a.hi;                                       \
    MERGE(H, lo, hi);                                    \
    return lo;                                           \
  }
#endif

DEFINE_STATE(1)
#if !IS_COMPLEX(ACC)
DEFINE_STATE(2)
DEFINE_STATE(4)
DEFINE_STATE(8)
DEFINE_STATE(16)
FOLD(16, 8)
FOLD(8, 4)
FOLD(4, 2)
FOLD(2, 1)
#define LANES_16 ((INDICES(16))(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#endif
#if W == 16
#define LANES LANES_16
#define HORIZONTAL(s) fold2(fold4(fold8(fold16(s))))
#else
#define LANES 0
#define HORIZONTAL(s) (s)
#endif
#define STATE CAT(State, W)

// Element offset of the linear index i.
inline long offset_of(long i, int dims, const long* size, const long* stride) {
  long offset = 0;
  for (int d = dims - 1; d > 0; --d) {
    const long q = i / size[d];
    offset += (i - q * size[d]) * stride[d];
    i = q;
  }
  return dims ? offset + i * stride[0] : 0;
}

#define OUTPUTS                                                                                             \
  TENSOR(const STORAGE(IN), x), TENSOR(STORAGE(OUT), y), TENSOR(long, y_index), TENSOR(STORAGE(ACC), partial), \
      TENSOR(long, partial_index), TENSOR(const STORAGE(ACC), centers), Shape shape, VALUE(PARAM) param
#define OPEN_OUTPUTS               \
  OPEN(const STORAGE(IN), x);      \
  OPEN(STORAGE(OUT), y);           \
  OPEN(long, y_index);             \
  OPEN(STORAGE(ACC), partial);     \
  OPEN(long, partial_index);       \
  OPEN(const STORAGE(ACC), centers)

// The result `s` of output o, of which the relative index 0 is element `first` of the reduced range.
inline void store_result(State1 s, long o, long split, long first, const Shape* shape, __global STORAGE(OUT)* y, __global long* y_index,
                         __global STORAGE(ACC)* partial, __global long* partial_index, VALUE(PARAM) param) {
  if (shape->splits > 1) {
    partial[split * shape->outputs + o] = s.a;
#if INDEXED
    partial_index[split * shape->outputs + o] = first + s.i;
#endif
    return;
  }
#if INDEXED
  if (shape->has_index) y_index[offset_of(o, shape->kept, shape->kept_size, shape->kept_index)] = first + s.i;
  if (!shape->has_y) return;
#endif
  const long at = offset_of(o, shape->kept, shape->kept_size, shape->kept_y);
  STORE(OUT, ACC, y, at, FINISH(s.a));
}

// Outputs [task * 256, ...): combines the partial states in the order of the splits. splits == 0: the empty reduction.
__kernel void reduce_final(TENSOR(const STORAGE(ACC), partial), TENSOR(const long, partial_index), TENSOR(STORAGE(OUT), y), TENSOR(long, y_index),
                           Shape shape, long splits, VALUE(PARAM) param) {
  OPEN(const STORAGE(ACC), partial);
  OPEN(const long, partial_index);
  OPEN(STORAGE(OUT), y);
  OPEN(long, y_index);
  const long begin = get_global_id(0) * shape.per_task, end = MIN_OF(begin + shape.per_task, shape.outputs);
  for (long o = begin; o < end; ++o) {
    VALUE(ACC) best = splits ? partial[o] : CONSTANT(1, IDENTITY);
#if INDEXED
    long best_index = splits ? partial_index[o] : 0;
#endif
    for (long split = 1; split < splits; ++split) {
      const VALUE(ACC) v = partial[split * shape.outputs + o];
#if INDEXED
      // chunks are in the order of the indices, so an earlier one wins a tie
      if (BETTER(best, v)) best = v, best_index = partial_index[split * shape.outputs + o];
#else
      best = COMBINE_VALUES(1, best, v);
#endif
    }
#if INDEXED
    if (shape.has_index) y_index[offset_of(o, shape.kept, shape.kept_size, shape.kept_index)] = best_index;
    if (!shape.has_y) continue;
#endif
    STORE(OUT, ACC, y, offset_of(o, shape.kept, shape.kept_size, shape.kept_y), FINISH(best));
  }
}

#if DEVICE_FAT
#define INDEX_AT(i) ((INDICES(W))((VALUE(INDEX))(i)) + LANES)

// W elements of a strided run; past the end the last element is read again.
inline VALUES(W) gather(INPUT p, long i, long n, long stride) {
#if W == 1
  return LOAD_X(1, p, i * stride);
#else
  VALUE(ACC) t[16];
  for (int l = 0; l < 16; ++l) t[l] = LOAD_X(1, p, MIN_OF(i + l, n - 1) * stride);
  return vload16(0, t);
#endif
}

// Steps `s` over n elements p[i * stride]; `first` is the relative index of element 0. Blocks of 64 * 4 * W elements have their
// own accumulators: four chains in flight, and rounding errors of sums that grow with the block, not with n.
inline void reduce_run(STATE* s, INPUT p, long n, long stride, long first, VALUES(W) center, VALUE(PARAM) param) {
  long i = 0;
  if (stride == 1) {
    while (n - i >= 4 * W) {
      STATE a0, a1, a2, a3;
      INITIALIZE(W, a0, INDEX_AT(first + i));
      INITIALIZE(W, a1, INDEX_AT(first + i + W));
      INITIALIZE(W, a2, INDEX_AT(first + i + 2 * W));
      INITIALIZE(W, a3, INDEX_AT(first + i + 3 * W));
      const int steps = (int)MIN_OF((n - i) / (4 * W), 64L);
      for (int k = 0; k < steps; ++k, i += 4 * W) {
        STEP(W, a0, LOAD_X(W, p, i), INDEX_AT(first + i));
        STEP(W, a1, LOAD_X(W, p, i + W), INDEX_AT(first + i + W));
        STEP(W, a2, LOAD_X(W, p, i + 2 * W), INDEX_AT(first + i + 2 * W));
        STEP(W, a3, LOAD_X(W, p, i + 3 * W), INDEX_AT(first + i + 3 * W));
      }
      MERGE(W, a0, a1);
      MERGE(W, a2, a3);
      MERGE(W, a0, a2);
      MERGE(W, (*s), a0);
    }
    for (; n - i >= W; i += W) STEP(W, (*s), LOAD_X(W, p, i), INDEX_AT(first + i));
#if W > 1
    if (i < n) {
      STATE t = *s;
      STEP(W, t, LOAD_X(W, p, i), INDEX_AT(first + i));
      const INDICES(W) mask = LANES < (INDICES(W))((VALUE(INDEX))(n - i));
      CHOOSE((*s), t, mask);
    }
#endif
    return;
  }
  for (; i < n; i += W) {
    STATE t = *s;
    STEP(W, t, gather(p, i, n, stride), INDEX_AT(first + i));
#if W > 1
    const INDICES(W) mask = LANES < (INDICES(W))((VALUE(INDEX))MIN_OF(n - i, (long)W));
    CHOOSE((*s), t, mask);
#else
    *s = t;
#endif
  }
}

// Reduced range [begin, end) of the output whose element 0 is at p.
inline State1 reduce_range(INPUT p, long begin, long end, const Shape* shape, VALUES(W) center, VALUE(PARAM) param) {
  STATE s;
  INITIALIZE(W, s, INDEX_AT(0));
  const int last = shape->reduced - 1;
  if (last <= 0) {
    const long stride = last < 0 ? 1 : shape->reduced_x[0];
    reduce_run(&s, p + begin * stride, end - begin, stride, 0, center, param);
    return HORIZONTAL(s);
  }
  const long run = shape->reduced_size[last], stride = shape->reduced_x[last];
  STATE level;  // short runs: a fresh accumulator every 64 runs
  INITIALIZE(W, level, INDEX_AT(0));
  int runs = 0;
  for (long r = begin; r < end; ++runs) {
    const long q = r / run, skip = r - q * run, n = MIN_OF(run - skip, end - r);
    reduce_run(&level, p + offset_of(q, last, shape->reduced_size, shape->reduced_x) + skip * stride, n, stride, r - begin, center, param);
    r += n;
    if (runs % 64 == 63) {
      MERGE(W, s, level);
      INITIALIZE(W, level, INDEX_AT(r - begin));
    }
  }
  MERGE(W, s, level);
  return HORIZONTAL(s);
}

#if !INDEXED && W == 16
#define SHORT_ROW 256

// The 16 horizontal results of s[0..15]: lane l is that of s[ROW_OF(l)]. Each level folds two vectors into one.
#define ROW_OF(l) (((l) & 1) << 3 | ((l) & 2) << 1 | ((l) & 4) >> 1 | ((l) & 8) >> 3)
inline VALUES(16) fold_rows(const VALUES(16)* s) {
  VALUES(16) a[8], b[4], c[2];
  for (int k = 0; k < 8; ++k) a[k] = COMBINE_VALUES(16, ((VALUES(16))(s[k].lo, s[k + 8].lo)), ((VALUES(16))(s[k].hi, s[k + 8].hi)));
  for (int k = 0; k < 4; ++k)
    b[k] = COMBINE_VALUES(16, ((VALUES(16))(a[k].s012389ab, a[k + 4].s012389ab)), ((VALUES(16))(a[k].s4567cdef, a[k + 4].s4567cdef)));
  for (int k = 0; k < 2; ++k)
    c[k] = COMBINE_VALUES(16, ((VALUES(16))(b[k].s014589cd, b[k + 2].s014589cd)), ((VALUES(16))(b[k].s2367abef, b[k + 2].s2367abef)));
  return COMBINE_VALUES(16, ((VALUES(16))(c[0].even, c[1].even)), ((VALUES(16))(c[0].odd, c[1].odd)));
}

// One contiguous row of n elements, n <= SHORT_ROW.
inline VALUES(16) short_row(INPUT p, int n, INDICES(16) mask, VALUES(16) center, VALUE(PARAM) param) {
  State16 s;
  INITIALIZE(16, s, 0);
  int i = 0;
  for (; i + 16 <= n; i += 16) STEP(16, s, LOAD_X(16, p, i), 0);
  if (i < n) {
    State16 t = s;
    STEP(16, t, LOAD_X(16, p, i), 0);
    CHOOSE(s, t, mask);
  }
  return s.a;
}

// Outputs [begin, end), 16 at a time; returns the first one that is left over.
inline long short_rows(INPUT x, long begin, long end, const Shape* shape, __global const STORAGE(ACC)* centers, __global STORAGE(OUT)* y,
                       VALUE(PARAM) param) {
  const int n = (int)shape->extent;
  const INDICES(16) mask = LANES_16 < (INDICES(16))((VALUE(INDEX))(n % 16));
  for (; begin + 16 <= end; begin += 16) {
    VALUES(16) s[16];
    for (int l = 0; l < 16; ++l) {
      INPUT p = x + offset_of(begin + l, shape->kept, shape->kept_size, shape->kept_x);
      const VALUES(16) center = CONSTANT(16, CENTERED ? centers[begin + l] : 0);
      s[ROW_OF(l)] = short_row(p, n, mask, center, param);
    }
    VALUE(ACC) value[16];
    vstore16(fold_rows(s), 0, value);
    for (int l = 0; l < 16; ++l) STORE(OUT, ACC, y, offset_of(begin + l, shape->kept, shape->kept_size, shape->kept_y), FINISH(value[l]));
  }
  return begin;
}
#endif

// A task is `per_task` outputs and one chunk of the reduced range. Reduced dimensions innermost, or nothing contiguous.
FAT_KERNEL void reduce_inner(OUTPUTS) {
  OPEN_OUTPUTS;
  const long task = get_global_id(0), split = task % shape.splits;
  const long end = MIN_OF(task / shape.splits * shape.per_task + shape.per_task, shape.outputs);
  const long first = split * shape.chunk, last = MIN_OF(first + shape.chunk, shape.extent);
  long o = task / shape.splits * shape.per_task;
#if !INDEXED && W == 16
  if (shape.splits == 1 && shape.reduced == 1 && shape.reduced_x[0] == 1 && shape.extent <= SHORT_ROW)
    o = short_rows(x, o, end, &shape, centers, y, param);
#endif
  for (; o < end; ++o) {
    INPUT p = x + offset_of(o, shape.kept, shape.kept_size, shape.kept_x);
#if CENTERED
    const VALUES(W) center = CONSTANT(W, centers[o]);
#else
    const VALUES(W) center = CONSTANT(W, 0);
#endif
    const State1 s = reduce_range(p, first, last, &shape, center, param);
    store_result(s, o, split, first, &shape, y, y_index, partial, partial_index, param);
  }
}

#define VECTORS 16
#define COLUMNS (VECTORS * W)
#define COLUMN_STEP(row, k) STEP(W, s, LOAD_X(W, p + (row) * stride, v * W), (INDICES(W))((VALUE(INDEX))(index + (row))))

// n rows of a strip of `vectors` * W columns into level[]; eight rows at a time, read as eight streams.
inline void column_rows(STATE* level, INPUT p, long n, long stride, long index, int vectors, __global const STORAGE(ACC)* centers,
                        VALUE(PARAM) param) {
  for (; n >= 8; n -= 8, p += 8 * stride, index += 8)
    for (int v = 0; v < vectors; ++v) {
#if CENTERED
      const VALUES(W) center = CAT(LOAD_, W)(ACC, ACC, centers, v * W);
#endif
      STATE s;
      INITIALIZE(W, s, (INDICES(W))((VALUE(INDEX))index));
      COLUMN_STEP(0, v);
      COLUMN_STEP(1, v);
      COLUMN_STEP(2, v);
      COLUMN_STEP(3, v);
      COLUMN_STEP(4, v);
      COLUMN_STEP(5, v);
      COLUMN_STEP(6, v);
      COLUMN_STEP(7, v);
      MERGE(W, level[v], s);
    }
  for (; n > 0; --n, p += stride, ++index)
    for (int v = 0; v < vectors; ++v) {
#if CENTERED
      const VALUES(W) center = CAT(LOAD_, W)(ACC, ACC, centers, v * W);
#endif
      STATE s = level[v];
      COLUMN_STEP(0, v);
      level[v] = s;
    }
}

inline void column_range(STATE* total, INPUT p, long begin, long end, const Shape* shape, int vectors, __global const STORAGE(ACC)* centers,
                        VALUE(PARAM) param) {
  const int last = shape->reduced - 1;
  const long run = last < 0 ? 1 : shape->reduced_size[last], stride = last < 0 ? 0 : shape->reduced_x[last];
  STATE level[VECTORS];
  for (int v = 0; v < vectors; ++v) {
    INITIALIZE(W, total[v], (INDICES(W))(0));
    INITIALIZE(W, level[v], (INDICES(W))(0));
  }
  long in_level = 0;
  for (long r = begin; r < end;) {
    const long q = r / run, skip = r - q * run, n = MIN_OF(MIN_OF(run - skip, end - r), 512L);
    const long base = last > 0 ? offset_of(q, last, shape->reduced_size, shape->reduced_x) : 0;
    column_rows(level, p + base + skip * stride, n, stride, r - begin, vectors, centers, param);
    r += n;
    in_level += n;
    if (in_level < 512 && r < end) continue;
    for (int v = 0; v < vectors; ++v) {
      MERGE(W, total[v], level[v]);
      INITIALIZE(W, level[v], (INDICES(W))((VALUE(INDEX))(r - begin)));
    }
    in_level = 0;
  }
}

// A task is `per_task` strips of columns and one chunk of rows. The innermost kept dimension is contiguous.
FAT_KERNEL void reduce_column(OUTPUTS) {
  OPEN_OUTPUTS;
  const long task = get_global_id(0), split = task % shape.splits, begin = task / shape.splits * shape.per_task;
  const long columns = shape.kept_size[shape.kept - 1], strips = (columns + COLUMNS - 1) / COLUMNS;
  const long end = MIN_OF(begin + shape.per_task, shape.outputs / columns * strips);
  const long first = split * shape.chunk, last = MIN_OF(first + shape.chunk, shape.extent);
  for (long item = begin; item < end; ++item) {
    const long outer = item / strips, column = (item - outer * strips) * COLUMNS, o = outer * columns + column;
    const int n = (int)MIN_OF(columns - column, (long)COLUMNS), vectors = (n + W - 1) / W;
    STATE total[VECTORS];
    INPUT p = x + offset_of(outer, shape.kept - 1, shape.kept_size, shape.kept_x) + column;
    column_range(total, p, first, last, &shape, vectors, centers + (CENTERED ? o : 0), param);
    for (int v = 0; v < vectors; ++v) {
      VALUE(ACC) value[W];
      VALUE(INDEX) index[W];
#if W == 1
      value[0] = total[v].a;
#else
      vstore16(total[v].a, 0, value);
#endif
#if INDEXED
      vstore16(total[v].i, 0, index);
#endif
      for (int l = 0; l < W && v * W + l < n; ++l) {
        State1 s;
        s.a = value[l];
#if INDEXED
        s.i = index[l];
#endif
        store_result(s, o + v * W + l, split, first, &shape, y, y_index, partial, partial_index, param);
      }
    }
  }
}

#else

#define GROUP 256

inline void simt_range(State1* s, INPUT p, long begin, long end, long step, const Shape* shape, VALUE(ACC) center, long first,
                       VALUE(PARAM) param) {
  long r = begin;
  if (shape->reduced <= 1) {
    const long stride = shape->reduced ? shape->reduced_x[0] : 1;
    State1 a1, a2, a3;
    INITIALIZE(1, a1, (VALUE(INDEX))(r + step - first));
    INITIALIZE(1, a2, (VALUE(INDEX))(r + 2 * step - first));
    INITIALIZE(1, a3, (VALUE(INDEX))(r + 3 * step - first));
    for (; r + 3 * step < end; r += 4 * step) {
      const VALUE(ACC) x0 = LOAD_X(1, p, r * stride), x1 = LOAD_X(1, p, (r + step) * stride);
      const VALUE(ACC) x2 = LOAD_X(1, p, (r + 2 * step) * stride), x3 = LOAD_X(1, p, (r + 3 * step) * stride);
      STEP(1, (*s), x0, (VALUE(INDEX))(r - first));
      STEP(1, a1, x1, (VALUE(INDEX))(r + step - first));
      STEP(1, a2, x2, (VALUE(INDEX))(r + 2 * step - first));
      STEP(1, a3, x3, (VALUE(INDEX))(r + 3 * step - first));
    }
    for (; r < end; r += step) STEP(1, (*s), LOAD_X(1, p, r * stride), (VALUE(INDEX))(r - first));
    MERGE(1, a2, a3);
    MERGE(1, (*s), a1);
    MERGE(1, (*s), a2);
    return;
  }
  for (; r < end; r += step)
    STEP(1, (*s), LOAD_X(1, p, offset_of(r, shape->reduced, shape->reduced_size, shape->reduced_x)), (VALUE(INDEX))(r - first));
}

// A group is GROUP / lanes outputs with `lanes` (a power of two) work-items each, and one chunk of the reduced range.
// Neighbouring items run along the reduction when reduced_fast, otherwise along the outputs.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reduce_simt(OUTPUTS, int reduced_fast) {
  OPEN_OUTPUTS;
  __local VALUE(ACC) values[GROUP];
#if INDEXED
  __local VALUE(INDEX) indices[GROUP];
#endif
  const int id = get_local_id(0), lanes = (int)shape.lanes, width = GROUP / lanes;
  const int lane = reduced_fast ? id % lanes : id / width, column = reduced_fast ? id / lanes : id % width;
  const long task = get_group_id(0), split = task % shape.splits, o = task / shape.splits * width + column;
  const long first = split * shape.chunk, last = MIN_OF(first + shape.chunk, shape.extent);
  State1 s;
  INITIALIZE(1, s, (VALUE(INDEX))lane);
  if (o < shape.outputs) {
#if CENTERED
    const VALUE(ACC) center = centers[o];
#else
    const VALUE(ACC) center = CONSTANT(1, 0);
#endif
    simt_range(&s, x + offset_of(o, shape.kept, shape.kept_size, shape.kept_x), first + lane, last, lanes, &shape, center, first, param);
  }
  const int slot = lane * width + column;
  for (int half_lanes = lanes / 2; half_lanes > 0; half_lanes /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    values[slot] = s.a;
#if INDEXED
    indices[slot] = s.i;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_lanes) {
      State1 t;
      t.a = values[slot + half_lanes * width];
#if INDEXED
      t.i = indices[slot + half_lanes * width];
#endif
      MERGE(1, s, t);
    }
  }
  if (lane == 0 && o < shape.outputs) store_result(s, o, split, first, &shape, y, y_index, partial, partial_index, param);
}
#endif
