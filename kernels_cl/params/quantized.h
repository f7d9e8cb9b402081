// Products with quantised weights. Strides are in elements, `pitch` is in bytes.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum { quantized_rows = 16, quantized_columns = 64 };  // of y in a task, at most

typedef struct {
  int64_t m, n, k;
  int64_t x_row;  // from row to row of x
  int64_t pitch;  // of a row of codes
  int64_t group;  // a multiple of 32, or at least k
  int64_t scale_row, scale_group, offset_row, offset_group;
  int32_t columns;  // of y in a task
  int32_t has_bias;
} QuantizedArguments;
PARAMS_LAYOUT(QuantizedArguments, 88);

PARAMS_END
