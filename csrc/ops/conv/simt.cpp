#include "ops/conv/simt.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> simt_algorithms() { return {}; }

}  // namespace ocl::ops
