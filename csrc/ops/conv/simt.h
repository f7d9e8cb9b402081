// Implicit matrix product for GPUs: 2-D tiles of pixels x channels in local memory.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> simt_algorithms();

}  // namespace ocl::ops
