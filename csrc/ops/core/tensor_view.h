// What operators work on: an address in device memory, an element type, sizes and strides (in elements). Owns nothing.
#pragma once

#include "ops/core/dtype.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace ocl::ops {

inline constexpr int max_dims = 16;

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::float32;
  int dims = 0;
  std::array<int64_t, max_dims> sizes{};
  std::array<int64_t, max_dims> strides{};

  // Contiguous (row-major).
  static TensorView contiguous(void* data, DType dtype, std::span<const int64_t> sizes);
  static TensorView contiguous(void* data, DType dtype, std::initializer_list<int64_t> sizes) {
    return contiguous(data, dtype, std::span<const int64_t>(sizes.begin(), sizes.size()));
  }
  // Errors: InvalidArgument for more than max_dims dimensions.
  static TensorView strided(void* data, DType dtype, std::span<const int64_t> sizes, std::span<const int64_t> strides);

  explicit operator bool() const { return data != nullptr; }
  int64_t size(int dim) const { return sizes[dim < 0 ? dim + dims : dim]; }
  int64_t stride(int dim) const { return strides[dim < 0 ? dim + dims : dim]; }
  int64_t numel() const;
  bool is_contiguous() const;
  std::string shape_string() const;  // "[2, 3, 4]"
};

// ceil(a / b) for positive b.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace ocl::ops
