#include "torch/aten/common.h"

namespace ocl::aten {

namespace {

ops::TensorView view_as(const at::Tensor& tensor, ops::DType type) {
  TORCH_CHECK(tensor.device().type() == runtime::device_type,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              c10::Device(runtime::device_type, runtime::current_device()), " and ", tensor.device(), "!");
  return ops::TensorView::strided(address(tensor), type, std::span(tensor.sizes().data(), tensor.sizes().size()),
                                  std::span(tensor.strides().data(), tensor.strides().size()));
}

// What this build of PyTorch makes of a number above the largest one.
[[maybe_unused]] const bool saturation = (ops::float8_saturates = !c10::Float8_e4m3fn(1e6f).isnan());

}  // namespace

ops::DType moved_type_of(at::ScalarType type) {
  if (!only_moved(type)) return static_cast<ops::DType>(type);
  switch (c10::elementSize(type)) {
    case 1: return ops::DType::uint8;
    case 2: return ops::DType::uint16;
    case 4: return ops::DType::uint32;
    default: unsupported(type);
  }
}

ops::TensorView view(const at::Tensor& tensor) { return view_as(tensor, dtype_of(tensor.scalar_type())); }
ops::TensorView moved(const at::Tensor& tensor) { return view_as(tensor, moved_type_of(tensor.scalar_type())); }

at::Tensor empty_like_options(at::IntArrayRef sizes, const at::TensorOptions& options,
                              std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(options.device());
  return at::Tensor(at::detail::empty_generic(sizes, c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                              c10::typeMetaToScalarType(options.dtype()), format));
}

at::Tensor empty_strided_options(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  const c10::OptionalDeviceGuard guard(options.device());
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                      c10::typeMetaToScalarType(options.dtype())));
}

void unsupported(at::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "OpenCL kernels (device ", c10::Device(runtime::device_type, runtime::current_device()),
      ") are not implemented for '", at::toString(type), "'. Tensors of this type can be made, moved and converted.");
}

void not_implemented_for(const char* name, at::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', name, "\" not implemented for '", at::toString(type), "'");
}

}  // namespace ocl::aten
