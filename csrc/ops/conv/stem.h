// Convolutions of images with at most 4 channels (first layers), in both memory orders (the gradient of the image:
// channels first): direct sums over phase planes, for 2d square kernels up to 16, stride 1, 2 or 4, any padding (the
// gradient of the image: below the kernel's size), one group. Layouts and formulas: kernels_cl/conv/stem.cpu.cl
// (forward and gradient of the weights), kernels_cl/conv/stem_backward_data.cpu.cl. CPU kernels only.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> stem_algorithms();
std::span<const ConvAlgorithm> stem_backward_data_algorithms();

// What both have in common: why a problem is none of theirs (else nullptr), and the kernels' variants and defines.
const char* stem_refusal(const ConvProblem& p, const PlanTarget& target);
Variant stem_variant(const ConvProblem& p);
Defines stem_defines(const ConvProblem& p, const Device& device);

}  // namespace ocl::ops
