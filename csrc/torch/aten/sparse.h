// What the files about sparse tensors share.
#pragma once

#include "torch/aten/common.h"

#include <ATen/SparseCsrTensorUtils.h>

namespace ocl::aten {

// The tensor on that device: a copy, with the same layout, indices and values, or the tensor itself where it lies there
// already.
at::Tensor sparse_to(const at::Tensor& tensor, at::Device device);

// Runs the operator on the CPU, as fall_back does for dense tensors.
void sparse_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void nested_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for other kinds of tensors; `why` is said behind the name: "has no OpenCL kernel for quantized tensors".
void elsewhere_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const char* why);

}  // namespace ocl::aten
