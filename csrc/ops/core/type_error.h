// The error for an element type that an operator has no kernels for.
#pragma once

#include "ops/core/dtype.h"

#include <string>
#include <string_view>

namespace ocl::ops {

// Throws `"op" not implemented for 'Bool'`: InvalidArgument, or what throw_type_errors_by() was given.
[[noreturn]] void not_implemented(std::string_view op, DType type);

// For a program that has an exception of its own for this (PyTorch: NotImplementedError, which its users catch, as on
// other devices). `thrower` takes the message and does not return; null: InvalidArgument again.
void throw_type_errors_by(void (*thrower)(const std::string& message));

}  // namespace ocl::ops
