// What operators of PyTorch's native library are called with, where it differs between minor versions of torch.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/Padding.h>
#include <torch/headeronly/version.h>

namespace ocl::aten {

// Raises PyTorch's error for an input or a padding that padding in `spatial` dimensions does not take.
template <int spatial>
void check_padding(const at::Tensor& input, at::IntArrayRef padding) {
#if TORCH_VERSION_MINOR >= 15
  at::native::padding::check_valid_input(input, padding, spatial);
#else
  at::native::padding::check_valid_input<spatial>(input, padding);
#endif
}

}  // namespace ocl::aten
