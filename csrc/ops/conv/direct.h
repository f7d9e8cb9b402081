// Direct convolution from frames in local memory, for CPU runtimes: groups of few channels, large filters
// (kernels_cl/conv/direct.cpu.cl).
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> direct_algorithms();

}  // namespace ocl::ops
