// Gradient of the input of 3x3 convolutions with stride 2 and padding 1 (2d, one group) as four convolutions with
// stride 1, one per parity of the pixel; formulas and layouts in kernels_cl/conv/strided_backward_data.cpu.cl. Input
// channels in multiples of 4. CPU kernels only.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> strided_backward_data_algorithms();

}  // namespace ocl::ops
