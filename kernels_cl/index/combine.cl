// Several index tensors of one shape become one tensor of offsets (csrc/ops/index/indexed.h, combine_indices):
//   out[n] (+)= sum over t of wrap(index_t[n], limits[t]) * steps[t],  -1 where an index is out of range
// A work-item makes `block` consecutive elements; both kernel styles.
#include "params/index.h"
#include "common/device_errors.clh"
#include "common/divide.clh"
#include "common/types.clh"

#ifndef INDEX_DTYPE
#define INDEX_DTYPE int64
#endif

TASK_KERNEL void combine_indices(global long* out, global const STORAGE(INDEX_DTYPE) * i0,
                                 global const STORAGE(INDEX_DTYPE) * i1, global const STORAGE(INDEX_DTYPE) * i2,
                                 global const STORAGE(INDEX_DTYPE) * i3, global int* error, CombineWalk walk, int code,
                                 int accumulate, long block) {
  SHARE(CombineWalk, walk, shared);
  __global const STORAGE(INDEX_DTYPE) * index[combine_slots] = {i0, i1, i2, i3};
  const long from = get_global_id(0) * block, to = MIN_OF(from + block, walk.numel);
  for (long n = from; n < to; ++n) {
    long at[combine_slots] = {0, 0, 0, 0}, linear = n;
    for (int d = walk.dims - 1; d >= 0; --d) {
      const long rest = divide(linear, shared->sizes[d]), coordinate = linear - rest * shared->sizes[d];
      linear = rest;
#pragma unroll
      for (int t = 0; t < combine_slots; ++t) at[t] += coordinate * shared->strides[t][d];
    }
    long sum = accumulate ? out[n] : 0;
#pragma unroll
    for (int t = 0; t < combine_slots; ++t) {  // not to walk.count: the arrays are to be in registers
      if (t >= walk.count) continue;
      const long k = checked_index((long)index[t][at[t]], -walk.limits[t], walk.limits[t], error, code);
      sum = k < 0 || sum < 0 ? -1 : sum + k * walk.steps[t];
    }
    out[n] = sum;
  }
}
