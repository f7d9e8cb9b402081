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

// First position whose boundary is not before v. A NaN value goes to the end, comparisons with it being false.
inline long position_of(VALUE(IN) v, __global const STORAGE(IN)* boundaries, __global const long* sorter, long m, bool right) {
  long low = 0, high = m;
  while (low < high) {
    const long middle = (low + high) / 2;
    const VALUE(IN) b = READ(boundaries, sorter ? sorter[middle] : middle);
    if (right ? !(b > v) : !(b >= v))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

__kernel void search_sorted(TENSOR(const STORAGE(IN), boundaries), TENSOR(const STORAGE(IN), values), TENSOR(const long, sorter),
                            TENSOR(STORAGE(OUT), result), Shape shape) {
  OPEN(const STORAGE(IN), boundaries);
  OPEN(const STORAGE(IN), values);
  OPEN(const long, sorter);
  OPEN(STORAGE(OUT), result);
  const long begin = get_global_id(0) * shape.per_item, end = MIN_OF(begin + shape.per_item, shape.total);
  for (long i = begin; i < end; ++i) {
    const long base = shape.shared ? 0 : i / shape.n * shape.m;
    const long at = position_of(READ(values, i), boundaries + base, shape.has_sorter ? sorter + base : 0, shape.m, shape.right);
    STORE(OUT, int64, result, i, at);
  }
}

__kernel void is_in_sorted(TENSOR(const STORAGE(IN), boundaries), TENSOR(const STORAGE(IN), values), TENSOR(STORAGE(OUT), result), Shape shape) {
  OPEN(const STORAGE(IN), boundaries);
  OPEN(const STORAGE(IN), values);
  OPEN(STORAGE(OUT), result);
  const long begin = get_global_id(0) * shape.per_item, end = MIN_OF(begin + shape.per_item, shape.total);
  for (long i = begin; i < end; ++i) {
    const VALUE(IN) v = READ(values, i);
    const long at = position_of(v, boundaries, 0, shape.m, false);
    const bool found = at < shape.m && READ(boundaries, at) == v;
    STORE(OUT, int32, result, i, found != (bool)shape.invert);
  }
}
