// The minimal set that every PrivateUse1 backend registers: creation, resizing, storage, dense views without a
// composite kernel.
#include "torch/aten/common.h"

#include <ATen/Context.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>

namespace ocl::aten {

namespace {

c10::Allocator* device_allocator() { return c10::GetAllocator(c10::DeviceType::PrivateUse1); }

const c10::DispatchKeySet key_set(c10::DispatchKey::PrivateUse1);

void check_options(c10::optional<at::Layout> layout, c10::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == at::Layout::Strided, "Non strided layout not supported");
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
}

// torch.utils.deterministic.fill_uninitialized_memory
bool fills_uninitialized() {
  return at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory();
}

at::Tensor filled_when_deterministic(at::Tensor tensor) {
  if (fills_uninitialized()) [[unlikely]]
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor empty_memory_format(at::IntArrayRef size, c10::optional<at::ScalarType> dtype,
                               c10::optional<at::Layout> layout, c10::optional<at::Device> device,
                               c10::optional<bool> pin_memory, c10::optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return filled_when_deterministic(
      at::Tensor(at::detail::empty_generic(size, device_allocator(), key_set, c10::dtype_or_default(dtype), format)));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::optional<at::ScalarType> dtype,
                         c10::optional<at::Layout> layout, c10::optional<at::Device> device,
                         c10::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return filled_when_deterministic(at::Tensor(
      at::detail::empty_strided_generic(size, stride, device_allocator(), key_set, c10::dtype_or_default(dtype))));
}

// Zero without memory, for forward-mode derivatives that are known to vanish.
at::Tensor efficient_zero_tensor(at::IntArrayRef size, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout>,
                                 c10::optional<at::Device> device, c10::optional<bool>) {
  at::native::ZeroTensorAllocator allocator(c10::device_or_default(device));
  return at::Tensor(at::detail::empty_generic(size, &allocator,
                                              key_set | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                              c10::dtype_or_default(dtype), std::nullopt));
}

// at::native::resize_ grows the storage with a host memcpy, which a device address does not survive.
const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, c10::optional<at::MemoryFormat> format) {
  at::TensorImpl* implementation = self.unsafeGetTensorImpl();
  const auto old_bytes = static_cast<int64_t>(implementation->unsafe_storage().nbytes());
  if (self.sizes() != size) {
    const c10::DeviceGuard guard(self.device());
    const size_t bytes =
        at::detail::computeStorageNbytesContiguous(size, implementation->itemsize(), implementation->storage_offset());
    implementation->set_sizes_contiguous(size);
    const at::Storage& storage = implementation->unsafe_storage();
    if (implementation->numel() > 0 && bytes > storage.nbytes()) at::native::resize_bytes_nocuda(storage, bytes);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    implementation->empty_tensor_restride(*format);
  }
  if (fills_uninitialized()) [[unlikely]]
    at::native::fill_resize_deterministic_(self, old_bytes);
  return self;
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      c10::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}
at::Tensor view_tensor(const at::Tensor& self, at::IntArrayRef size) { return at::native::view(self, size); }
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}
at::Tensor& set_source(at::Tensor& self, at::Storage source) { return at::native::set_(self, std::move(source)); }
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }

void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == runtime::device_type, "record_stream expects a stream of an ocl device, got ",
              stream);
  void* context = self.storage().data_ptr().get_context();
  if (context) runtime::device(self.device().index()).allocator().record_queue(context, runtime::queue_of(stream));
}

// Checked at once: a wait, but the error names its place.
void assert_async_message(const at::Tensor& condition, std::string_view message) {
  TORCH_CHECK(condition.numel() == 1, "Expected a one-element condition");
  TORCH_CHECK(condition.item().to<bool>(), message);
}
void assert_async(const at::Tensor& condition) {
  assert_async_message(condition, "Expected Tensor with single nonzero value, but got zero");
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", efficient_zero_tensor);
  m.impl("resize_", resize_);
  m.impl("as_strided", as_strided);
  m.impl("view", view_tensor);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_source);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("record_stream", record_stream);
  m.impl("_assert_async", assert_async);
  m.impl("_assert_async.msg", assert_async_message);
}

}  // namespace ocl::aten
