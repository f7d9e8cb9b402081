// Groups look-ups by table row (csrc/ops/embedding/embedding.h): a counting sort. starts has rows + 2 ints; after the
// sort starts[r] is the first entry of row r in `order` and starts[r + 1] the one behind its last.
//   CPU   group_all: one task does everything, in order
//   GPU  group_count, group_scan (one work-group), group_place, and group_sort for a result that does not depend on
//   scheduling
#include "common/types.clh"

#ifndef INDEX_DTYPE
#define INDEX_DTYPE int64
#endif
#define INDEX STORAGE(INDEX_DTYPE)

CPU_KERNEL void group_all(global const INDEX* indices, global int* starts, global int* order, long n, long rows) {
  for (long r = 0; r < rows + 2; ++r) starts[r] = 0;
  for (long i = 0; i < n; ++i) {
    const long k = indices[i];
    if (k >= 0 && k < rows) ++starts[k + 2];
  }
  int sum = 0;
  for (long r = 2; r < rows + 2; ++r) starts[r] = sum += starts[r];
  for (long i = 0; i < n; ++i) {
    const long k = indices[i];
    if (k >= 0 && k < rows) order[starts[k + 1]++] = (int)i;
  }
}

kernel void group_count(global const INDEX* indices, global int* starts, long n, long rows) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const long k = indices[i];
  if (k >= 0 && k < rows) atomic_inc(&starts[k + 2]);
}

#define GROUP 256
// Inclusive prefix sums of starts[2 .. rows + 2).
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void group_scan(global int* starts, long rows) {
  __local int sums[GROUP];
  const int t = get_local_id(0);
  const long block = (rows + GROUP - 1) / GROUP, from = 2 + t * block, to = MIN_OF(from + block, rows + 2);
  int sum = 0;
  for (long r = from; r < to; ++r) sum += starts[r];
  sums[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < GROUP; step *= 2) {
    const int other = t >= step ? sums[t - step] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[t] += other;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  sum = sums[t] - sum;
  for (long r = from; r < to; ++r) starts[r] = sum += starts[r];
}

kernel void group_place(global const INDEX* indices, global int* starts, global int* order, long n, long rows) {
  const long i = get_global_id(0);
  if (i >= n) return;
  const long k = indices[i];
  if (k >= 0 && k < rows) order[atomic_inc(&starts[k + 1])] = (int)i;
}

static inline void sift_down(__global int* heap, int root, int n) {
  for (int child = 2 * root + 1; child < n; root = child, child = 2 * root + 1) {
    if (child + 1 < n && heap[child + 1] > heap[child]) ++child;
    if (heap[root] >= heap[child]) return;
    const int swap = heap[root];
    heap[root] = heap[child];
    heap[child] = swap;
  }
}

// One work-item sorts the list of one row (heap sort).
kernel void group_sort(global const int* starts, global int* order, long rows) {
  const long r = get_global_id(0);
  if (r >= rows) return;
  __global int* list = order + starts[r];
  int n = starts[r + 1] - starts[r];
  for (int root = n / 2 - 1; root >= 0; --root) sift_down(list, root, n);
  while (--n > 0) {
    const int swap = list[0];
    list[0] = list[n];
    list[n] = swap;
    sift_down(list, 0, n);
  }
}
