// Runs planned reductions: picks the kernel of a table row and types, launches it and the combination of partial
// states.
#pragma once

#include "ops/reduce/plan.h"
#include "ops/reduce/table.h"

namespace ocl::ops {

// Device addresses of a reduction; null where unused. centers: accumulator type, one per output in the plan's order.
struct ReduceData {
  const void* x;
  void* y;
  void* index;
  const void* centers;
};

class ReduceEngine {
 public:
  ReduceEngine(Queue& queue, Reduction op, DType in, DType out) : ReduceEngine(queue, reduce_row(op), in, out) {}
  ReduceEngine(Queue& queue, const ReduceRow& row, DType in, DType out);
  ReducePlan plan(const TensorView& x, DimMask dims, const TensorView& y, const TensorView& index) const;
  void run(const ReducePlan& plan, const ReduceData& data, double parameter) const;
  // Combines plan.shape.splits states per output (partial[split][output]) and writes the results.
  void finish(const ReducePlan& plan, const void* partial, const void* partial_index, const ReduceData& data,
              double parameter) const;
  DType accumulator() const { return accumulator_; }

 private:
  uint64_t variant() const;
  template <class Launch>
  void with_parameter(double parameter, Launch&& launch_with) const;

  Queue& queue_;
  const ReduceRow& row_;
  DType in_, accumulator_, out_;
};

ReduceTarget reduce_target(const Device& device, bool scalar);

}  // namespace ocl::ops
