// What operators of PyTorch's native library are called with, where it differs between minor versions of torch.
#pragma once

#include "torch/aten/elementwise.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Padding.h>
#include <torch/headeronly/version.h>

#include <limits>
#include <utility>

namespace ocl::aten {

// Raises PyTorch's error for an input or a padding that padding in `spatial` dimensions does not take.
template <int spatial>
void check_padding(const at::Tensor& input, at::IntArrayRef padding) {
#if TORCH_VERSION_MINOR >= 15
  at::native::padding::check_valid_input(input, padding, spatial);
#else
  at::native::padding::check_valid_input<spatial>(input, padding);
#endif
}

// Lists of scales that _scaled_mm_v2 and _scaled_grouped_mm_v2 take.
#if TORCH_VERSION_MINOR >= 14
using ScaleList = const at::ITensorListRef&;
#else
using ScaleList = at::TensorList;
#endif

// The least and the largest integer of a type of at most 32 bits; of all others int64's, which every limit fits.
inline std::pair<int64_t, int64_t> integers_of(at::ScalarType type) {
  const auto range = [](auto zero) {
    using limits = std::numeric_limits<decltype(zero)>;
    return std::pair<int64_t, int64_t>(limits::min(), limits::max());
  };
  if (type == at::kByte) return range(uint8_t{});
  if (type == at::kChar) return range(int8_t{});
  if (type == at::kShort) return range(int16_t{});
  if (type == at::kInt) return range(int32_t{});
  return range(int64_t{});
}

// A limit of clamp as a number of the result's type. From torch 2.15 on one that lies beyond the type is no limit on
// the side where it bounds nothing, and an error on the other; before, every such number was an error, and a negative
// one of an unsigned type was wrapped.
inline at::Scalar clamp_limit(const at::Scalar& limit, at::ScalarType type, bool is_lower) {
#if TORCH_VERSION_MINOR >= 15
  const auto [least, largest] = integers_of(type);
  const double value = limit.isComplex() ? 0 : limit.toDouble();
  const bool below = value<static_cast<double>(least), above = value> static_cast<double>(largest);
  if (at::isIntegralType(type, false) && (below || above)) {
    TORCH_CHECK(is_lower ? below : above, "Clamp ", is_lower ? "min" : "max", " value ", value,
                " is outside the representable range of ", type);
    return below ? least : largest;
  }
#endif
  check_convertible(limit, type);
  return limit;
}

// Raises PyTorch's errors for the type and the limits of hardtanh.
inline void check_hardtanh(at::ScalarType type, const at::Scalar& low, const at::Scalar& high) {
#if TORCH_VERSION_MINOR >= 14
  TORCH_CHECK_NOT_IMPLEMENTED(type != at::kBool, "Bool inputs not supported for hardtanh");
#else
  TORCH_CHECK(type != at::kBool, "Bool inputs not supported for hardtanh");
#endif
#if TORCH_VERSION_MINOR < 15
  TORCH_CHECK(type != at::kByte || (low.toDouble() >= 0 && high.toDouble() >= 0),
              "cannot do hardtanh on an unsigned type with negative limits");
#endif
}

}  // namespace ocl::aten
