// Binary search in sorted sequences.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// result[i] = number of boundaries before values[i]: those < it (right false) or <= it (right true); NaN is after every
// number. boundaries: row-major [rows, m], or [m] for every row; values and result: row-major [rows, n]; both of one
// real dtype. sorter (int64, shaped like boundaries; data may be null): sequence i of a row is boundaries[sorter[i]].
// result: int32 or int64.
void search_sorted(Queue& queue, const TensorView& boundaries, const TensorView& values, const TensorView& sorter,
                   bool right, const TensorView& result);

// result[i] = (elements[i] is among sorted[0..m)) != invert; row-major, boolean result, NaN is never found.
void is_in_sorted(Queue& queue, const TensorView& elements, const TensorView& sorted, bool invert,
                  const TensorView& result);

}  // namespace ocl::ops
