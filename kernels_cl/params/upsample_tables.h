// What the tables of resampling are made from. Kernels define acc first.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

PARAMS_STRUCT_OF(acc, TableShape) {
  acc scale[3];
  int32_t in[3], out[3], taps[3], tap_base[3], range_base[3];
  float nearest_scale[3];
  int32_t mode, align_corners;
};
PARAMS_LAYOUT_OF(acc, TableShape, 3, 80);

PARAMS_END
