// Sorting and what rests on it, along one dimension of a strided tensor. All sorts are stable, NaN is the largest
// value, -0 == 0. Every type is handled but complex. Rows (slices along the dimension) are shorter than 2^32.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// values and indices (int64): the first `values.size(dim)` elements of every sorted row of x, and where they come from.
// Strides are free; values.data may be null. Errors: InvalidArgument for complex types and rows that are too
// long.
void sort(Queue& queue, const TensorView& x, int dim, bool descending, const TensorView& values,
          const TensorView& indices);

enum class Selection : uint8_t {
  kth,        // the k-th smallest, k from 1
  median,     // the lower median; NaN when the row has one
  nanmedian,  // the lower median of what is not NaN
  mode,       // the smallest of the most frequent values, with its last index
};

// One element per row; values and indices have x's dimensions with size 1 along `dim`. Rows must not be empty.
void select(Queue& queue, Selection selection, const TensorView& x, int dim, int64_t k, const TensorView& values,
            const TensorView& indices);

// Groups of equal neighbours in the row-major vector v of n elements (NaN equals nothing): writes the number of the
// group of every element to `group` (int64, n elements) and returns how many there are (waits for the device).
int64_t group_equal(Queue& queue, const TensorView& v, void* group);

// For the groups of group_equal: values[g] = v[first of g], counts[g] = size (int64, may be null),
// inverse[order[i]] = group[i] (order null: i; inverse may be null).
void write_groups(Queue& queue, const TensorView& v, const void* group, const void* order, int64_t groups, void* values,
                  void* inverse, void* counts);

}  // namespace ocl::ops
