// Losses.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t steps, batch, classes, step_stride, batch_stride, class_stride, target_stride, states, blank;
  int64_t zero_infinity;
} CtcShape;
PARAMS_LAYOUT(CtcShape, 80);

typedef struct {
  int64_t batch, classes, inner, batch_stride, class_stride, inner_stride, ignore_index;
  int32_t reduction, unused;
} LossShape;
PARAMS_LAYOUT(LossShape, 64);

PARAMS_END
