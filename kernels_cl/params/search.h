// Binary search.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

typedef struct {
  int64_t total, n, m, shared, has_sorter, right, invert, per_item;
} SearchShape;
PARAMS_LAYOUT(SearchShape, 64);

PARAMS_END
