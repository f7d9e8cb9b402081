// Operand i of a TensorIterator, whose elements are only moved, as a view with the iterator's (merged, fastest first)
// dimensions in row-major order.
#pragma once

#include "torch/aten/common.h"

namespace ocl::aten {

inline ops::TensorView view(const at::TensorIteratorBase& iterator, int i) {
  const int dims = iterator.ndim();
  TORCH_CHECK(dims <= ops::max_dims, "tensors with more than ", ops::max_dims,
              " distinct dimensions are not supported");
  runtime::check_memory(iterator.tensor_base(i));
  ops::TensorView result;
  result.data = iterator.data_ptr(i);
  result.dtype = moved_type_of(iterator.dtype(i));
  result.dims = dims;
  const auto bytes = static_cast<int64_t>(ops::size_of(result.dtype));
  const auto strides = iterator.strides(i);
  for (int d = 0; d < dims; ++d) {
    result.sizes[d] = iterator.shape()[dims - 1 - d];
    result.strides[d] = strides[dims - 1 - d] / bytes;
  }
  return result;
}

inline Queue& queue_for(const at::TensorIteratorBase& iterator) {
  return runtime::current_queue(iterator.device(0).index());
}

}  // namespace ocl::aten
