// Reading and writing through indices. Indices are int64 or int32. Those of take, put, index_fill and advanced indexing
// may be negative and then count from the end; one out of range is reported by check_device_errors() and its element is
// skipped. Shapes and dtypes must fit (the caller checked); views may be strided.
#pragma once

#include "ops/index/indexed.h"

namespace ocl::ops {

// out[..., i, ...] = self[..., index[i], ...] in dimension `dim`; index has one dimension.
void index_select(Queue& queue, const TensorView& out, const TensorView& self, int dim, const TensorView& index);
// out[..., i, ...] = self[..., index[..., i, ...], ...]; out and index have one shape, self at least that in the other
// dimensions.
void gather(Queue& queue, const TensorView& out, const TensorView& self, int dim, const TensorView& index);
// out[i] = self[index[i]] over the elements of a contiguous self.
void take(Queue& queue, const TensorView& out, const TensorView& self, const TensorView& index);
// self[index[i]] = source[i] (or +=) over the elements of a contiguous self; index and source have one shape.
void put(Queue& queue, const TensorView& self, const TensorView& index, const TensorView& source, bool accumulate,
         bool deterministic);
// A tensor seen over the shape of an iteration: with stride 0 in the dimension that an index selects from, which has
// `size` elements, `stride` elements apart.
struct IndexedDimension {
  TensorView self;
  int64_t size, stride;
};
// self[..., index[i], ...] = source[..., i, ...]; index has one dimension, or is a view over the iteration.
void index_copy(Queue& queue, const TensorView& self, int dim, const TensorView& index, const TensorView& source,
                bool deterministic);
void index_copy(Queue& queue, const IndexedDimension& self, const TensorView& index, const TensorView& source,
                bool deterministic);
// self[..., index[i], ...] = value; index as above.
void index_fill(Queue& queue, const TensorView& self, int dim, const TensorView& index, const ElementBits& value);
void index_fill(Queue& queue, const IndexedDimension& self, const TensorView& index, const ElementBits& value);

// Advanced indexing over one iteration shape. `self` has stride 0 where indices select; indices[t] selects from a
// dimension of sizes[t] elements with stride strides[t] (elements of self). Every view has the iteration shape.
struct AdvancedIndex {
  TensorView self;
  std::span<const TensorView> indices;
  std::span<const int64_t> sizes, strides;
};
// out = self[indices]
void index(Queue& queue, const TensorView& out, const AdvancedIndex& from);
// self[indices] = values, or += with accumulate
void index_put(Queue& queue, const AdvancedIndex& to, const TensorView& values, bool accumulate, bool deterministic);

// A strided copy between views of one shape and dtype; strides may be negative.
void copy_strided(Queue& queue, const TensorView& destination, const TensorView& source);
// out = self with the dimensions of the mask reversed.
void flip(Queue& queue, const TensorView& out, const TensorView& self, std::span<const int> dims);

}  // namespace ocl::ops
