// Whether kernels of this device may multiply pairs of bfloat16 by the processor's vdpbf16ps
// (kernels_cl/common/bfloat16_pairs.clh). OpenCL C has no name for the instruction: it is written as inline assembly,
// which some compilers refuse and some misread. So the processor is asked, then a small kernel is built and its results
// are compared. Some processors have the instruction
// but issue it four times as rarely as a float32 multiply-add, which makes pairs the slower way: the self-test times
// both. TORCH_OCL_BFLOAT16_PAIRS=0 says no; =1 prefers them wherever they are right, whatever their speed; =emulate
// computes the products in plain OpenCL C, slowly: simulators and other processors run the same kernels.
#pragma once

#include <cstdint>

namespace ocl {

class Device;

// They are built and give the right results: a probe (probes.h).
bool has_bfloat16_pairs(const Device& device);
bool may_have_bfloat16_pairs(const Device& device);
bool multiplies_pairs(Device& device);  // tries it in this process
// They also multiply faster than float32.
bool prefers_bfloat16_pairs(const Device& device);
// Products of bfloat16 by pairs in the time of one product of float32, each by a chain of `rounds` instructions: 2
// where both issue alike.
double bfloat16_pairs_gain(Device& device, int32_t rounds);
bool bfloat16_pairs_emulated();

}  // namespace ocl
