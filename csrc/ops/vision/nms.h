// Greedy non-maximum suppression (torchvision.ops.nms).
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// kept[0 .. *kept_count) = the boxes, in the order of `order`, that no kept box before them overlaps by more than
// `threshold` (intersection over union). boxes [count, 4] as (x1, y1, x2, y2) of a floating dtype, contiguous; order
// [count] int64, a permutation; kept [count] int64; kept_count one int64 on the device. count may be 0.
void nms(Queue& queue, DType dtype, int64_t count, void* kept, void* kept_count, const void* boxes, const void* order,
         double threshold);

}  // namespace ocl::ops
