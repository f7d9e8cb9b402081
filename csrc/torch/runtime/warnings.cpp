// Warnings of the layers below (base/warning.h) become PyTorch's: Python's `warnings` module sees those of operators.
#include "base/warning.h"

#include <c10/util/Exception.h>

namespace ocl::runtime {

static const bool registered = [] {
  set_warning_handler([](const std::string& text) { TORCH_WARN("torch_ocl: ", text); });
  return true;
}();

}  // namespace ocl::runtime
