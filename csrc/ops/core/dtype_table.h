// All element types, and what kernels are told of them.
#pragma once

#include "ops/core/dtype.h"

#include <span>
#include <string>

namespace ocl::ops {

std::span<const DTypeInfo> dtype_table();

// printed/element_types.clh, which kernels_cl/common/types.clh includes: for each type D but those of 8-bit floating
// numbers STORAGE_D, VALUE_D, IS_COMPLEX_D and IS_FLOATING_D; of the types that are worked on as they are stored READ_D
// and the like, which move elements; ONE_D_(W), a vector of integers as wide as VALUE; SAME_S_T of types S and T in
// which elements are worked on, whether they are one.
std::string element_types_source();

}  // namespace ocl::ops
