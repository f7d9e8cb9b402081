#include "ops/core/type_error.h"

#include "base/error.h"

#include <atomic>

namespace ocl::ops {

static std::atomic<void (*)(const std::string&)> installed = nullptr;

void throw_type_errors_by(void (*thrower)(const std::string& message)) { installed = thrower; }

void not_implemented(std::string_view op, DType type) {
  const std::string message = '"' + std::string(op) + "\" not implemented for '" + info(type).aten + "'";
  if (auto* thrower = installed.load()) thrower(message);
  throw InvalidArgument(message);
}

}  // namespace ocl::ops
