#include "ops/core/tensor_view.h"

#include "base/error.h"

#include <stdexcept>

namespace ocl::ops {

TensorView TensorView::contiguous(void* data, DType dtype, std::span<const int64_t> sizes) {
  if (sizes.size() > max_dims)
    throw InvalidArgument("tensors of more than 16 dimensions are not supported by OpenCL kernels");
  TensorView view{data, dtype, static_cast<int>(sizes.size()), {}, {}};
  int64_t stride = 1;
  for (int d = view.dims - 1; d >= 0; --d) {
    view.sizes[d] = sizes[d];
    view.strides[d] = stride;
    stride *= sizes[d] > 1 ? sizes[d] : 1;
  }
  return view;
}

TensorView TensorView::strided(void* data, DType dtype, std::span<const int64_t> sizes,
                               std::span<const int64_t> strides) {
  TensorView view = contiguous(data, dtype, sizes);
  for (size_t d = 0; d < sizes.size(); ++d) view.strides[d] = strides[d];
  return view;
}

int64_t TensorView::numel() const {
  int64_t n = 1;
  for (int d = 0; d < dims; ++d) n *= sizes[d];
  return n;
}

bool TensorView::is_contiguous() const {
  int64_t expected = 1;
  for (int d = dims - 1; d >= 0; --d) {
    if (sizes[d] != 1 && strides[d] != expected) return numel() == 0;
    expected *= sizes[d];
  }
  return true;
}

std::string TensorView::shape_string() const {
  std::string text = "[";
  for (int d = 0; d < dims; ++d) text += (d ? ", " : "") + std::to_string(sizes[d]);
  return text + "]";
}

}  // namespace ocl::ops
