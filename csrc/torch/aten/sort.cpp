// Sorting and selections.
#include "ops/sort/sort.h"

#include "torch/aten/common.h"
#include "torch/aten/many_dims.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/topk_meta.h>

namespace ocl::aten {

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
using PairOut = std::tuple<Tensor&, Tensor&>;

void run_sort(const Tensor& self, int64_t dim, bool descending, const Tensor& values, const Tensor& indices) {
  if (indices.numel() == 0) return;
  if (self.is_complex()) not_implemented_for("sort", self.scalar_type());
  const c10::OptionalDeviceGuard guard(self.device());
  if (too_many_dims(self)) {
    dim = at::maybe_wrap_dim(dim, self.dim());
    return change_around(values, dim, [&](const Tensor& sorted) {
      change_around(indices, dim,
                    [&](const Tensor& order) { run_sort(around(self, dim), 1, descending, sorted, order); });
    });
  }
  ops::sort(queue_for(self), view(self), static_cast<int>(at::maybe_wrap_dim(dim, self.dim())), descending,
            view(values), view(indices));
}

PairOut sort_out(const Tensor& self, std::optional<bool> stable, int64_t dim, bool descending, Tensor& values,
                 Tensor& indices) {
  Out<at::meta::structured_sort_stable, 2> op(values, indices);
  op.meta(self, stable, dim, descending);
  run_sort(self, dim, descending, op.output(0), op.output(1));
  op.finish();
  return {values, indices};
}

PairOut topk_out(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, Tensor& values,
                 Tensor& indices) {
  Out<at::meta::structured_topk, 2> op(values, indices);
  op.meta(self, k, dim, largest, sorted);
  run_sort(self, dim, largest, op.output(0), op.output(1));
  op.finish();
  return {values, indices};
}

// ---- selections: one element per slice

void run_select(ops::Selection selection, const Tensor& self, int64_t dim, int64_t k, bool keepdim, Tensor& values,
                Tensor& indices) {
  if (self.is_complex()) not_implemented_for("median", self.scalar_type());
  at::DimVector shape(self.sizes());
  const bool dropped = self.dim() > 0 && !keepdim;
  if (dropped)
    shape.erase(shape.begin() + dim);
  else if (self.dim() > 0)
    shape[dim] = 1;
  for (const Tensor* out : {&values, &indices}) {
    at::native::resize_output(*out, shape);
    at::assert_no_internal_overlap(*out);
  }
  if (self.numel() == 0) return;
  const auto kept = [&](const Tensor& out) { return dropped ? out.unsqueeze(dim) : out; };
  const c10::OptionalDeviceGuard guard(self.device());
  if (too_many_dims(self)) {
    Tensor value = at::empty({0}, values.options()), place = at::empty({0}, indices.options());
    run_select(selection, around(self, dim), 1, k, false, value, place);
    values.copy_(value.view(shape));
    indices.copy_(place.view(shape));
    return;
  }
  ops::select(queue_for(self), selection, view(self), static_cast<int>(dim), k, view(kept(values)),
              view(kept(indices)));
}

void check_outputs(const Tensor& self, const Tensor& values, const Tensor& indices) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "Expected values tensor to have dtype ", self.scalar_type(),
              ", but got ", values.scalar_type(), " instead");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "Expected indices tensor to have dtype ", at::kLong, ", but got ",
              indices.scalar_type(), " instead");
}

void check_not_empty(const char* name, const Tensor& self, int64_t dim) {
  TORCH_CHECK_INDEX(self.dim() == 0 || self.size(dim) > 0, name, "(): Expected reduction dim ", dim,
                    " to have non-zero size.");
}

template <ops::Selection selection>
PairOut median_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_not_empty("median", self, dim);
  check_outputs(self, values, indices);
  run_select(selection, self, dim, 0, keepdim, values, indices);
  return {values, indices};
}

template <ops::Selection selection>
Tensor median(const Tensor& self) {
  if (self.numel() == 0)
    return at::full({}, std::numeric_limits<double>::quiet_NaN(), self.options().dtype(at::kDouble))
        .to(self.scalar_type());
  Tensor value = at::empty({0}, self.options()), index = at::empty({0}, self.options().dtype(at::kLong));
  run_select(selection, self.reshape({-1}), 0, 0, false, value, index);
  return value;
}

PairOut kthvalue_out(const Tensor& self, int64_t k, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.dim() ? self.size(dim) : 1;
  check_not_empty("kthvalue", self, dim);
  TORCH_CHECK(k >= 1 && k <= n, "kthvalue(): selected number k out of range for dimension ", dim);
  check_outputs(self, values, indices);
  run_select(ops::Selection::kth, self, dim, k, keepdim, values, indices);
  return {values, indices};
}

PairOut mode_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_not_empty("mode", self, dim);
  check_outputs(self, values, indices);
  run_select(ops::Selection::mode, self, dim, 0, keepdim, values, indices);
  return {values, indices};
}

Pair mode(const Tensor& self, int64_t dim, bool keepdim) {
  Tensor values = at::empty({0}, self.options()), indices = at::empty({0}, self.options().dtype(at::kLong));
  mode_out(self, dim, keepdim, values, indices);
  return {values, indices};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using ops::Selection;
  m.impl("sort.values_stable", sort_out);
  m.impl("topk.values", topk_out);
  m.impl("median", median<Selection::median>);
  m.impl("nanmedian", median<Selection::nanmedian>);
  m.impl("median.dim_values", median_out<Selection::median>);
  m.impl("nanmedian.dim_values", median_out<Selection::nanmedian>);
  m.impl("kthvalue.values", kthvalue_out);
  m.impl("mode", mode);
  m.impl("mode.values", mode_out);
}

}  // namespace ocl::aten
