// Writing and accumulating at indices. Indices are int64 or int32; views may be strided; see ops/index/index.h for out
// of range indices. `deterministic` asks GPU devices for results that do not depend on scheduling (CPU devices always
// give them).
#pragma once

#include "ops/index/indexed.h"

namespace ocl::ops {

// self[..., index[..., i, ...], ...] = combine(self[...], source[..., i, ...]) in dimension `dim`; index's shape is the
// iteration, source and self are at least that in the other dimensions. Accumulation rounds to the dtype at each step.
void scatter(Queue& queue, const TensorView& self, int dim, const TensorView& index, const TensorView& source,
             Combine combine, bool deterministic);
// The same with one number for every element of index.
void scatter_value(Queue& queue, const TensorView& self, int dim, const TensorView& index, const ElementBits& value,
                   Combine combine, bool deterministic);
// self[..., index[i], ...] = combine(self[...], source[..., i, ...]); index has one dimension.
void index_accumulate(Queue& queue, const TensorView& self, int dim, const TensorView& index, const TensorView& source,
                      Combine combine, bool deterministic);

}  // namespace ocl::ops
