// Distinct values and distinct slices.
#include "ops/sort/sort.h"

#include "torch/aten/common.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>

#include <algorithm>

namespace ocl::aten {

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

// Distinct values of `v` (one dimension, equal values adjacent); order[i] is where v[i] came from, or undefined.
Triple distinct(const Tensor& v, const Tensor& order, at::IntArrayRef shape, bool return_inverse, bool return_counts) {
  const c10::OptionalDeviceGuard guard(v.device());
  const at::TensorOptions longs = v.options().dtype(at::kLong);
  Tensor group = at::empty_like(v, longs);
  Queue& queue = queue_for(v);
  const int64_t groups = ops::group_equal(queue, view(v), address(group));
  Tensor values = at::empty({groups}, v.options());
  Tensor inverse = at::empty(return_inverse ? shape : at::IntArrayRef({0}), longs);
  Tensor counts = at::empty({return_counts ? groups : 0}, longs);
  ops::write_groups(queue, view(v), address(group), address(order), groups, address(values),
                    return_inverse ? address(inverse) : nullptr, return_counts ? address(counts) : nullptr);
  return {values, inverse, counts};
}

Triple unique2(const Tensor& self, bool sorted, bool return_inverse, bool return_counts) {
  if (self.is_complex()) not_implemented_for("unique", self.scalar_type());
  const Tensor flat = self.reshape({-1});
  Tensor v = at::empty_like(flat, at::MemoryFormat::Contiguous),
         order = at::empty(flat.sizes(), flat.options().dtype(at::kLong));
  at::sort_out(v, order, flat, true, 0, false);
  return distinct(v, order, self.sizes(), return_inverse, return_counts);
}

Pair unique(const Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}

// ---- slices

// The permutation that sorts rows lexicographically: stable sorts by one column after the other, the first column last.
Tensor lexicographic_order(const Tensor& rows) {
  Tensor order = at::arange(rows.size(0), rows.options().dtype(at::kLong));
  for (int64_t c = rows.size(1) - 1; c >= 0; --c) {
    const Tensor column = rows.select(1, c).index_select(0, order);
    order = order.index_select(0, std::get<1>(column.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false)));
  }
  return order;
}

// Slices of `self` along `dim`, equal ones adjacent once they are taken in `order` (undefined: as they lie).
Triple distinct_slices(const Tensor& self, int64_t dim, const Tensor& order, const Tensor& rows) {
  const Tensor sorted = order.defined() ? rows.index_select(0, order) : rows;
  const int64_t n = sorted.size(0);
  const Tensor changes = sorted.narrow(0, 1, n - 1).ne(sorted.narrow(0, 0, n - 1)).any(1);
  const Tensor begins = at::cat({at::ones({1}, changes.options()), changes});
  const auto [groups, inverse, counts] = distinct(begins.cumsum(0), order, {n}, true, true);
  Tensor first = begins.nonzero().squeeze(1);
  if (order.defined()) first = order.index_select(0, first);
  return {self.movedim(dim, 0).index_select(0, first).movedim(0, dim), inverse, counts};  // laid out as on the CPU
}

// The result when there is no slice.
std::optional<Triple> without_slices(const Tensor& self, int64_t dim) {
  const auto empty_dims = std::count(self.sizes().begin(), self.sizes().end(), 0);
  if (self.size(dim) != 0) {
    TORCH_CHECK(empty_dims == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    return std::nullopt;
  }
  TORCH_CHECK(empty_dims == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
  const at::TensorOptions longs = self.options().dtype(at::kLong);
  return Triple{at::empty(self.sizes(), self.options()), at::empty({0}, longs), at::empty({0}, longs)};
}

Tensor as_rows(const Tensor& self, int64_t dim) { return self.movedim(dim, 0).reshape({self.size(dim), -1}); }

Triple unique_dim(const Tensor& self, int64_t dim, bool sorted, bool return_inverse, bool return_counts) {
  if (self.is_complex()) not_implemented_for("unique_dim", self.scalar_type());
  const c10::OptionalDeviceGuard guard(self.device());
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (const auto empty = without_slices(self, dim)) return *empty;
  const Tensor rows = as_rows(self, dim);
  return distinct_slices(self, dim, lexicographic_order(rows), rows);
}

Triple consecutive_slices(const Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  if (self.is_complex()) not_implemented_for("unique_dim", self.scalar_type());
  const c10::OptionalDeviceGuard guard(self.device());
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (const auto empty = without_slices(self, dim)) return *empty;
  return distinct_slices(self, dim, Tensor(), as_rows(self, dim));
}

Triple unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  if (dim.has_value() && !(*dim == 0 && self.dim() == 1))
    return consecutive_slices(self, *dim, return_inverse, return_counts);
  if (self.is_complex()) not_implemented_for("unique", self.scalar_type());
  return distinct(self.reshape({-1}).contiguous(), Tensor(), self.sizes(), return_inverse, return_counts);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique2", unique2);
  m.impl("_unique", unique);
  m.impl("unique_dim", unique_dim);
  m.impl("unique_dim_consecutive", consecutive_slices);
  m.impl("unique_consecutive", unique_consecutive);
}

}  // namespace ocl::aten
