// 1x1 convolutions of channels-last images, which are one matrix product: y [pixels, O] = x [pixels, C] w [O, C]^T, and
// its gradients.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> pointwise_algorithms();

}  // namespace ocl::ops
