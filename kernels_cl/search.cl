// Binary searches: values [rows, n] in boundaries [rows or 1, m], both of dtype IN; result of dtype OUT.
#include "common/types.clh"

#ifndef IN
#define IN float32
#define OUT int64
#endif

typedef struct {
  long total, n, m, shared, has_sorter, right, invert, per_item;
} Shape;

#define READ(p, i) LOAD(IN, IN, p, i)

// Searches that a work-item of a CPU does side by side: each waits for memory at every step.
#if DEVICE_FAT
#define TOGETHER 8
#else
#define TOGETHER 1
#endif

// A NaN value goes to the end, comparisons with it being false.
inline bool is_before(VALUE(IN) b, VALUE(IN) v, bool right) { return right ? !(b > v) : !(b >= v); }

// at[s]: first position of boundaries[start[s] ...], m of them, that is not before v[s]; for `count` searches, 1 or TOGETHER.
inline void positions_of(const VALUE(IN)* v, __global const STORAGE(IN)* boundaries, __global const long* sorter, const long* start, long m, bool right,
                         int count, long* at) {
  for (int s = 0; s < count; ++s) at[s] = 0;
  for (long left = m; left > 0;) {  // `left` positions from at[s] on may be it, and the one behind them
    const long half_ = left > 1 ? left / 2 : 1;
    for (int s = 0; s < count; ++s) {
      const long middle = at[s] + half_ - 1;
      at[s] += is_before(READ(boundaries + start[s], sorter ? sorter[start[s] + middle] : middle), v[s], right) ? half_ : 0;
    }
    left -= half_;
  }
}

__kernel void search_sorted(TENSOR(const STORAGE(IN), boundaries), TENSOR(const STORAGE(IN), values), TENSOR(const long, sorter),
                            TENSOR(STORAGE(OUT), result), Shape shape) {
  OPEN(const STORAGE(IN), boundaries);
  OPEN(const STORAGE(IN), values);
  OPEN(const long, sorter);
  OPEN(STORAGE(OUT), result);
  const long begin = get_global_id(0) * shape.per_item, end = MIN_OF(begin + shape.per_item, shape.total);
  for (long i = begin; i < end;) {
    const int count = end - i < TOGETHER ? 1 : TOGETHER;
    VALUE(IN) v[TOGETHER];
    long start[TOGETHER], at[TOGETHER];
    for (int s = 0; s < count; ++s) {
      v[s] = READ(values, i + s);
      start[s] = shape.shared ? 0 : (i + s) / shape.n * shape.m;
    }
    if (count == TOGETHER)
      positions_of(v, boundaries, shape.has_sorter ? sorter : 0, start, shape.m, shape.right, TOGETHER, at);
    else
      positions_of(v, boundaries, shape.has_sorter ? sorter : 0, start, shape.m, shape.right, 1, at);
    for (int s = 0; s < count; ++s, ++i) STORE(OUT, int64, result, i, at[s]);
  }
}

__kernel void is_in_sorted(TENSOR(const STORAGE(IN), boundaries), TENSOR(const STORAGE(IN), values), TENSOR(STORAGE(OUT), result), Shape shape) {
  OPEN(const STORAGE(IN), boundaries);
  OPEN(const STORAGE(IN), values);
  OPEN(STORAGE(OUT), result);
  const long begin = get_global_id(0) * shape.per_item, end = MIN_OF(begin + shape.per_item, shape.total);
  for (long i = begin; i < end; ++i) {
    const VALUE(IN) v = READ(values, i);
    const long start = 0;
    long at;
    positions_of(&v, boundaries, 0, &start, shape.m, false, 1, &at);
    const bool found = at < shape.m && READ(boundaries, at) == v;
    STORE(OUT, int32, result, i, found != (bool)shape.invert);
  }
}
