// Whether kernels of this device may multiply on tensor cores (kernels_cl/common/tensor_cores.clh): float32 as TF32,
// bfloat16 and float16, sums in float32. OpenCL C has no name for them: they are written as PTX, as inline assembly. So
// a small kernel is built and its results are compared, by a probe (probes.h). TORCH_OCL_TENSOR_CORES=0 says no, =mma
// no to warpgroups; =emulate computes the same fragments in plain OpenCL C, slowly, for tests, =emulate_warpgroups
// those of warpgroups.
#pragma once

#include "opencl/program/program.h"

namespace ocl {

class Device;

bool has_tensor_cores(const Device& device);
// Whether four warps together may multiply half precision, and TF32 along k, where it lies in local memory
// (kernels_cl/common/warpgroups.clh).
bool has_warpgroups(const Device& device);
bool may_have_tensor_cores(const Device& device);
bool may_have_warpgroups(const Device& device);
// They try it in this process.
bool multiplies_on_tensor_cores(Device& device);
bool multiplies_by_warpgroups(Device& device);
bool tensor_cores_emulated();
// warpgroups: where the kernel's operands allow them and the device has them.
Defines& add_tensor_core_defines(Defines& defines, bool warpgroups = false);

}  // namespace ocl
