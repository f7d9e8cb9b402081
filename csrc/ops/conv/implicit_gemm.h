// Convolution as a matrix product whose pixel operand is gathered on the way into local memory: fat kernels.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> implicit_gemm_algorithms();

}  // namespace ocl::ops
