// Resampling.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t batch, channels, in_plane, out_plane;
  int32_t in[3], out[3], taps[3];
  int32_t tap_base[3];    // first entry of an axis in index and weight
  int32_t range_base[3];  // first entry of an axis in ranges
  int32_t unused;
} UpsampleShape;
PARAMS_LAYOUT(UpsampleShape, 96);

typedef struct {
  int64_t outer, in, out, inner;
  int32_t taps, precision;
} AxisShape;
PARAMS_LAYOUT(AxisShape, 40);

PARAMS_END
