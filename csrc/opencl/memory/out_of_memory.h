// Out of memory, raised in one place: by the handler that PyTorch's layer sets (caching_allocator.h), otherwise as
// ocl::OutOfMemory.
#pragma once

#include <string>

namespace ocl {

[[noreturn]] void raise_out_of_memory(const std::string& report);

}  // namespace ocl
