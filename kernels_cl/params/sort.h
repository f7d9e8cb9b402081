// Sorting along a dimension.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t kept_size[16], kept_x[16], kept_values[16], kept_indices[16];
  int64_t rows, n, x_stride, values_stride, indices_stride;
  int64_t block, blocks, keep;
  int32_t kept, has_values;
} SortShape;
PARAMS_LAYOUT(SortShape, 584);

PARAMS_END
