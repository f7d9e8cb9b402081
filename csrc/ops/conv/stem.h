// Convolutions of images with at most 4 channels (first layers): direct sums over phase planes, forward and gradient of the weights, for 2d
// square kernels up to 16, stride 1, 2 or 4, any padding, one group. Layout and formulas: kernels_cl/conv_stem.cl. Fat kernels only.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> stem_algorithms();

}  // namespace ocl::ops
