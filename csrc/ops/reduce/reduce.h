// Reductions over any dimensions of a strided tensor.
#pragma once

#include "ops/core/context.h"

#include <optional>

namespace ocl::ops {

enum class Reduction : uint8_t {
  sum,
  mean,    // the sum divided by `parameter`
  nansum,  // NaN counts as 0
  prod,
  amax,  // NaN propagates; integers and real floating types, booleans
  amin,
  argmax,  // value and first index; NaN is the best value
  argmin,
  all,  // 0 or 1; NaN is true
  any,
  count_nonzero,
  norm_0,  // number of nonzero elements, in the output's type
  norm_1,
  norm_2,
  norm_inf,
  norm_negative_inf,
  norm_p,     // (sum |x|^p)^(1/p) with p = `parameter`
  variance,   // sum (x - mean)^2 / `parameter`; use moments()
  deviation,  // its square root
  other,      // a row that is known by its name only: reduce_row(name) in ops/reduce/table.h
};
struct ReduceRow;

// Bit d is set when dimension d is reduced.
using DimMask = uint64_t;

// y = op(x) over the dimensions in `dims`. y has x's dimensions with those in `dims` of size 1, or without them; its
// strides are free, its dtype is converted to. argmax / argmin write `index` (int64, shaped like y, element number
// within the reduced dimensions in row-major order) and, unless y.data is null, the value. An empty reduction gives the
// operator's identity (0, 1, -inf, ...). Sums of half types and float32 accumulate in float32 by blocks, of integers in
// int64. Deterministic. Errors: InvalidArgument for shapes that do not fit; Unsupported for float64 on a
// device without it.
void reduce(Queue& queue, Reduction op, const TensorView& x, DimMask dims, const TensorView& y, double parameter = 0,
            const TensorView& index = {});
void reduce(Queue& queue, const ReduceRow& row, const TensorView& x, DimMask dims, const TensorView& y,
            double parameter = 0, const TensorView& index = {});

// Variance with divisor max(0, n - correction), or its square root, into `spread`; the mean into `mean` unless its data
// is null. Two passes: mean, then centred squares. Real floating types.
void moments(Queue& queue, const TensorView& x, DimMask dims, double correction, bool square_root,
             const TensorView& spread, const TensorView& mean = {});

}  // namespace ocl::ops
