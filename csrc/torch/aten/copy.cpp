// Copies between devices, dtypes and layouts; casts; conjugate and negative bits.
#include "torch/aten/elementwise.h"
#include "ops/core/copy_bytes.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/native/Copy.h>
#include <ATen/ops/_copy_from_and_resize_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

namespace ocl::aten {

namespace {

bool on_device(const at::Tensor& t) { return t.device().type() == runtime::device_type; }

// Same dtype, sizes and dense layout, so that bytes can be moved as they are.
bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg() &&
         same_layout(a, b) && a.is_non_overlapping_and_dense();
}

void copy_on_device(const at::Tensor& self, const at::Tensor& source) {
  Queue& queue = queue_for(self);
  if (same_bytes(self, source)) {
    at::assert_no_partial_overlap(self, source);
    if (self.data_ptr() != source.data_ptr()) ops::copy_bytes(queue, self.data_ptr(), source.data_ptr(), self.nbytes());
    return;
  }
  auto iterator = at::TensorIteratorConfig()
                      .add_output(self)
                      .add_const_input(source)
                      .resize_outputs(false)
                      .check_all_same_dtype(false)
                      .check_all_same_device(true)
                      .build();
  const bool conjugate = self.is_conj() != source.is_conj() && source.is_complex() && self.is_complex();
  const bool negative = self.is_neg() != source.is_neg();
  static const auto& copy = ops::elementwise_row("copy");
  static const auto& neg = ops::elementwise_row("neg");
  static const auto& conj = ops::elementwise_row("conj_copy");
  static const auto& conj_neg = ops::elementwise_row("conj_neg_copy");
  const auto& row = conjugate ? (negative ? conj_neg : conj) : (negative ? neg : copy);
  run(row, iterator, {}, source.scalar_type(), "copy_");  // the store converts
}

// The pinned block is given to others only after the copy that was just issued.
void keep_until_copied(const at::Tensor& pinned, const Queue& queue) {
  if (queue.capture()) return;  // a graph reads or writes it at every replay: the user keeps it
  const c10::DataPtr& data = pinned.storage().data_ptr();
  at::getHostAllocator(at::kPrivateUse1)->record_event(data.get(), data.get_context(), runtime::stream_of(queue));
}

void copy_from_host(const at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const at::Tensor host = source.to(self.scalar_type()).resolve_conj().resolve_neg().expand(self.sizes());
  if (self.is_non_overlapping_and_dense() && !self.is_conj() && !self.is_neg()) {
    // Bring the host data into the device tensor's own layout.
    at::Tensor staged = host;
    if (host.strides() != self.strides()) {
      staged = at::empty_strided(self.sizes(), self.strides(), host.options());
      staged.copy_(host);
    }
    const bool keep = non_blocking && source.is_pinned() && staged.data_ptr() == source.data_ptr();
    Queue& queue = queue_for(self);
    queue.write(self.data_ptr(), staged.const_data_ptr(), self.nbytes(), !keep);
    if (keep) keep_until_copied(source, queue);
    return;
  }
  const at::Tensor staged = empty_like_options(self.sizes(), self.options());
  const at::Tensor dense = host.contiguous();
  queue_for(self).write(staged.data_ptr(), dense.const_data_ptr(), staged.nbytes());
  copy_on_device(self, staged);
}

void copy_to_host(const at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  Queue& queue = queue_for(source);
  if (same_bytes(self, source)) {
    const bool keep = non_blocking && self.is_pinned();
    if (keep) {
      queue.read(self.data_ptr(), source.data_ptr(), self.nbytes(), false);
      keep_until_copied(self, queue);
    } else {
      runtime::read(queue, self.data_ptr(), source.data_ptr(), self.nbytes());
    }
    return;
  }
  // Cast and gather on the device, then move bytes.
  at::Tensor staged = source;
  if (source.scalar_type() != self.scalar_type() || !source.is_non_overlapping_and_dense() || source.is_conj() ||
      source.is_neg()) {
    staged = at::empty(self.sizes(), source.options().dtype(self.scalar_type()));
    copy_on_device(staged, source.expand(self.sizes()));
  }
  at::Tensor host = at::empty_strided(staged.sizes(), staged.strides(), staged.options().device(at::kCPU));
  runtime::read(queue, host.data_ptr(), staged.data_ptr(), host.nbytes());
  self.copy_(host);
}

void copy_between_devices(const at::Tensor& self, const at::Tensor& source) {
  // Contexts of different platforms share no buffers: through the host.
  at::Tensor host = at::empty(source.sizes(), source.options().device(at::kCPU));
  copy_to_host(host, source, false);
  const c10::DeviceGuard guard(self.device());
  copy_from_host(self, host, false);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  TORCH_INTERNAL_ASSERT(self.defined() && destination.defined());
  if (destination.numel() == 0 || self.is_same(destination)) return destination;
  for (const at::Tensor* tensor : {&self, &destination}) runtime::check_memory(*tensor);  // that of the CPU as well
  if (self.is_complex() && !destination.is_complex()) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
  const at::Tensor source = self.sizes() == destination.sizes() ? self : self.expand(destination.sizes());
  const c10::DeviceGuard guard(on_device(destination) ? destination.device() : source.device());
  if (on_device(destination) && on_device(source)) {
    if (destination.device() == source.device())
      copy_on_device(destination, source);
    else
      copy_between_devices(destination, source);
  } else if (on_device(destination)) {
    TORCH_CHECK(source.device().is_cpu(), "cannot copy from ", source.device(), " to ", destination.device());
    copy_from_host(destination, source, non_blocking);
  } else {
    TORCH_CHECK(destination.device().is_cpu(), "cannot copy from ", source.device(), " to ", destination.device());
    copy_to_host(destination, source, non_blocking);
  }
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination) {
  if (self.sizes() != destination.sizes()) {
    destination.resize_(self.sizes());
    if (self.is_non_overlapping_and_dense())
      destination.as_strided_(self.sizes(), self.strides());  // the layout that the CPU chose
  }
  // The fallback wrote through an alias of this very memory.
  if (self.device().is_cpu() && self.numel() > 0 && self.data_ptr() == destination.data_ptr()) return destination;
  return copy_from(self, destination, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  at::Tensor host = at::empty({1}, self.options().device(at::kCPU));
  runtime::read(queue_for(self), host.data_ptr(), address(self), host.nbytes());
  at::Scalar value = host.item();
  return value;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

// Without these, copying a conjugated or negated tensor would resolve the bit by a copy, for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace ocl::aten
