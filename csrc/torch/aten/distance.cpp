// cdist and pdist: distances between all pairs of rows of two batches. Composed from differences and norms, some rows
// at a time so that the differences stay small; the Euclidean distance of many rows is a matrix product, as on every
// device (_euclidean_dist).
#include "torch/aten/common.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

namespace ocl::aten {
namespace {

using at::Tensor;

constexpr int64_t kDifferenceBytes = int64_t{64} << 20;

// Rows of the first operand whose differences to all rows of the second [batch, rows, columns] fit the budget.
int64_t rows_at_a_time(const Tensor& second) {
  return std::max<int64_t>(
      1, kDifferenceBytes / std::max<int64_t>(1, second.numel() * static_cast<int64_t>(second.element_size())));
}

Tensor cdist_forward(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  TORCH_CHECK(x1.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", x1.dim(), "D");
  TORCH_CHECK(x2.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", x2.dim(), "D");
  TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(at::isFloatingType(x1.scalar_type()),
              "cdist only supports floating-point dtypes, X1 got: ", x1.scalar_type());
  TORCH_CHECK(at::isFloatingType(x2.scalar_type()),
              "cdist only supports floating-point dtypes, X2 got: ", x2.scalar_type());
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = compute_mode.value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  const c10::OptionalDeviceGuard guard(at::device_of(x1));
  const int64_t rows1 = x1.size(-2), rows2 = x2.size(-2), columns = x1.size(-1);
  at::DimVector sizes = at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  const auto with = [&](int64_t rows, int64_t last) {
    at::DimVector result = sizes;
    result.append({rows, last});
    return result;
  };
  if (columns == 0 || rows1 == 0 || rows2 == 0) return at::zeros(with(rows1, rows2), x1.options());
  const Tensor a = x1.expand(with(rows1, columns)), b = x2.expand(with(rows2, columns));
  if (p == 2 && (mode == 1 || (mode == 0 && (rows1 > 25 || rows2 > 25)))) return at::_euclidean_dist(a, b);
  const Tensor result = at::empty(with(rows1, rows2), x1.options());
  const int64_t chunk = rows_at_a_time(b);
  for (int64_t first = 0; first < rows1; first += chunk) {
    const int64_t count = std::min(chunk, rows1 - first);
    const Tensor difference = a.narrow(-2, first, count).unsqueeze(-2) - b.unsqueeze(-3);
    result.narrow(-2, first, count).copy_(at::linalg_vector_norm(difference, p, at::IntArrayRef{-1}));
  }
  return result;
}

// Derivative of the distance with respect to a difference d, distance r: sign(d) |d|^(p-1) / r^(p-1), and 0 where d is
// 0.
Tensor slope(const Tensor& d, const Tensor& r, double p) {
  if (p == 0) return at::zeros_like(d);
  if (p == 1) return d.sgn();
  if (std::isinf(p)) return d.sgn() * d.abs().eq(r);
  const Tensor ratio = p == 2 ? d / r : d.sgn() * (d.abs() / r).pow(p - 1);
  return ratio.masked_fill(d.eq(0), 0);
}

// The gradient of x1; that of x2 is the same with the operands exchanged.
Tensor cdist_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p, const Tensor& distance) {
  const c10::OptionalDeviceGuard guard(at::device_of(x1));
  const int64_t rows1 = x1.size(-2), rows2 = x2.size(-2), columns = x1.size(-1);
  const at::DimVector batch =
      at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  at::DimVector sizes1 = batch, sizes2 = batch;
  sizes1.append({rows1, columns});
  sizes2.append({rows2, columns});
  const Tensor a = x1.expand(sizes1), b = x2.expand(sizes2), result = at::zeros(sizes1, x1.options());
  if (rows2 == 0 || result.numel() == 0) return result;
  const int64_t chunk = rows_at_a_time(b);
  for (int64_t first = 0; first < rows1; first += chunk) {
    const int64_t count = std::min(chunk, rows1 - first);
    const Tensor difference = a.narrow(-2, first, count).unsqueeze(-2) - b.unsqueeze(-3);
    const Tensor part = slope(difference, distance.narrow(-2, first, count).unsqueeze(-1), p) *
                        grad.narrow(-2, first, count).unsqueeze(-1);
    result.narrow(-2, first, count).copy_(part.sum(-2));
  }
  return result;
}

// Places of the pairs i < j in a matrix [rows, rows], row by row.
Tensor pairs(const Tensor& self) {
  const int64_t rows = self.size(0);
  const Tensor indices = at::triu_indices(rows, rows, 1, self.options().dtype(at::kLong));
  return indices[0] * rows + indices[1];
}

// Distances between the rows of one matrix: the upper triangle of cdist.
Tensor pdist_forward(const Tensor& self, double p) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  if (self.size(0) <= 1) return at::empty({0}, self.options());
  return cdist_forward(self, self, p, 2).view(-1).index_select(0, pairs(self));
}

// The same matrix of distances, mirrored: cdist's gradient of one operand then counts both rows of every pair.
Tensor pdist_backward(const Tensor& grad, const Tensor& self, double p, const Tensor& distance) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_backward requires self to be contiguous");
  TORCH_CHECK(distance.is_contiguous(), "_pdist_backward requires pdist to be contiguous");
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const int64_t rows = self.size(0);
  if (rows <= 1 || self.numel() == 0) return at::zeros_like(self);
  const Tensor at = pairs(self);
  const auto mirrored = [&](const Tensor& values) {
    const Tensor upper = at::zeros({rows * rows}, self.options()).index_copy_(0, at, values).view({rows, rows});
    return upper + upper.t();
  };
  return cdist_backward(mirrored(grad), self, self, p, mirrored(distance));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_cdist_forward", cdist_forward);
  m.impl("_cdist_backward", cdist_backward);
  m.impl("_pdist_forward", pdist_forward);
  m.impl("_pdist_backward", pdist_backward);
}

}  // namespace
}  // namespace ocl::aten
