// Whether a tensor lies within its storage. One that does not (its storage was resized after the tensor was made, or an
// operator that checks nothing gave it other sizes) would make kernels read and write elsewhere, or end the process.
#pragma once

#include <ATen/core/TensorBase.h>

namespace ocl::runtime {

namespace detail {
// The same for tensors that are not contiguous, and for those that are refused. Visible to the extension module.
__attribute__((visibility("default"))) void check_memory_slowly(const at::TensorBase& tensor);
}  // namespace detail

// To be called wherever the address of a tensor's elements is taken for a kernel, a copy or the CPU. Costs a comparison
// for contiguous tensors. Tensors without elements pass. Errors: RuntimeError with PyTorch's own text for sizes and
// strides that a storage cannot have, "... are out of bounds for storage of size 0".
inline void check_memory(const at::TensorBase& tensor) {
  const c10::TensorImpl& t = *tensor.unsafeGetTensorImpl();
  if (t.has_storage() && t.is_contiguous()) [[likely]] {
    const c10::Storage& storage = t.unsafe_storage();
    const auto bytes = static_cast<uint64_t>(t.storage_offset() + t.numel()) * t.itemsize();
    if (bytes <= storage.nbytes() && storage.data() != nullptr) [[likely]]
      return;
  }
  detail::check_memory_slowly(tensor);
}

}  // namespace ocl::runtime
