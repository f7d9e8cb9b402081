// How kernels of a device add to a float32 that others add to at the same time (kernels_cl/common/atomic.clh).
#pragma once

#include "opencl/program/program.h"

namespace ocl {

class Device;

enum class FloatAtomics {
  compare_and_swap,  // on the bits, in a loop: everywhere
  extension,         // cl_ext_float_atomics, in OpenCL C 3.0
  ptx,               // red.global.add.f32 by inline assembly
};

// Found by probes (probes.h): what the driver names has to add right, also to NaN.
FloatAtomics float_atomics(const Device& device);
const char* name_of(FloatAtomics way);
bool may_have_float_atomics(const Device& device);
bool may_have_ptx_atomics(const Device& device);
bool adds_right(Device& device, FloatAtomics way);  // tries it in this process

// ATOMIC, and FLOAT_ATOMICS where the device has them.
Defines& add_atomic_defines(Defines& defines, const Device& device, bool atomic);

}  // namespace ocl
