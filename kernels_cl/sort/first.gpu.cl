// The first `keep` elements (at most MOST_KEPT) of every row in sorted order, GPU: values[row, i] = x[row, index],
// indices[row, i] = index. One work-group of ITEMS per row of fewer than 2^30 elements. A radix selection narrows down
// the last element that is kept, digit by digit of the keys from the top, and of the indices where equal keys are on
// both sides of it; then the elements up to it are collected and sorted in local memory.
// Defines besides sort/keys.clh: ITEMS (a power of two from 64 to 1024)
#include "sort/keys.clh"

#ifndef ITEMS
#define ITEMS 256
#endif
#define MOST_KEPT 1024
#define DIGIT 11  // bits
#define BINS (1 << DIGIT)
#define LOADS (256 / IN_BITS)  // of a work-item that do not wait for each other
#define FIRST_KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

// What is known of the last element: these bits of its key and of its index.
typedef struct {
  KEY key_mask, key;
  uint index_mask, index;
} Last;

typedef struct {
  INPUT data;
  long stride;
  int n;
} Row;

// `use` of key and index i of every element of the row, LOADS elements of a work-item at a time.
#define EACH_ELEMENT(row, use)                                                                  \
  for (int base = get_local_id(0); base < (row).n; base += LOADS * ITEMS) {                     \
    KEY keys[LOADS];                                                                            \
    _Pragma("unroll") for (int l = 0; l < LOADS; ++l) if (base + l * ITEMS < (row).n) keys[l] = \
        key_of(READ(IN, (row).data, (base + l * ITEMS) * (row).stride));                        \
    _Pragma("unroll") for (int l = 0; l < LOADS; ++l) {                                         \
      const int i = base + l * ITEMS;                                                           \
      const KEY key = keys[l];                                                                  \
      if (i < (row).n) use                                                                      \
    }                                                                                           \
  }

// The bin in which element `wanted` (from 1) lies: {bin, elements before the bin, elements in it}, the same for all
// work-items.
static inline int3 find_bin(__local uint* count, __local uint* sums, __local int* found, uint wanted) {
  const int id = get_local_id(0), each = BINS / ITEMS;
  uint own = 0;
  for (int k = 0; k < each; ++k) own += count[id * each + k];
  sums[id] = own;
  uint sum = own;
  for (int step = 1; step < ITEMS; step *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint other = id >= step ? sums[id - step] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[id] = sum += other;
  }
  uint before = sum - own;
  if (before < wanted && wanted <= sum) {
    int bin = id * each;
    while (before + count[bin] < wanted) before += count[bin++];
    found[0] = bin;
    found[1] = before;
    found[2] = count[bin];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return (int3)(found[0], found[1], found[2]);
}

static inline void clear_bins(__local uint* count) {
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_local_id(0); i < BINS; i += ITEMS) count[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
}

// The last of the first `keep` elements: all elements up to it, and no others, satisfy IS_FIRST.
static inline Last find_last(Row row, __local uint* count, __local uint* sums, __local int* found, int keep) {
  Last last = {0, 0, 0, 0};
  int wanted = keep, inside = row.n;
  for (int shift = IN_BITS; shift > 0 && inside != wanted;) {
    const int bits = MIN_OF(DIGIT, shift);
    shift -= bits;
    clear_bins(count);
    EACH_ELEMENT(row, {
      if ((key & last.key_mask) == last.key) atomic_inc(&count[(uint)(key >> shift) & ((1u << bits) - 1)]);
    })
    barrier(CLK_LOCAL_MEM_FENCE);
    const int3 bin = find_bin(count, sums, found, wanted);
    last.key_mask |= (((KEY)1 << bits) - 1) << shift;
    last.key |= (KEY)bin.x << shift;
    wanted -= bin.y;
    inside = bin.z;
  }
  for (int shift = 32 - clz((uint)row.n); shift > 0 && inside != wanted;) {  // keys are equal
    const int bits = MIN_OF(DIGIT, shift);
    shift -= bits;
    clear_bins(count);
    EACH_ELEMENT(row, {
      if (key == last.key && ((uint)i & last.index_mask) == last.index)
        atomic_inc(&count[((uint)i >> shift) & ((1u << bits) - 1)]);
    })
    barrier(CLK_LOCAL_MEM_FENCE);
    const int3 bin = find_bin(count, sums, found, wanted);
    last.index_mask |= ((1u << bits) - 1) << shift;
    last.index |= (uint)bin.x << shift;
    wanted -= bin.y;
    inside = bin.z;
  }
  return last;
}

#define IS_FIRST(last, key_, i)             \
  ((key_ & (last).key_mask) < (last).key || \
   ((key_ & (last).key_mask) == (last).key && ((uint)(i) & (last).index_mask) <= (last).index))

FIRST_KERNEL void sort_first(global const STORAGE(IN) * x, global RAW* values, global long* indices, SortShape shape) {
  SHARE(SortShape, shape, shared);
  __local uint count[BINS], sums[ITEMS];
  __local int found[3];
  __local ELEMENT first[MOST_KEPT];
  __local int collected;
  const long r = get_group_id(0);
  const int id = get_local_id(0), keep = (int)shape.keep;
  const Row row = {x + offset_of(r, shape.kept, shared->kept_size, shared->kept_x), shape.x_stride, (int)shape.n};
  const Last last = find_last(row, count, sums, found, keep);
  int size = 1;
  while (size < keep) size *= 2;
  for (int i = keep + id; i < size; i += ITEMS) first[i] = LAST_ELEMENT;
  if (id == 0) collected = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ELEMENT(row, {
    if (IS_FIRST(last, key, i)) first[atomic_inc(&collected)] = PACK(key, i);
  })
  bitonic_sort(first, size, ITEMS);
  BITS px = (BITS)row.data;
  const long at_values = offset_of(r, shape.kept, shared->kept_size, shared->kept_values);
  const long at_indices = offset_of(r, shape.kept, shared->kept_size, shared->kept_indices);
  for (int i = id; i < keep; i += ITEMS) {
    const long index = INDEX_OF(first[i]);
    if (shape.has_values) values[at_values + i * shape.values_stride] = px[index * shape.x_stride];
    indices[at_indices + i * shape.indices_stride] = index;
  }
}
