// Padding of up to three dimensions by elements of the image.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t planes, in_plane, out_plane;
  int32_t in[3], out[3], left[3], unused;
} PadShape;
PARAMS_LAYOUT(PadShape, 64);

PARAMS_END
