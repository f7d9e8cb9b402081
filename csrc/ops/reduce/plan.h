// The pure planner of reductions: dimensions collapsed and classified, work cut into tasks. No device needed.
#pragma once

#include "ops/reduce/reduce.h"

namespace ocl::ops {

// The kernels' argument (Shape in kernels_cl/reduce/reduce.clh): dimensions from the outermost to the innermost,
// strides in elements.
struct ReduceShape {
  int64_t kept_size[16]{}, kept_x[16]{}, kept_y[16]{}, kept_index[16]{};
  int64_t reduced_size[16]{}, reduced_x[16]{};
  int64_t outputs = 1, extent = 1;  // numbers of outputs and of elements per output
  int64_t chunk = 1, splits = 1;    // split s reduces elements [s * chunk, (s + 1) * chunk)
  int64_t per_task = 1;             // outputs (inner) or strips of columns (column) of a CPU task
  int64_t lanes = 1;                // GPU: work-items per output; CPU column kernel: columns of a strip
  int32_t kept = 0, reduced = 0, has_y = 1, has_index = 0;
};

enum class ReduceKind {
  inner,    // the innermost reduced dimension is contiguous
  column,   // the innermost kept dimension is contiguous
  strided,  // neither
};

struct ReducePlan {
  ReduceShape shape;
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
