// The engine of every operator that moves or accumulates elements through one index tensor (gather, index_select,
// index_put, scatter_add, index_add, embedding, cat pieces, flips, ...). Over an iteration space of up to 16
// dimensions, with k = index[i] wrapped into [0, limit):
//   side == source:       destination[i] = source[i + k * step]
//   side == destination:  destination[i + k * step] = combine(destination[i + k * step], source[i])
// Dimensions of size > 1 in which the destination has stride 0 are "conflict" dimensions: several i may meet in one
// element.
//
// CPU devices never use atomics: a task owns a part of the non-conflict dimensions, or of the destination's indices,
// and walks the conflict dimensions in order, so results are deterministic and for `assign` the last write wins. GPU
// devices accumulate with atomics unless `deterministic` is asked for.
#pragma once

#include "ops/core/context.h"
#include "ops/core/device_errors.h"

namespace ocl::ops {

enum class IndexSide { none, source, destination };
enum class Combine { assign, add, multiply, minimum, maximum };

// The bits of one element, for operators that write a number instead of a tensor.
struct ElementBits {
  uint64_t low = 0, high = 0;
};

struct IndexedOperands {
  TensorView destination, source, index;  // views of one shape; index (int64 or int32) is unused when side == none
  IndexSide side = IndexSide::none;
  int64_t limit = 1;        // size of the indexed dimension
  int64_t step = 0;         // its stride in elements, on the indexed side
  bool wraps = false;       // negative indices count from the end; otherwise they are out of range
  bool checked = false;     // indices come from combine_indices: not negative, or -1 for an element to skip
  bool from_value = false;  // source is `value` for every i
  ElementBits value{};
};

// Dimensions that remain at most.
inline constexpr int walk_dims = 12;

// Runs the operation. dtypes of destination and source must be equal; `assign` works on any dtype, the others on real
// types (add also on complex). `site` names the operator for out-of-range indices.
void indexed(Queue& queue, const IndexedOperands& operands, Combine combine, bool deterministic, const ErrorSite& site);

// out[n] = sum over t of wrap(indices[t][n]) * strides[t]: one offset in place of several index tensors of one shape
// (strides may be 0). -1 where an index is out of range. `out` is contiguous int64; sizes[t] is the size of the
// dimension that indices[t] selects from.
void combine_indices(Queue& queue, const TensorView& out, std::span<const TensorView> indices,
                     std::span<const int64_t> sizes, std::span<const int64_t> strides, const ErrorSite& site);

}  // namespace ocl::ops
