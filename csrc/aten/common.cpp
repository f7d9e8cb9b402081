#include "aten/common.h"

namespace ocl::aten {

ops::TensorView view(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().type() == runtime::device_type, "expected a tensor on an ocl device, got one on ", tensor.device());
  return ops::TensorView::strided(tensor.data_ptr(), dtype_of(tensor.scalar_type()), std::span(tensor.sizes().data(), tensor.sizes().size()),
                                  std::span(tensor.strides().data(), tensor.strides().size()));
}

at::Tensor empty_like_options(at::IntArrayRef sizes, const at::TensorOptions& options, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(options.device());
  return at::Tensor(at::detail::empty_generic(sizes, c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::typeMetaToScalarType(options.dtype()), format));
}

void not_implemented_for(const char* name, at::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', name, "\" not implemented for '", at::toString(type), "'");
}

}  // namespace ocl::aten
