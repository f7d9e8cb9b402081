// Outputs for kernels that write dense memory in one format: the given tensor when it has that layout, else a temporary
// that is copied back.
#pragma once

#include "torch/aten/common.h"

namespace ocl::aten {

class DenseOutput {
 public:
  explicit DenseOutput(const at::Tensor& given, at::MemoryFormat format = at::MemoryFormat::Contiguous)
      : given_(given),
        dense_(given.is_contiguous(format) ? given : empty_like_options(given.sizes(), given.options(), format)) {}
  const at::Tensor& tensor() const { return dense_; }
  void* data() const { return address(dense_); }
  void finish() const {
    if (!dense_.is_same(given_)) given_.copy_(dense_);
  }

 private:
  at::Tensor given_, dense_;
};

// A dense tensor from an optional argument; undefined when absent.
inline at::Tensor dense(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? tensor->contiguous() : at::Tensor();
}
// For meta functions, which take references.
inline at::OptionalTensorRef reference(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

inline ops::TensorView optional_view(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() ? view(tensor) : ops::TensorView{};
}

}  // namespace ocl::aten
