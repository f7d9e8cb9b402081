// Implicit matrix products on the tensor cores of NVIDIA's GPUs (kernels_cl/conv/tensor_cores.gpu.cl,
// conv/tensor_cores_last.gpu.cl): float32 by three products of TF32, or one where that precision is allowed
// (ops/core/precision.h), the half types by one.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> tensor_core_algorithms();            // channels first
std::span<const ConvAlgorithm> tensor_core_pointwise_algorithms();  // of them 1x1: a product per image
std::span<const ConvAlgorithm> tensor_core_last_algorithms();       // channels last, or by way of it

}  // namespace ocl::ops
