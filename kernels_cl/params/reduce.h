// Reductions. Dimensions from the outermost to the innermost; strides in elements.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t kept_size[16], kept_x[16], kept_y[16], kept_index[16];
  int64_t reduced_size[16], reduced_x[16];
  int64_t outputs, extent;  // numbers of outputs and of elements per output
  int64_t chunk, splits;    // split s reduces elements [s * chunk, (s + 1) * chunk)
  int64_t per_task;         // outputs (inner) or strips of columns (column) of a CPU task
  int64_t lanes;            // GPU: work-items per output; CPU column kernel: columns of a strip
  int32_t kept, reduced, has_y, has_index;
} ReduceShape;
PARAMS_LAYOUT(ReduceShape, 832);

PARAMS_END
