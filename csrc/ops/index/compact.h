// Order-preserving compaction by a mask, in two stages: count (blocks count, one scan of the block counts), then write.
// Masks are contiguous; an element selects when it is not zero (NaN selects, -0.0 does not).
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// The counted mask: where each block starts to write. Keeps its scratch memory until destroyed.
class Compaction {
 public:
  // Launches the count; nothing waits.
  Compaction(Queue& queue, const TensorView& mask);
  // Number of selected elements. Waits for the queue.
  int64_t count();

  // out[r, d] = coordinate d of the r-th selected element, r < limit; out is int64 [limit, dims of mask] with any
  // strides.
  void coordinates(const TensorView& out, int64_t limit);
  // out[r] = values[i] of the r-th selected element i; values is contiguous with the mask's size, out has count()
  // elements.
  void select(const TensorView& out, const TensorView& values);
  // values[i] = source[r] for the r-th selected element i; a source that is too short is reported by
  // check_device_errors().
  void scatter(const TensorView& values, const TensorView& source);

 private:
  enum class Write { coordinates, select, scatter };
  void write(Write what, void* out, const void* in, int64_t limit, size_t bytes, int64_t row = 0, int64_t column = 0);

  Queue& queue_;
  TensorView mask_;
  int64_t numel_, block_, blocks_;
  Workspace offsets_;  // int64: start of each block, then the total
};

}  // namespace ocl::ops
