#include "ops/core/tensor_view.h"

#include "base/error.h"

#include <stdexcept>

namespace ocl::ops {

bool float8_saturates = true;

const DTypeInfo& info(DType dtype) {
  static constexpr DTypeInfo table[] = {
      {DType::uint8, "uint8", "Byte", 1, false, false, false},
      {DType::int8, "int8", "Char", 1, false, false, true},
      {DType::int16, "int16", "Short", 2, false, false, true},
      {DType::int32, "int32", "Int", 4, false, false, true},
      {DType::int64, "int64", "Long", 8, false, false, true},
      {DType::float16, "float16", "Half", 2, true, false, true},
      {DType::float32, "float32", "Float", 4, true, false, true},
      {DType::float64, "float64", "Double", 8, true, false, true},
      {DType::complex32, "complex32", "ComplexHalf", 4, false, true, true},
      {DType::complex64, "complex64", "ComplexFloat", 8, false, true, true},
      {DType::complex128, "complex128", "ComplexDouble", 16, false, true, true},
      {DType::boolean, "boolean", "Bool", 1, false, false, false},
      {DType::bfloat16, "bfloat16", "BFloat16", 2, true, false, true},
      {DType::float8_e5m2, "float8_e5m2", "Float8_e5m2", 1, true, false, true},
      {DType::float8_e4m3fn, "float8_e4m3fn", "Float8_e4m3fn", 1, true, false, true},
      {DType::float8_e5m2fnuz, "float8_e5m2fnuz", "Float8_e5m2fnuz", 1, true, false, true},
      {DType::float8_e4m3fnuz, "float8_e4m3fnuz", "Float8_e4m3fnuz", 1, true, false, true},
      {DType::float8_e8m0fnu, "float8_e8m0fnu", "Float8_e8m0fnu", 1, true, false, false},
      {DType::uint16, "uint16", "UInt16", 2, false, false, false},
      {DType::uint32, "uint32", "UInt32", 4, false, false, false},
      {DType::uint64, "uint64", "UInt64", 8, false, false, false},
  };
  for (const DTypeInfo& row : table)
    if (row.dtype == dtype) return row;
  throw InvalidArgument("OpenCL kernels do not support element type number " + std::to_string(static_cast<int>(dtype)));
}

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
