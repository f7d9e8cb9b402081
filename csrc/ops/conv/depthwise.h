// Depthwise convolution (one filter per channel, groups == in_channels).
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> depthwise_algorithms();
std::span<const ConvAlgorithm> depthwise_channels_algorithms();  // channels last
std::span<const ConvAlgorithm> depthwise_simt_algorithms();

}  // namespace ocl::ops
