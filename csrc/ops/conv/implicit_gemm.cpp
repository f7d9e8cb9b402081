#include "ops/conv/implicit_gemm.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> implicit_gemm_algorithms() { return {}; }

}  // namespace ocl::ops
