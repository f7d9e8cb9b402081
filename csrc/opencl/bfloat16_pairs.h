// Whether kernels of this device may multiply pairs of bfloat16 by the processor's vdpbf16ps (kernels_cl/common/bfloat16_pairs.clh).
// OpenCL C has no name for the instruction: it is written as inline assembly, which some compilers refuse and some misread. So the
// processor is asked, then a small kernel is built and its results are compared; once per device, at the first use, because building
// takes a while. TORCH_OCL_BFLOAT16_PAIRS=0 says no; =emulate says yes wherever the self-test passes and computes the products in plain
// OpenCL C, slowly: simulators and other processors run the same kernels.
#pragma once

namespace ocl {

class Device;

bool has_bfloat16_pairs(const Device& device);
bool bfloat16_pairs_emulated();

}  // namespace ocl
