// A Scalar as the bits of one element.
#pragma once

#include "torch/aten/common.h"
#include "ops/index/indexed.h"

#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <algorithm>
#include <cstring>

namespace ocl::aten {

inline ops::ElementBits element_bits(const at::Scalar& value, at::ScalarType type) {
  ops::ElementBits bits;
  AT_DISPATCH_V2(type, "scalar", AT_WRAP([&] {
                   const auto element = value.to<scalar_t>();
                   static_assert(sizeof element <= sizeof bits);
                   std::memcpy(static_cast<void*>(&bits), &element, sizeof element);
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kComplexHalf, at::kHalf, at::kBFloat16, at::kBool);
  return bits;
}

// A tensor of a type that kernels do not compute in as unsigned integers of as many bytes, and a number as one of them.
inline at::Tensor as_bits(const at::Tensor& tensor) {
  return tensor.view(static_cast<at::ScalarType>(moved_type_of(tensor.scalar_type())));
}
inline at::Scalar bits_of(const at::Scalar& value, at::ScalarType type) {
  if (value.equal(0.0) && type != at::kFloat8_e8m0fnu) return 0;  // also of types that no number becomes
  const ops::ElementBits bits = element_bits(value, type);
  int64_t whole = 0;
  std::memcpy(&whole, &bits, std::min(sizeof whole, c10::elementSize(type)));
  return whole;
}

}  // namespace ocl::aten
