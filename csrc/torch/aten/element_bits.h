// A Scalar as the bits of one element.
#pragma once

#include "ops/index/indexed.h"

#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <c10/core/Scalar.h>

#include <cstring>

namespace ocl::aten {

inline ops::ElementBits element_bits(const at::Scalar& value, at::ScalarType type) {
  ops::ElementBits bits;
  AT_DISPATCH_V2(type, "scalar", AT_WRAP([&] {
                   const auto element = value.to<scalar_t>();
                   static_assert(sizeof element <= sizeof bits);
                   std::memcpy(static_cast<void*>(&bits), &element, sizeof element);
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf, at::kBFloat16,
                 at::kBool);
  return bits;
}

}  // namespace ocl::aten
