#include "ops/conv/depthwise.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> depthwise_algorithms() { return {}; }

}  // namespace ocl::ops
