// Softmax over the middle dimension.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

// [outer, n, inner], dense.
typedef struct {
  int64_t outer, n, inner;
} SoftmaxShape;
PARAMS_LAYOUT(SoftmaxShape, 24);

PARAMS_END
