// Running an operator on the CPU as if it had no kernel, for the dtypes that its kernel lacks:
// on_cpu<at::_ops::avg_pool2d_out>(arguments...).
#pragma once

#include "torch/aten/fallback.h"

#include <ATen/native/CPUFallback.h>

namespace ocl::aten {

template <class Operator, class... Arguments>
decltype(auto) on_cpu(Arguments&&... arguments) {
  return at::native::call_fallback_fn<&fall_back, Operator>::call(std::forward<Arguments>(arguments)...);
}

}  // namespace ocl::aten
