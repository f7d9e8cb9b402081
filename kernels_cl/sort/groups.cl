// Runs of equal elements of a sorted vector (csrc/ops/sort/sort.h, for unique): flags where they begin, whose sums are
// the numbers of the elements' runs, then values, places and lengths of the runs. Both kernel styles. IN as in
// sort/sort.cl.
#include "sort/keys.clh"

// flags[i] = 1 where v[i] differs from v[i - 1]
TASK_CALLABLE(group_flags, (BUFFER(const STORAGE(IN), v), BUFFER(long, flags), PLAIN(long, n), PLAIN(long, per_item))) {
  OPEN(const STORAGE(IN), v);
  OPEN(long, flags);
  const long begin = get_global_id(0) * per_item, end = MIN_OF(begin + per_item, n);
  for (long i = begin; i < end; ++i) flags[i] = i > 0 && READ(IN, v, i) != READ(IN, v, i - 1);
}

TASK_CALLABLE(group_write, (BUFFER(const RAW, v), BUFFER(const long, group), BUFFER(const long, order),
                            BUFFER(RAW, values), BUFFER(long, inverse), BUFFER(long, starts), PLAIN(long, n),
                            PLAIN(int, has_order), PLAIN(int, has_inverse), PLAIN(long, per_item))) {
  OPEN(const RAW, v);
  OPEN(const long, group);
  OPEN(const long, order);
  OPEN(RAW, values);
  OPEN(long, inverse);
  OPEN(long, starts);
  const long begin = get_global_id(0) * per_item, end = MIN_OF(begin + per_item, n);
  for (long i = begin; i < end; ++i) {
    const long g = group[i];
    if (has_inverse) inverse[has_order ? order[i] : i] = g;
    if (i == 0 || group[i - 1] != g) values[g] = v[i], starts[g] = i;
  }
}

__kernel void group_counts(TENSOR(const long, starts), TENSOR(long, counts), long groups, long n) {
  OPEN(const long, starts);
  OPEN(long, counts);
  const long g = get_global_id(0);
  if (g < groups) counts[g] = (g + 1 < groups ? starts[g + 1] : n) - starts[g];
}
