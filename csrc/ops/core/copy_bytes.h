// Bytes from one place of a device's memory to another.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// As Queue::copy (ranges that are equal or disjoint), but by a kernel on CPU runtimes whose own copy is the work of one
// thread.
void copy_bytes(Queue& queue, void* y, const void* x, size_t bytes);

}  // namespace ocl::ops
