// Convolutions of channels-last images, float32, CPU: a matrix product that reads rows of channels where they lie
// (kernels_cl/conv/rows.cpu.cl). Forward, and the gradient of the input as one such product for each residue of the
// stride. Images of few channels are copied with their padding first: then the taps of a kernel row are one row of
// kernel_width * channels numbers.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> rows_algorithms();

}  // namespace ocl::ops
