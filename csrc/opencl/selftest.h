// Small kernels whose results tell what a device can do: some abilities have no query, and some queries are wrong.
#pragma once

#include "opencl/launch.h"
#include "opencl/program.h"

namespace ocl {

// Runs kernel `name` of kernels_cl/`file` over `range` on a copy of `data` and brings the result back. The kernel's one argument is TENSOR(_, x).
// False when it does not build or run: that is an answer, not an error.
bool run_selftest(Device& device, const char* file, const char* name, const Defines& defines, Range range, void* data, size_t bytes);

}  // namespace ocl
