// Sampling of an image at the points of a grid.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t batch, channels, points;
  int64_t size[3];
  int32_t padding, align_corners;
} GridShape;
PARAMS_LAYOUT(GridShape, 56);

PARAMS_END
