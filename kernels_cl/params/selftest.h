// The self-test of kernels that are called as functions.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int32_t a;
  float b[7];
} Pair;
PARAMS_LAYOUT(Pair, 32);

PARAMS_END
