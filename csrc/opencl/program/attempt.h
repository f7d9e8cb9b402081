// Programs that another process compiles first, because the driver's compiler may end the process that it works in
// (Device::guarded).
#pragma once

#include "opencl/program/program_build.h"

namespace ocl {

// Has the compiler process compile it, from where it comes by the disk cache, unless that was done before. What it
// cannot do, or what does not compile there, is left to the caller. Errors: BuildError when the driver ended it, now or
// before; it names the program.
void attempt_program(const ProgramRequest& request);

}  // namespace ocl
