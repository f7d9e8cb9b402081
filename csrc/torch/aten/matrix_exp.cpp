// exp of square matrices.
#include "torch/aten/common.h"

#include <ATen/OpMathType.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include <array>
#include <limits>

namespace ocl::aten {
namespace {

using at::Tensor;

constexpr int degree = 16;
// 1-norms up to which the Taylor polynomial of degree 15 has a backward error below the unit roundoff: Al-Mohy and
// Higham, Computing the action of the matrix exponential (2011), table 3.1.
constexpr double float_bound = 2.2, double_bound = 0.64;

constexpr auto coefficients = [] {
  std::array<double, degree + 1> c{1.0};
  for (int k = 1; k <= degree; ++k) c[k] = c[k - 1] / k;
  return c;
}();

// The Taylor polynomial by Paterson and Stockmeyer's scheme: six products.
Tensor taylor(const Tensor& a) {
  const Tensor a2 = at::matmul(a, a), a3 = at::matmul(a2, a), a4 = at::matmul(a2, a2);
  const auto block = [&](int first) {
    Tensor b = a.mul(coefficients[first + 1]).add_(a2, coefficients[first + 2]).add_(a3, coefficients[first + 3]);
    b.diagonal(0, -2, -1).add_(coefficients[first]);
    return b;
  };
  Tensor sum = block(degree - 4).add_(a4, coefficients[degree]);
  for (int first = degree - 8; first >= 0; first -= 4) sum = at::matmul(sum, a4).add_(block(first));
  return sum;
}

// exp(a) = exp(a / 2^s)^(2^s), s chosen for every matrix of the batch: Higham, Functions of Matrices (2008),
// section 10.3.
Tensor matrix_exp(const Tensor& self) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  if (self.numel() == 0) return at::empty_like(self, at::MemoryFormat::Contiguous);
  if (self.size(-1) == 1) return self.exp();
  const at::ScalarType type = at::toOpMathType(self.scalar_type());
  const Tensor a = self.to(type);
  const Tensor norm = a.abs().sum(-2, /*keepdim=*/true).amax(-1, /*keepdim=*/true), finite = at::isfinite(norm);
  const double bound = c10::toRealValueType(type) == at::kDouble ? double_bound : float_bound;
  const Tensor squarings = at::where(finite, norm.div(bound).log2_().ceil_().clamp_min_(0), 0);
  Tensor result = taylor(a.mul(at::exp2(squarings.neg())));
  const auto most = static_cast<int64_t>(squarings.max().item<double>());
  for (int64_t i = 0; i < most; ++i) result = at::where(squarings.gt(i), at::matmul(result, result), result);
  return result.masked_fill_(finite.logical_not(), std::numeric_limits<double>::quiet_NaN()).to(self.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("linalg_matrix_exp", matrix_exp); }

}  // namespace ocl::aten
