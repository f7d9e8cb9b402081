// Instructions that NVIDIA's driver does not let OpenCL C reach: it compiles for sm_90, say, and assembles no
// instruction of sm_90a. Its binaries are PTX, though, and it takes PTX for any target that the GPU runs. So a program
// that defines PTX_TARGET as such a target has the instructions as inline assembly behind `//TARGET: `, a comment for
// the first compilation; its PTX is then compiled a second time, as PTX for the target with these comments opened.
#pragma once

#include <CL/cl.h>

#include <string>
#include <string_view>

namespace ocl {

class Device;

// What the source defines as PTX_TARGET; empty: nothing.
std::string ptx_target(std::string_view source);
// The PTX of a driver for `target`; empty where it is no such text.
std::string retargeted(std::string_view ptx, std::string_view target);
// Replaces a built program by the one compiled for the target; an OpenCL error code, with the program as it was then
// left.
cl_int compile_for(cl_program& program, const Device& device, const std::string& options, const std::string& target);

}  // namespace ocl
