// Reductions, CPU style: rows (the reduced dimensions innermost) and columns (the innermost kept dimension contiguous).
// See reduce/reduce.clh.
#include "reduce/reduce.clh"

#define INDEX_AT(i) ((INDICES(W))((VALUE(INDEX))(i)) + LANES)

// W elements of a strided run; past the end the last element is read again.
static inline VALUES(W) gather(INPUT p, long i, long n, long stride) {
#if W == 1
  return LOAD_X(1, p, i * stride);
#else
  VALUE(ACC) t[16];
  for (int l = 0; l < 16; ++l) t[l] = LOAD_X(1, p, MIN_OF(i + l, n - 1) * stride);
  return vload16(0, t);
#endif
}

// Steps `s` over n elements p[i * stride]; `first` is the relative index of element 0. Blocks of 64 * 4 * W elements
// have their
// own accumulators: four chains in flight, and rounding errors of sums that grow with the block, not with n.
static inline void reduce_run(STATE* s, INPUT p, long n, long stride, long first, VALUES(W) center,
                              VALUE(PARAM) param) {
  long i = 0;
  if (stride == 1) {
    while (n - i >= 4 * W) {
      STATE a0, a1, a2, a3;
      INITIALIZE(W, a0, INDEX_AT(first + i));
      INITIALIZE(W, a1, INDEX_AT(first + i + W));
      INITIALIZE(W, a2, INDEX_AT(first + i + 2 * W));
      INITIALIZE(W, a3, INDEX_AT(first + i + 3 * W));
      const int steps = (int)MIN_OF((n - i) / (4 * W), 64L);
      INDICES(W) nan = (INDICES(W))(0);
      for (int k = 0; k < steps; ++k, i += 4 * W) {
        STEP_TWO(W, a0, LOAD_X(W, p, i), INDEX_AT(first + i), a1, LOAD_X(W, p, i + W), INDEX_AT(first + i + W), nan);
        STEP_TWO(W, a2, LOAD_X(W, p, i + 2 * W), INDEX_AT(first + i + 2 * W), a3, LOAD_X(W, p, i + 3 * W),
                 INDEX_AT(first + i + 3 * W), nan);
      }
      KEEP_NAN(W, a0, nan);
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
static inline State1 reduce_range(INPUT p, long begin, long end, const ReduceShape* shape, VALUES(W) center,
                                  VALUE(PARAM) param) {
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
    reduce_run(&level, p + offset_of(q, last, shape->reduced_size, shape->reduced_x) + skip * stride, n, stride,
               r - begin, center, param);
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
#define LONGEST_ROW (64 * 4 * 16)  // one block of reduce_run

// The combined lanes of s, or NaN where `nan` has any lane.
static inline VALUE(ACC) loose_fold(VALUES(16) s, INDICES(16) nan) {
#if KEEPS_NAN
  const INDICES(8) n8 = nan.lo | nan.hi;
  const INDICES(4) n4 = n8.lo | n8.hi;
  const INDICES(2) n2 = n4.lo | n4.hi;
  if (n2.x | n2.y) return NAN;
#endif
  const VALUES(8) a = COMBINE(8, s.lo, s.hi);
  const VALUES(4) b = COMBINE(4, a.lo, a.hi);
  const VALUES(2) c = COMBINE(2, b.lo, b.hi);
  return COMBINE(1, c.lo, c.hi);
}

// Outputs [begin, end) of rows of at most LONGEST_ROW elements, as reduce_range would compute them but with less to do
// for each.
static inline void short_rows(INPUT x, long begin, long end, const ReduceShape* shape,
                              __global const STORAGE(ACC) * centers, __global STORAGE(OUT) * y, VALUE(PARAM) param) {
  const int n = (int)shape->extent, blocks = n / 64 * 64, vectors = n / 16 * 16;
  const bool uniform = shape->kept <= 1;
  const INDICES(16) mask = LANES_16 < (INDICES(16))((VALUE(INDEX))(n - vectors));
  for (long o = begin; o < end; ++o) {
    INPUT p = x + (uniform ? o * shape->kept_x[0] : offset_of(o, shape->kept, shape->kept_size, shape->kept_x));
    const VALUES(16) center = CONSTANT(16, CENTERED ? centers[o] : 0);
    State16 a0, a1, a2, a3;
    INITIALIZE(16, a0, 0);
    a1 = a2 = a3 = a0;
    INDICES(16) nan = (INDICES(16))(0);
    for (int i = 0; i < blocks; i += 64) {
      STEP_TWO(16, a0, LOAD_X(16, p, i), 0, a1, LOAD_X(16, p, i + 16), 0, nan);
      STEP_TWO(16, a2, LOAD_X(16, p, i + 32), 0, a3, LOAD_X(16, p, i + 48), 0, nan);
    }
    a0.a = COMBINE(16, COMBINE(16, a0.a, a1.a), COMBINE(16, a2.a, a3.a));
    for (int i = blocks; i < vectors; i += 16) STEP_ONE(16, a0, LOAD_X(16, p, i), 0, nan);
    if (vectors < n) {
      State16 last = a0;
      INDICES(16) last_nan = nan;
      STEP_ONE(16, last, LOAD_X(16, p, vectors), 0, last_nan);
      CHOOSE(a0, last, mask);
      nan = mask ? last_nan : nan;
    }
    const VALUE(ACC) s = loose_fold(a0.a, nan);
    STORE(OUT, ACC, y, uniform ? o * shape->kept_y[0] : offset_of(o, shape->kept, shape->kept_size, shape->kept_y),
          FINISH(s));
  }
}
#endif

// A task is `per_task` outputs and one chunk of the reduced range. Reduced dimensions innermost, or nothing contiguous.
// `arrivals` are null or Queue::counters, one for the tasks of the same outputs: the last of those to arrive combines
// what all of them have left.
CPU_KERNEL void reduce_inner(OUTPUTS, global int* arrivals) {
  const long task = get_global_id(0), split = task % shape.splits, group = task / shape.splits;
  const long begin = group * shape.per_task, end = MIN_OF(begin + shape.per_task, shape.outputs);
  const long first = split * shape.chunk, last = MIN_OF(first + shape.chunk, shape.extent);
  long o = begin;
#if !INDEXED && W == 16
  if (shape.splits == 1 && shape.reduced == 1 && shape.reduced_x[0] == 1 && shape.extent <= LONGEST_ROW) {
    short_rows(x, begin, end, &shape, centers, y, param);
    o = end;
  }
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
  if (!HAS(arrivals)) return;
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  if (atomic_inc(arrivals + group) != (int)shape.splits - 1) return;
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  arrivals[group] = 0;
  combine_splits(begin, end, shape.splits, &shape, y, y_index, partial, partial_index, param);
}

#define VECTORS 64  // of a strip at most: shape.lanes columns
#define COLUMN_X(row) LOAD_X(W, p + (row) * stride, v * W)
#define COLUMN_INDEX(row) ((INDICES(W))((VALUE(INDEX))(index + (row))))

// n rows of a strip of `vectors` * W columns into level[]; eight rows at a time, read as eight streams.
static inline void column_rows(STATE* level, INPUT p, long n, long stride, long index, int vectors,
                               __global const STORAGE(ACC) * centers, VALUE(PARAM) param) {
  for (; n >= 8; n -= 8, p += 8 * stride, index += 8)
    for (int v = 0; v < vectors; ++v) {
#if CENTERED
      const VALUES(W) center = CAT(LOAD_, W)(ACC, ACC, centers, v * W);
#endif
      STATE s;
      INITIALIZE(W, s, (INDICES(W))((VALUE(INDEX))index));
      INDICES(W) nan = (INDICES(W))(0);
      for (int row = 0; row < 8; row += 2)
        STEP_TWO(W, s, COLUMN_X(row), COLUMN_INDEX(row), s, COLUMN_X(row + 1), COLUMN_INDEX(row + 1), nan);
      KEEP_NAN(W, s, nan);
      MERGE(W, level[v], s);
    }
  for (; n > 0; --n, p += stride, ++index)
    for (int v = 0; v < vectors; ++v) {
#if CENTERED
      const VALUES(W) center = CAT(LOAD_, W)(ACC, ACC, centers, v * W);
#endif
      STATE s = level[v];
      STEP(W, s, COLUMN_X(0), COLUMN_INDEX(0));
      level[v] = s;
    }
}

static inline void column_range(STATE* total, INPUT p, long begin, long end, const ReduceShape* shape, int vectors,
                                __global const STORAGE(ACC) * centers, VALUE(PARAM) param) {
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
CPU_KERNEL void reduce_column(OUTPUTS) {
  const long task = get_global_id(0), split = task % shape.splits, begin = task / shape.splits * shape.per_task;
  const long columns = shape.kept_size[shape.kept - 1], strips = (columns + shape.lanes - 1) / shape.lanes;
  const long end = MIN_OF(begin + shape.per_task, shape.outputs / columns * strips);
  const long first = split * shape.chunk, last = MIN_OF(first + shape.chunk, shape.extent);
  for (long item = begin; item < end; ++item) {
    const long outer = item / strips, column = (item - outer * strips) * shape.lanes, o = outer * columns + column;
    const int n = (int)MIN_OF(columns - column, shape.lanes), vectors = (n + W - 1) / W;
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
