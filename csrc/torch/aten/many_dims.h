// Kernels know tensors of up to ops::max_dims dimensions, PyTorch of 64. An operator along one dimension looks at
// larger tensors as [before, size, behind]; an elementwise one is run for parts of the iterator.
#pragma once

#include "torch/aten/common.h"

#include <ATen/TensorIterator.h>

namespace ocl::aten {

inline bool too_many_dims(const at::Tensor& tensor) { return tensor.dim() > ops::max_dims; }

// [before, size, behind]: a view of a contiguous tensor, and of a contiguous copy of any other.
inline at::Tensor around(const at::Tensor& tensor, int64_t dim) {
  const at::IntArrayRef sizes = tensor.sizes();
  const auto d = static_cast<size_t>(dim);
  return tensor.contiguous().view(
      {c10::multiply_integers(sizes.slice(0, d)), sizes[d], c10::multiply_integers(sizes.slice(d + 1))});
}

// body(around(tensor, dim)), which writes to it, and the result in `tensor`.
template <class Body>
void change_around(const at::Tensor& tensor, int64_t dim, Body&& body) {
  const at::Tensor three = around(tensor, dim);
  body(three);
  if (!tensor.is_contiguous()) tensor.copy_(three.view(tensor.sizes()));
}

// The elements that an index of these sizes can reach: all of them along `dim`, the first ones along the others.
inline at::Tensor within(const at::Tensor& tensor, at::IntArrayRef sizes, int64_t dim) {
  at::Tensor part = tensor;
  for (int64_t d = 0; d < part.dim(); ++d)
    if (d != dim && part.size(d) != sizes[static_cast<size_t>(d)])
      part = part.narrow(d, 0, sizes[static_cast<size_t>(d)]);
  return part;
}

// body(iterator) for parts of it that have at most `limit` dimensions. The iterator is used up.
template <class Iterator, class Body>
void for_parts_of_few_dims(Iterator& iterator, Body&& body, int limit = ops::max_dims) {
  if (iterator.ndim() <= limit) [[likely]]
    return body(static_cast<at::TensorIteratorBase&>(iterator));
  const std::unique_ptr<at::TensorIterator> half = iterator.split(iterator.ndim() - 1);
  for_parts_of_few_dims(*half, body, limit);
  for_parts_of_few_dims(iterator, body, limit);
}

}  // namespace ocl::aten
