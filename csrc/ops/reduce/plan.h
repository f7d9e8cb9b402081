// The pure planner of reductions: dimensions collapsed and classified, work cut into tasks. No device needed.
#pragma once

#include "ops/reduce/reduce.h"
#include "params/reduce.h"

namespace ocl::ops {

using params::ReduceShape;

enum class ReduceKind {
  inner,    // the innermost reduced dimension is contiguous
  column,   // the innermost kept dimension is contiguous
  strided,  // neither
};

// One output of one element.
constexpr ReduceShape reduce_of_one() {
  ReduceShape shape{};
  shape.outputs = shape.extent = shape.chunk = shape.splits = shape.per_task = shape.lanes = shape.has_y = 1;
  return shape;
}

struct ReducePlan {
  ReduceShape shape = reduce_of_one();
  ReduceKind kind = ReduceKind::strided;
  int64_t tasks = 1;  // CPU: work-items; GPU: work-groups
};

struct ReduceTarget {
  bool cpu = true;
  int64_t units = 1;       // compute units
  int64_t columns = 1024;  // most columns of a strip of the CPU column kernel
};

// `ordered` keeps the row-major order of the reduced dimensions (indices are wanted). `index` may be a null view.
ReducePlan plan_reduce(const TensorView& x, DimMask dims, const TensorView& y, const TensorView& index, bool ordered,
                       const ReduceTarget& target);

}  // namespace ocl::ops
