// Convolutions whose windows tile the image (stride = kernel, no padding), as in the patch embedding of vision
// transformers: the patches are laid out as rows, everything else is one matrix product.
//   forward: y [O, pixels] = w [O, K] patches [pixels, K]^T for each image, K = C times taps; backward_data and
//   backward_weight accordingly
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> patches_algorithms();

}  // namespace ocl::ops
