// Runs of equal elements of a sorted vector (csrc/ops/sort/sort.h, for unique): flags where they begin, whose sums are
// the numbers of the elements' runs, then values, places and lengths of the runs. Both kernel styles. IN as in
// sort/sort.cl.
#include "sort/keys.clh"

// flags[i] = 1 where v[i] differs from v[i - 1]
TASK_KERNEL void group_flags(global const STORAGE(IN) * v, global long* flags, long n, long per_item) {
  const long begin = get_global_id(0) * per_item, end = MIN_OF(begin + per_item, n);
  for (long i = begin; i < end; ++i) flags[i] = i > 0 && READ(IN, v, i) != READ(IN, v, i - 1);
}

TASK_KERNEL void group_write(global const RAW* v, global const long* group, global const long* order,
                             global RAW* values, global long* inverse, global long* starts, long n, int has_order,
                             int has_inverse, long per_item) {
  const long begin = get_global_id(0) * per_item, end = MIN_OF(begin + per_item, n);
  for (long i = begin; i < end; ++i) {
    const long g = group[i];
    if (has_inverse) inverse[has_order ? order[i] : i] = g;
    if (i == 0 || group[i - 1] != g) values[g] = v[i], starts[g] = i;
  }
}

kernel void group_counts(global const long* starts, global long* counts, long groups, long n) {
  const long g = get_global_id(0);
  if (g < groups) counts[g] = (g + 1 < groups ? starts[g + 1] : n) - starts[g];
}
