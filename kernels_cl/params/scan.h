// Scans along a dimension.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t kept_size[16], kept_x[16], kept_y[16], kept_index[16];
  int64_t rows, n, x_stride, y_stride, index_stride, chunk, chunks, group;
  int32_t kept, pass;
} ScanShape;
PARAMS_LAYOUT(ScanShape, 584);

PARAMS_END
