// Pooling in 1 to 3 dimensions (axes D, H, W; unused leading axes have size 1).
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t batch, channels, in_plane, out_plane;  // planes: elements of one channel of one image
  int32_t in[3], out[3], kernel_size[3], stride[3], padding[3], dilation[3];
  int32_t count_include_pad, divisor;  // divisor 0: the size of the window
} PoolShape;
PARAMS_LAYOUT(PoolShape, 112);

typedef struct {
  int64_t planes;
  int32_t input[3], output[3], kernel_size[3], sample[3], axes, unused;
} FractionalPoolShape;
PARAMS_LAYOUT(FractionalPoolShape, 64);

PARAMS_END
