// Norms, variances and renorm over any dimensions.
#include "torch/aten/reduce.h"
#include "torch/aten/many_dims.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/norm_meta.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/where.h>

namespace ocl::aten {

namespace {

using at::Tensor;
using ops::DimMask;
using ops::Reduction;

// ---- norms

void run_norm(const Tensor& self, double p, DimMask dims, const Tensor& out) {
  Reduction op = Reduction::norm_p;
  if (p == 0) op = Reduction::norm_0;
  if (p == 1) op = Reduction::norm_1;
  if (p == 2) op = Reduction::norm_2;
  if (p == INFINITY) op = Reduction::norm_inf;
  if (p == -INFINITY) op = Reduction::norm_negative_inf;
  run_reduction(op, self, dims, out, p);
}

Tensor& vector_norm_out(const Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dim, bool keepdim,
                        std::optional<at::ScalarType> dtype, Tensor& out) {
  Out<at::meta::structured_linalg_vector_norm, 1> op(out);
  op.meta(self, ord, dim, keepdim, dtype);
  run_norm(self, ord.toDouble(), mask_of(self, dim), op.output(0));
  op.finish();
  return out;
}

Tensor& norm_out(const Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim, bool keepdim,
                 Tensor& out) {
  Out<at::meta::structured_norm_ScalarOpt_dim, 1> op(out);
  op.meta(self, p.has_value() ? at::OptionalScalarRef(*p) : at::OptionalScalarRef(), dim, keepdim);
  at::Tensor result = op.output(0);
  vector_norm_out(self, p.value_or(2.0), dim, keepdim, std::nullopt, result);
  op.finish();
  return out;
}

Tensor& norm_dtype_out(const Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim, bool keepdim,
                       at::ScalarType dtype, Tensor& out) {
  Out<at::meta::structured_norm_ScalarOpt_dim_dtype, 1> op(out);
  op.meta(self, p.has_value() ? at::OptionalScalarRef(*p) : at::OptionalScalarRef(), dim, keepdim, dtype);
  at::Tensor result = op.output(0);
  vector_norm_out(self, p.value_or(2.0), dim, keepdim, dtype, result);
  op.finish();
  return out;
}

// ---- variance

void run_moments(const char* name, const Tensor& self, DimMask dims, const std::optional<at::Scalar>& correction,
                 bool square_root, const Tensor& spread, const Tensor& mean) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), name, " only support floating point and complex dtypes");
  const double minus = correction ? correction->toDouble() : 1.0;
  if (spread.numel() > 0 && static_cast<double>(extent_of(self, dims)) - minus <= 0) {
    TORCH_WARN(name,
               "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input "
               "numel divided by output numel).");
  }
  if (spread.numel() == 0) return;
  const c10::OptionalDeviceGuard guard(spread.device());
  if (too_many_dims(self)) {
    const Tensor flat = at::empty({spread.numel()}, spread.options());
    const Tensor means = mean.defined() ? at::empty({mean.numel()}, mean.options()) : mean;
    run_moments(name, kept_and_reduced(self, dims), 2, correction, square_root, flat, means);
    spread.copy_(flat.view(spread.sizes()));
    if (mean.defined()) mean.copy_(means.view(mean.sizes()));
    return;
  }
  ops::moments(queue_for(spread), view(self), dims, minus, square_root, view(spread),
               mean.defined() ? view(mean) : ops::TensorView{});
}

// Complex: the variances of the parts add up.
void run_spread(const char* name, const Tensor& self, DimMask dims, const std::optional<at::Scalar>& correction,
                bool square_root, const Tensor& spread) {
  if (!self.is_complex()) return run_moments(name, self, dims, correction, square_root, spread, Tensor());
  Tensor imaginary = at::empty(spread.sizes(), spread.options());
  run_moments(name, at::real(self), dims, correction, false, spread, Tensor());
  run_moments(name, at::imag(self), dims, correction, false, imaginary, Tensor());
  spread.add_(imaginary);
  if (square_root) spread.sqrt_();
}

template <bool square_root>
Tensor& spread_out(const Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
                   bool keepdim, Tensor& out) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "std and var only support floating point and complex dtypes");
  const DimMask dims = mask_of(self, dim);
  const bool to_complex = self.is_complex() && out.is_complex();
  TORCH_CHECK(out.is_floating_point() || to_complex, "result type ", self.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, reduced_shape(self, dims, keepdim));
  const at::ScalarType real = c10::toRealValueType(out.scalar_type());
  const Tensor result = to_complex ? at::empty(out.sizes(), out.options().dtype(real)) : out;
  run_spread(square_root ? "std" : "var", self, dims, correction, square_root, result);
  if (to_complex) out.copy_(result);
  return out;
}

template <bool square_root>
Tensor spread(const Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
              bool keepdim) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "std and var only support floating point and complex dtypes");
  Tensor out = new_output(self, mask_of(self, dim), keepdim, c10::toRealValueType(self.scalar_type()));
  return spread_out<square_root>(self, dim, correction, keepdim, out);
}

template <bool square_root>
std::tuple<Tensor, Tensor> spread_mean(const Tensor& self, at::OptionalIntArrayRef dim,
                                       const std::optional<at::Scalar>& correction, bool keepdim) {
  const char* name = square_root ? "std_mean" : "var_mean";
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), name, " only support floating point and complex dtypes");
  const DimMask dims = mask_of(self, dim);
  Tensor spread = new_output(self, dims, keepdim, c10::toRealValueType(self.scalar_type()));
  Tensor mean = new_output(self, dims, keepdim, self.scalar_type());
  if (self.is_complex()) {
    run_spread(name, self, dims, correction, square_root, spread);
    run_reduction(Reduction::mean, self, dims, mean, static_cast<double>(extent_of(self, dims)));
  } else {
    run_moments(name, self, dims, correction, square_root, spread, mean);
  }
  return {spread, mean};
}

Tensor& renorm_out(const Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm, Tensor& out) {
  Out<at::meta::structured_renorm, 1> op(out);
  op.meta(self, p, dim, maxnorm);
  at::DimVector others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != at::maybe_wrap_dim(dim, self.dim())) others.push_back(d);
  const bool half = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  const Tensor norm = at::linalg_vector_norm(self, p, others, true, half ? std::optional(at::kFloat) : std::nullopt);
  const Tensor factor =
      at::where(norm.gt(maxnorm), norm.add(1e-7).reciprocal().mul(maxnorm), at::ones({}, norm.options()));
  at::mul_out(const_cast<Tensor&>(op.output(0)), self, factor);
  op.finish();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_vector_norm.out", vector_norm_out);
  m.impl("norm.out", norm_out);
  m.impl("norm.dtype_out", norm_dtype_out);
  m.impl("std.correction", spread<true>);
  m.impl("std.correction_out", spread_out<true>);
  m.impl("var.correction", spread<false>);
  m.impl("var.correction_out", spread_out<false>);
  m.impl("std_mean.correction", spread_mean<true>);
  m.impl("var_mean.correction", spread_mean<false>);
  m.impl("renorm.out", renorm_out);
}

}  // namespace ocl::aten
