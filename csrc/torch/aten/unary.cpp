// Unary elementwise operators that need more than their row of the table (table_rows.cpp).
#include "torch/aten/element_bits.h"
#include "torch/aten/elementwise_macros.h"

#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/frac_meta.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/polygamma_meta.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/signbit_meta.h>
#include <ATen/ops/trunc_meta.h>
#include <ATen/ops/empty_like.h>

#include <cmath>

namespace ocl::aten {

namespace {

struct bitwise_not_unary final : Out<at::meta::structured_bitwise_not, 1> {
  using Out::Out;
};
at::Tensor& bitwise_not_out(const at::Tensor& self, at::Tensor& out) {
  bitwise_not_unary kernel(out);
  kernel.meta(self);
  // booleans are bytes that hold 0 or 1: only their lowest bit counts
  run(self.scalar_type() == at::kBool ? OCL_ROW("logical_not") : OCL_ROW("bitwise_not"), kernel);
  return out;
}
OCL_UNARY(ceil, "ceil")
OCL_UNARY(floor, "floor")
OCL_UNARY(frac, "frac")
OCL_UNARY(neg, "neg")
OCL_UNARY(round, "round")
OCL_UNARY(sgn, "sgn")
OCL_UNARY(sign, "sign")
OCL_UNARY(trunc, "trunc")
OCL_UNARY_TO_BOOL(isneginf, "isneginf")
OCL_UNARY_TO_BOOL(isposinf, "isposinf")
OCL_UNARY_TO_BOOL(signbit, "signbit")

struct Polygamma final : Out<at::meta::structured_polygamma, 1> {
  using Out::Out;
};
at::Tensor& polygamma_out(int64_t n, const at::Tensor& self, at::Tensor& out) {
  Polygamma kernel(out);
  kernel.meta(n, self);
  if (n == 0)
    run(OCL_ROW("digamma"), kernel);
  else if (n == 1)
    run(OCL_ROW("trigamma"), kernel);
  else
    run(OCL_ROW("polygamma"), kernel,
        {static_cast<double>(n + 1), (n % 2 ? 1.0 : -1.0) * std::tgamma(static_cast<double>(n + 1))});
  return out;
}

struct RoundDecimals final : Out<at::meta::structured_round_decimals, 1> {
  using Out::Out;
};
at::Tensor& round_decimals_out(const at::Tensor& self, int64_t decimals, at::Tensor& out) {
  RoundDecimals kernel(out);
  kernel.meta(self, decimals);
  if (decimals == 0)
    run(OCL_ROW("round"), kernel);
  else
    run(decimals > 0 ? OCL_ROW("round_decimals") : OCL_ROW("round_negative_decimals"), kernel,
        {std::pow(10.0, std::abs(decimals))});
  return out;
}

// ---- operators without a structured kernel: a plain iterator
at::Tensor& unary_into(const char* name, const at::Tensor& self, at::Tensor& out,
                       std::initializer_list<ops::ElementwiseScalar> scalars = {},
                       std::optional<at::ScalarType> compute = std::nullopt) {
  auto iterator = at::TensorIterator::unary_op(out, self);
  run(ops::elementwise_row(name), iterator, scalars, compute);
  return out;
}

// abs and angle of complex numbers are real
at::Tensor& real_valued_into(const char* name, const at::Tensor& self, at::Tensor& out, at::ScalarType result) {
  TORCH_CHECK(at::canCast(result, out.scalar_type()), "result type ", result,
              " can't be cast to the desired output type ", out.scalar_type());
  auto iterator = at::TensorIteratorConfig()
                      .add_output(out)
                      .add_const_input(self)
                      .check_all_same_dtype(false)
                      .resize_outputs(true)
                      .build();
  const at::ScalarType compute =
      self.is_complex() || at::isFloatingType(self.scalar_type()) ? self.scalar_type() : result;
  run(ops::elementwise_row(name), iterator, {}, compute);
  return out;
}

at::Tensor& abs_out(const at::Tensor& self, at::Tensor& out) {
  if (!self.is_complex()) return unary_into("abs", self, out);
  return real_valued_into("abs", self, out,
                          self.is_complex() ? c10::toRealValueType(self.scalar_type()) : self.scalar_type());
}
at::Tensor abs(const at::Tensor& self) {
  at::Tensor out = at::empty_like(
      self, self.options().dtype(self.is_complex() ? c10::toRealValueType(self.scalar_type()) : self.scalar_type()));
  return abs_out(self, out);
}
at::ScalarType angle_type(const at::Tensor& self) {
  if (self.is_complex()) return c10::toRealValueType(self.scalar_type());
  return at::isIntegralType(self.scalar_type(), true) ? c10::typeMetaToScalarType(c10::get_default_dtype())
                                                      : self.scalar_type();
}
at::Tensor& angle_out(const at::Tensor& self, at::Tensor& out) {
  return real_valued_into("angle", self, out, angle_type(self));
}
at::Tensor angle(const at::Tensor& self) {
  at::Tensor out = at::empty_like(self, self.options().dtype(angle_type(self)));
  return angle_out(self, out);
}

at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out) {
  return unary_into(self.is_complex() ? "conj_copy" : "copy", self, out);
}

at::Tensor& conj_physical_(at::Tensor& self) { return self.is_complex() ? aten::conj_physical_out(self, self) : self; }

at::Tensor& logical_not_out(const at::Tensor& self, at::Tensor& out) {
  auto iterator = at::TensorIteratorConfig().check_all_same_dtype(false).add_output(out).add_const_input(self).build();
  run(OCL_ROW("logical_not"), iterator, {}, self.scalar_type());
  return out;
}

at::Tensor isnan(const at::Tensor& self) {
  at::Tensor out = at::empty_like(self, self.options().dtype(at::kBool));
  auto iterator = at::TensorIteratorConfig().check_all_same_dtype(false).add_output(out).add_const_input(self).build();
  run(OCL_ROW("isnan"), iterator, {}, self.scalar_type());
  return out;
}

// Largest and lowest finite value of a floating type.
std::pair<double, double> finite_range(at::ScalarType type) {
  switch (type) {
    case at::kHalf: return {65504.0, -65504.0};
    case at::kBFloat16: return {3.3895313892515355e38, -3.3895313892515355e38};
    case at::kFloat: return {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
    default: return {std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  }
}

at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> positive,
                           std::optional<double> negative, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  const auto [high, low] = finite_range(c10::toRealValueType(self.scalar_type()));
  return unary_into("nan_to_num", self, out, {nan.value_or(0.0), positive.value_or(high), negative.value_or(low)});
}

at::Tensor relu(const at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  at::Tensor out;
  auto iterator = at::TensorIterator::unary_op(out, self);
  run(OCL_ROW("relu"), iterator);
  return iterator.output();
}
at::Tensor& relu_(at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  return unary_into("relu", self, self);
}

// ---- fills
at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  if (only_moved(self.scalar_type())) {
    as_bits(self).fill_(bits_of(value, self.scalar_type()));
    return self;
  }
  if (self.numel() == 0) return self;
  auto iterator = at::TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .check_all_same_dtype(false)
                      .add_output(self)
                      .resize_outputs(false)
                      .build();
  check_convertible(value, self.scalar_type());
  run(OCL_ROW("fill"), iterator, {scalar_of(value)}, self.scalar_type());
  return self;
}
at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (value.device().is_cpu()) return fill_scalar(self, value.item());
  return self.copy_(value.expand(self.sizes()));
}
at::Tensor& zero_(at::Tensor& self) { return fill_scalar(self, 0); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("polygamma.out", polygamma_out);
  m.impl("bitwise_not.out", bitwise_not_out);
  OCL_IMPL(m, ceil, "ceil", "", ".out");
  OCL_IMPL(m, floor, "floor", "", ".out");
  OCL_IMPL(m, frac, "frac", "", ".out");
  OCL_IMPL(m, neg, "neg", "", ".out");
  OCL_IMPL(m, round, "round", "", ".out");
  m.impl("round.decimals_out", round_decimals_out);
  OCL_IMPL(m, sgn, "sgn", "", ".out");
  OCL_IMPL(m, sign, "sign", "", ".out");
  OCL_IMPL(m, trunc, "trunc", "", ".out");
  OCL_IMPL_NEW(m, isneginf, "isneginf", "", ".out");
  OCL_IMPL_NEW(m, isposinf, "isposinf", "", ".out");
  OCL_IMPL_NEW(m, signbit, "signbit", "", ".out");
  m.impl("abs", abs);
  m.impl("abs.out", abs_out);
  m.impl("angle", angle);
  m.impl("angle.out", angle_out);
  m.impl("conj_physical.out", conj_physical_out);
  m.impl("conj_physical_", conj_physical_);
  m.impl("logical_not.out", logical_not_out);
  m.impl("isnan", isnan);
  m.impl("nan_to_num.out", nan_to_num_out);
  m.impl("relu", relu);
  m.impl("relu_", relu_);
  m.impl("fill_.Scalar", fill_scalar);
  m.impl("fill_.Tensor", fill_tensor);
  m.impl("zero_", zero_);
}

}  // namespace ocl::aten
