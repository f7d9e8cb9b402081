// The plain definition, one work-item per output element. Takes every problem; slow.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> reference_algorithms();

}  // namespace ocl::ops
