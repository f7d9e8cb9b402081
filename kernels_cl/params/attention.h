// Attention of few rows, and rotary embeddings.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum { few_rows_tile = 16 };  // rows of queries of a task

typedef struct {
  int32_t tiles;      // of `few_rows_tile` rows of a head of keys
  int32_t part_keys;  // of a part, a multiple of 64
  int32_t parts;
} FewRowsPlan;
PARAMS_LAYOUT(FewRowsPlan, 12);

// Strides in elements: batch, head, row.
typedef struct {
  int64_t q_batch, q_head, q_row, k_batch, k_head, k_row, cos_batch, cos_row, sin_batch, sin_row;
  int32_t heads, key_heads, length, width;
} RotaryArguments;
PARAMS_LAYOUT(RotaryArguments, 96);

PARAMS_END
