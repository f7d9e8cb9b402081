// Host memory that the device can copy from and to without staging: ordinary pages where memory is shared, a mapped
// CL_MEM_ALLOC_HOST_PTR buffer elsewhere.
#pragma once

#include "opencl/device.h"

#include <cstddef>

namespace ocl {

// Errors: OutOfMemory.
void* allocate_pinned(Device& device, size_t bytes);
void free_pinned(void* address);
// True for any address inside a pinned block.
bool is_pinned(const void* address) noexcept;

}  // namespace ocl
