// Batch normalisation, channels first (planes) and last (rows). Kernels define acc first.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum { channel_block = 64 };  // channels of a CPU task that combines parts

typedef struct {
  int64_t batch, channels, inner, padded;
  int64_t x_batch, x_channel, y_batch, y_channel, z_batch, z_channel;
} PlaneShape;
PARAMS_LAYOUT(PlaneShape, 80);

typedef struct {
  int64_t rows, channels, padded;
  int64_t x_row, y_row, z_row;
} RowShape;
PARAMS_LAYOUT(RowShape, 48);

PARAMS_STRUCT_OF(acc, UpdateRule) { acc momentum, eps; };
PARAMS_LAYOUT_OF(acc, UpdateRule, 2, 0);

PARAMS_END
