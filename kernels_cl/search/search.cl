// Binary searches: values [rows, n] in boundaries [rows or 1, m], both of dtype IN; result of dtype OUT.
#include "params/search.h"
#include "common/types.clh"

#ifndef IN
#define IN float32
#define OUT int64
#endif

#define READ(p, i) LOAD(IN, IN, p, i)

// Searches that a work-item of a CPU does side by side: each waits for memory at every step. LANE: one element of a
// vector of so many; EACH: a vector.
#if CPU_STYLE
#define TOGETHER 8
#define POSITIONS long8
#define LANE(vector, number) vector.s##number
#define EACH(type, f) (type)(f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7))
#define STORE_POSITIONS(v, p) vstore8(v, 0, p)
#define UNLESS(condition, count) (~convert_long8(condition) & (long8)(count))
#else
#define TOGETHER 1
#define POSITIONS long
#define LANE(vector, number) vector
#define EACH(type, f) f(0)
#define STORE_POSITIONS(v, p) *(p) = (v)
#define UNLESS(condition, count) ((condition) ? 0 : (count))
#endif
#define VALUES VALUE_V(IN, TOGETHER)

// First positions of boundaries[start[s] ...], m of them, that are not before v. A NaN value goes to the end,
// comparisons with it being false.
static inline POSITIONS positions_of(VALUES v, __global const STORAGE(IN) * boundaries, __global const long* sorter,
                                     int has_sorter, const long* start, long m, bool right) {
#define IN_ORDER(s) READ(boundaries + start[s], LANE(middle, s))
#define BY_SORTER(s) READ(boundaries + start[s], sorter[start[s] + LANE(middle, s)])
#define SEARCH(BOUNDARY, NOT_BEFORE)                                                                      \
  for (long left = m; left > 0;) { /* `left` positions from `at` on may be it, and the one behind them */ \
    const long half_ = left > 1 ? left / 2 : 1;                                                           \
    const POSITIONS middle = at + half_ - 1;                                                              \
    const VALUES boundary = EACH(VALUES, BOUNDARY);                                                       \
    at += UNLESS(boundary NOT_BEFORE v, half_);                                                           \
    left -= half_;                                                                                        \
  }
  POSITIONS at = 0;
  if (has_sorter) {
    if (right) SEARCH(BY_SORTER, >) else SEARCH(BY_SORTER, >=)
  } else {
    if (right) SEARCH(IN_ORDER, >) else SEARCH(IN_ORDER, >=)
  }
  return at;
}

// Values i .. i + TOGETHER - 1, the last one again where there are fewer before `end`.
static inline VALUES values_at(__global const STORAGE(IN) * values, long i, long end) {
#define VALUE_AT(s) READ(values, MIN_OF(i + s, end - 1))
  return EACH(VALUES, VALUE_AT);
}

TASK_KERNEL void search_sorted(global const STORAGE(IN) * boundaries, global const STORAGE(IN) * values,
                               global const long* sorter, global STORAGE(OUT) * result, SearchShape shape) {
  const long begin = get_global_id(0) * shape.per_item, end = MIN_OF(begin + shape.per_item, shape.total);
  for (long i = begin; i < end; i += TOGETHER) {
    long start[TOGETHER], at[TOGETHER];
    for (int s = 0; s < TOGETHER; ++s) start[s] = shape.shared ? 0 : MIN_OF(i + s, end - 1) / shape.n * shape.m;
    STORE_POSITIONS(
        positions_of(values_at(values, i, end), boundaries, sorter, shape.has_sorter, start, shape.m, shape.right), at);
    for (int s = 0; s < TOGETHER && i + s < end; ++s) STORE(OUT, int64, result, i + s, at[s]);
  }
}

TASK_KERNEL void is_in_sorted(global const STORAGE(IN) * boundaries, global const STORAGE(IN) * values,
                              global STORAGE(OUT) * result, SearchShape shape) {
  const long begin = get_global_id(0) * shape.per_item, end = MIN_OF(begin + shape.per_item, shape.total);
  const long start[TOGETHER] = {0};
  for (long i = begin; i < end; i += TOGETHER) {
    long at[TOGETHER];
    STORE_POSITIONS(positions_of(values_at(values, i, end), boundaries, 0, 0, start, shape.m, false), at);
    for (int s = 0; s < TOGETHER && i + s < end; ++s) {
      const bool found = at[s] < shape.m && READ(boundaries, at[s]) == READ(values, i + s);
      STORE(OUT, int32, result, i + s, found != (bool)shape.invert);
    }
  }
}
