// Convolution as a matrix product whose pixel operand is gathered on the way into local memory: CPU kernels.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> implicit_gemm_algorithms();
// The same with bfloat16 operands multiplied in pairs by the processor (csrc/opencl/capabilities/bfloat16_pairs.h):
// float32 sums, twice the rate.
std::span<const ConvAlgorithm> bfloat16_pairs_algorithms();

}  // namespace ocl::ops
