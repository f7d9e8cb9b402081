// Indexing.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum { walk_dims = 12, combine_slots = 4 };  // dimensions of a walk; index tensors of a launch

// Dimensions [0, outer_dims) are free, [outer_dims, dims) are conflict dimensions; the inner loop is apart from them.
typedef struct {
  int32_t outer_dims, dims;
  int64_t outer, conflict, inner;  // elements of each group
  int64_t inner_dst, inner_src, inner_idx;
  int64_t lowest, limit, dst_step, src_step;  // indices allowed: lowest <= i < limit, negative ones count from the end
  int32_t has_index, from_value;
  int64_t sizes[walk_dims], dst[walk_dims], src[walk_dims], idx[walk_dims];
} IndexedWalk;
PARAMS_LAYOUT(IndexedWalk, 480);

typedef struct {
  int32_t dims, count;
  int64_t numel;
  int64_t sizes[walk_dims], strides[combine_slots][walk_dims], limits[combine_slots], steps[combine_slots];
} CombineWalk;
PARAMS_LAYOUT(CombineWalk, 560);

typedef struct {
  int32_t dims, unused;
  int64_t sizes[16];
  int64_t row, column;  // strides of the coordinates
} CompactShape;
PARAMS_LAYOUT(CompactShape, 152);

PARAMS_END
