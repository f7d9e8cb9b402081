// From ATen's tensors to the operator library's views, and the template that turns a structured meta class into an
// `.out` kernel.
#pragma once

#include "ops/core/context.h"
#include "torch/runtime/device.h"
#include "torch/runtime/memory_check.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>
#include <torch/headeronly/version.h>

namespace ocl::aten {

[[noreturn]] void unsupported(at::ScalarType type);
// Errors: NotImplementedError for types that kernels do not have (float8, quantized, ...).
inline ops::DType dtype_of(at::ScalarType type) {
  if (!ops::is_supported(static_cast<ops::DType>(type))) [[unlikely]]
    unsupported(type);
  return static_cast<ops::DType>(type);
}
// The type of elements that are moved as they are, never looked at: their own, or an unsigned one of as many bytes.
ops::DType moved_type_of(at::ScalarType type);
// The type of elements that are converted when they are read and written: those of dtype_of and the 8-bit floating
// ones.
inline ops::DType stored_type_of(at::ScalarType type) {
  if (type == at::kFloat8_e8m0fnu) return ops::DType::float8_e8m0fnu;
  return ops::is_float8(static_cast<ops::DType>(type)) ? static_cast<ops::DType>(type) : dtype_of(type);
}
// Types without a kernel that computes on them, whose elements are moved all the same.
inline bool only_moved(at::ScalarType type) { return !ops::is_supported(static_cast<ops::DType>(type)); }
inline at::ScalarType scalar_type_of(ops::DType type) { return static_cast<at::ScalarType>(type); }

// The view of a dense `ocl` tensor: its address (storage offset included), dtype, sizes and strides. Conjugate and
// negative bits are not looked at: the dispatcher resolves them before a kernel is called.
ops::TensorView view(const at::Tensor& tensor);
// The same for kernels that only move elements, of any type.
ops::TensorView moved(const at::Tensor& tensor);
// Address only (null for undefined tensors). Kernels take addresses from here, not from data_ptr, which does not look
// at the storage. Errors: RuntimeError for a tensor that reaches beyond its storage.
inline void* address(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  runtime::check_memory(tensor);
  return tensor.data_ptr();
}

// The queue of the current stream on the tensor's device.
inline Queue& queue_for(const at::Tensor& tensor) { return runtime::current_queue(tensor.device().index()); }

// An uninitialised tensor on the device of `like`.
at::Tensor empty_like_options(at::IntArrayRef sizes, const at::TensorOptions& options,
                              std::optional<at::MemoryFormat> format = std::nullopt);
at::Tensor empty_strided_options(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

// Same sizes and elements in the same places: strides of dimensions of one element do not count (1x1 weights in
// channels-last have others).
inline bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return a.numel() == 0;
  return true;
}

// PyTorch's "not implemented" error for a dtype: `"name" not implemented for 'Half'`.
[[noreturn]] void not_implemented_for(const char* name, at::ScalarType type);

// out.copy_(in) for a kernel that needs another layout: returns `tensor` itself or a contiguous copy.
inline c10::MaybeOwned<at::Tensor> contiguous(const at::Tensor& tensor) { return tensor.expect_contiguous(); }

// Outputs of structured kernels called as `.out`: checks dtype and device of the tensor that was passed, resizes it
// with ATen's warning, restrides it when resized, and refuses one whose elements share memory. When the meta function
// fixes strides that a given output does not have, the kernel writes into a proxy, which `finish` copies back. Meta is
// the class from ATen/ops/<op>_meta.h; use:
//
//   struct Exp : Out<at::meta::structured_exp, 1> { using Out::Out; };
//   at::Tensor& exp_out(const at::Tensor& self, at::Tensor& out) {
//     Exp op(out);
//     op.meta(self);              // ATen's own shape, dtype and overlap checks
//     launch(op, ...);            // op.output(0); op itself is the TensorIterator for classes that derive from it
//     op.finish();
//     return out;
//   }
template <class Meta, size_t N>
struct Out : Meta {
  template <class... Tensors>
  explicit Out(Tensors&... outputs) : given_{std::ref(static_cast<const at::Tensor&>(outputs))...} {
    static_assert(sizeof...(Tensors) == N);
  }

  const at::Tensor& output(size_t i) const { return proxies_[i] ? *proxies_[i] : given_[i].get(); }
  const at::Tensor& maybe_get_output(int64_t i) override { return output(static_cast<size_t>(i)); }

  // Copies proxies back to the tensors that the caller gave.
  void finish() {
    for (size_t i = 0; i < N; ++i)
      if (proxies_[i]) given_[i].get().copy_(*proxies_[i]);
  }

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                          at::DimnameList names = {}) override {
    prepare(i, sizes, strides, options, true);
    forward_to_iterator(i, sizes, strides, options, names);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                              at::DimnameList names = {}) override {
    prepare(i, sizes, strides, options, false);
    forward_to_iterator(i, sizes, strides, options, names);
  }
#else
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    prepare(i, sizes, strides, options, true);
    forward_to_iterator(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    prepare(i, sizes, strides, options, false);
    forward_to_iterator(i, sizes, strides, options);
  }
#endif

 private:
  template <class... Names>
  void forward_to_iterator(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                           const Names&... names) {
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>)
      Meta::set_output_raw_strided(i, sizes, strides, options, names...);
  }

  void prepare(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options,
               bool exact_strides) {
    const at::Tensor& out = given_[static_cast<size_t>(i)].get();
    TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                out.dtype(), " instead");
    TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
                out.device(), " instead");
    const bool resized = at::native::resize_output(out, sizes);
    at::assert_no_internal_overlap(out);
    if (resized) {
      if (!strides.empty()) {
        TORCH_INTERNAL_ASSERT(!options.memory_format_opt().has_value());
        out.as_strided_(sizes, strides);
      } else if (options.memory_format_opt().has_value()) {
        out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
      }
    } else if (exact_strides && !strides.empty() && out.strides() != strides) {
      proxies_[static_cast<size_t>(i)] = empty_strided_options(sizes, strides, options);
    }
  }

  std::array<std::reference_wrapper<const at::Tensor>, N> given_;
  std::array<std::optional<at::Tensor>, N> proxies_;
};

// The same for operators that return a new tensor: it is made as the meta function asks. For classes with one output.
template <class Meta>
struct New final : Meta {
  at::Tensor result;
  const at::Tensor& maybe_get_output(int64_t) override { return result; }

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                          at::DimnameList names = {}) override {
    make(i, sizes, strides, options, names);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                              at::DimnameList names = {}) override {
    make(i, sizes, strides, options, names);
  }
#else
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    make(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    make(i, sizes, strides, options);
  }
#endif

 private:
  template <class... Names>
  void make(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options,
            const Names&... names) {
    result = strides.empty() ? empty_like_options(sizes, options, options.memory_format_opt())
                             : empty_strided_options(sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>)
      Meta::set_output_raw_strided(i, sizes, strides, options, names...);
  }
};

}  // namespace ocl::aten
