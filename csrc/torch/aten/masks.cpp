// Operators of masks: what is not zero is numbered by a scan, and written or read in that order.
#include "torch/aten/common.h"
#include "torch/aten/many_dims.h"
#include "ops/index/compact.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/nonzero.h>

namespace ocl::aten {
namespace {

// Places in the flat tensor, taken apart.
at::Tensor& nonzero_of_many_dims(const at::Tensor& mask, at::Tensor& out) {
  at::Tensor place = at::nonzero(mask.view({-1})).flatten();
  const int64_t count = place.size(0);
  if (at::native::resize_output(out, {count, mask.dim()})) out.as_strided_({count, mask.dim()}, {1, count});
  for (int64_t d = mask.dim() - 1; d >= 0; --d) {
    out.select(1, d).copy_(place.remainder(mask.size(d)));
    place = place.div(mask.size(d), "floor");
  }
  return out;
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got ",
              out.scalar_type());
  TORCH_CHECK(self.device() == out.device(), "expected self and out to be on the same device, but got out on ",
              out.device(), " and self on ", self.device());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  const at::Tensor mask = self.contiguous();
  if (too_many_dims(self)) return nonzero_of_many_dims(mask, out);
  ops::Compaction compaction(queue_for(self), view(mask));
  const int64_t count = compaction.count();
  // A new result keeps each coordinate contiguous, as everywhere in ATen: nonzero(as_tuple=True) returns its columns.
  if (at::native::resize_output(out, {count, self.dim()})) out.as_strided_({count, self.dim()}, {1, count});
  compaction.coordinates(view(out), count);
  return out;
}

at::Tensor nonzero(const at::Tensor& self) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return nonzero_out(self, out);
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  at::Tensor out = at::full({size, self.dim()}, fill_value, self.options().dtype(at::kLong));
  const at::Tensor mask = self.contiguous();
  if (too_many_dims(self)) {
    const at::Tensor places = at::nonzero(mask).slice(0, 0, size);
    out.narrow(0, 0, places.size(0)).copy_(places);
  } else if (out.numel() > 0) {
    ops::Compaction(queue_for(self), view(mask)).coordinates(view(out), size);
  }
  return out;
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  TORCH_CHECK(self.device() == mask.device() && self.device() == out.device(),
              "masked_select(): self, mask and result must be on the same device");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const auto [expanded_mask, expanded_self] = at::expand_outplace(mask, self);
  const at::Tensor dense_mask = expanded_mask->contiguous().view({-1}),
                   dense_self = expanded_self->contiguous().view({-1});
  ops::Compaction compaction(queue_for(self), view(dense_mask));
  const int64_t count = compaction.count();
  at::native::resize_output(out, {count});
  const auto dense = contiguous(out);
  compaction.select(moved(*dense), moved(dense_self));
  if (!dense->is_same(out)) out.copy_(*dense);
  return out;
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  at::Tensor out = at::empty({0}, self.options());
  return masked_select_out(self, mask, out);
}

// self[mask] with a mask of the same shape needs no coordinates.
at::Tensor index(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  if (indices.size() == 1 && self.dim() > 0) {
    const std::optional<at::Tensor> mask = indices.get(0);
    if (mask && mask->defined() && mask->scalar_type() == at::kBool && mask->device() == self.device() &&
        mask->sizes() == self.sizes())
      return aten::masked_select(self, *mask);
  }
  return at::compositeexplicitautogradnonfunctional::index(self, indices);
}

at::Tensor& masked_scatter_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  at::assert_no_internal_overlap(self);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  TORCH_CHECK(self.device() == mask.device() && self.device() == source.device(),
              "masked_scatter_: self, mask and source must be on the same device, but got ", self.device(), ", ",
              mask.device(), " and ", source.device());
  if (self.numel() == 0) return self;
  const at::Tensor dense_mask = at::expand_inplace(self, mask, "masked_scatter_")->contiguous().view({-1}),
                   dense_source = source.contiguous().view({-1});
  const auto dense = contiguous(self);
  ops::Compaction(queue_for(self), view(dense_mask)).scatter(moved(dense->view({-1})), moved(dense_source));
  if (!dense->is_same(self)) self.copy_(*dense);
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index.Tensor", index);
  m.impl("nonzero", nonzero);
  m.impl("nonzero.out", nonzero_out);
  m.impl("nonzero_static", nonzero_static);
  m.impl("masked_select", masked_select);
  m.impl("masked_select.out", masked_select_out);
  m.impl("masked_scatter_", masked_scatter_);
}

}  // namespace

}  // namespace ocl::aten
