// Fusion of elementwise operators that wait one behind another in the command queue: each part of the elements goes
// through all of them while it is in the cache, and one launch does the work of several. For contiguous operands of one
// size and one type (float32, or a half type), on devices with an executor (opencl/executor.h), whose command queue
// knows what waits. The results are those of single launches, bit by bit.
#pragma once

#include "ops/elementwise/elementwise.h"
#include "params/elementwise.h"

namespace ocl::ops {

// What a flat call leaves with its launch, so that it can be fused with others.
class ElementwiseStep {
 public:
  // `call`: coalesced to one dimension of neighbouring or single elements.
  ElementwiseStep(Queue& queue, const ElementwiseRow& row, const ElementwiseCall& call);
  ElementwiseStep(const ElementwiseStep&) = delete;

  // Without a function where the call cannot be fused. Valid as long as the step.
  Fusion fusion() const;

  using Step = params::SequenceStep;
  struct Data {
    Queue* queue;
    int64_t n;
    DType dtype;  // of everything stored
    Step step;
  };

  // Calls of this process that were fused with others, for tests.
  static uint64_t fused_calls();

  // How many of `steps` can be fused, from the first on: what one of them writes, others read and write at the same
  // elements or not at all.
  static size_t fusable(const Data* const* steps, size_t count);

 private:
  bool fuses_ = false;
  Data data_;
};

}  // namespace ocl::ops
