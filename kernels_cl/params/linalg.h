// A batch of matrices (csrc/ops/linalg/linalg.h).
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t batch, rows, columns, batch_stride, row_stride, column_stride;
} Matrices;
PARAMS_LAYOUT(Matrices, 48);

PARAMS_END
