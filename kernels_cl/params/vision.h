// Operators of torchvision.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t batch, channels, height, width, regions, bins_y, bins_x, sampling_ratio;
  int32_t aligned, unused;
} RoiShape;
PARAMS_LAYOUT(RoiShape, 72);

typedef struct {
  int64_t batch, channels, height, width, kernel_height, kernel_width, output_height, output_width;
  int64_t stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x, groups;
  int64_t masked;
} DeformShape;
PARAMS_LAYOUT(DeformShape, 128);

PARAMS_END
