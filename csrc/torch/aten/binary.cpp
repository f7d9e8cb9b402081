// Binary elementwise operators, comparisons and logic.
#include "torch/aten/elementwise_macros.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_left_shift_meta.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_right_shift_meta.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/copysign_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/fmax_meta.h>
#include <ATen/ops/fmin_meta.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/gcd_meta.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/heaviside_meta.h>
#include <ATen/ops/hypot_meta.h>
#include <ATen/ops/lcm_meta.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/logaddexp_meta.h>
#include <ATen/ops/logaddexp2_meta.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/nextafter_meta.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/special_xlog1py_meta.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/xlogy_meta.h>
#include <ATen/ops/complex_native.h>
#include <ATen/ops/polar_native.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/rsub_native.h>

namespace ocl::aten {

namespace {

OCL_BINARY(atan2, atan2, "atan2")
OCL_BINARY(copysign, copysign_Tensor, "copysign")
OCL_BINARY(fmod, fmod_Tensor, "fmod")
OCL_BINARY(remainder, remainder_Tensor, "remainder")
OCL_BINARY(hypot, hypot, "hypot")
OCL_BINARY(gcd, gcd, "gcd")
OCL_BINARY(lcm, lcm, "lcm")
OCL_BINARY(heaviside, heaviside, "heaviside")
OCL_BINARY(logaddexp, logaddexp, "logaddexp")
OCL_BINARY(logaddexp2, logaddexp2, "logaddexp2")
OCL_BINARY(maximum, maximum, "maximum")
OCL_BINARY(minimum, minimum, "minimum")
OCL_BINARY(fmax, fmax, "fmax")
OCL_BINARY(fmin, fmin, "fmin")
OCL_BINARY(xlogy, xlogy_Tensor, "xlogy")
OCL_BINARY(xlog1py, special_xlog1py, "xlog1py")
OCL_BINARY(mul, mul_Tensor, "mul")
OCL_BINARY(div, div_Tensor, "div")
OCL_BINARY(pow, pow_Tensor_Tensor, "pow")
OCL_BINARY(bitwise_and, bitwise_and_Tensor, "bitwise_and")
OCL_BINARY(bitwise_or, bitwise_or_Tensor, "bitwise_or")
OCL_BINARY(bitwise_xor, bitwise_xor_Tensor, "bitwise_xor")
OCL_BINARY(shift_left, bitwise_left_shift_Tensor, "shift_left")
OCL_BINARY(shift_right, bitwise_right_shift_Tensor, "shift_right")
OCL_COMPARE(eq)
OCL_COMPARE(ne)
OCL_COMPARE(lt)
OCL_COMPARE(le)
OCL_COMPARE(gt)
OCL_COMPARE(ge)

// Half types are computed in float32, whose neighbours are not theirs.
struct NextAfterKernel final : Out<at::meta::structured_nextafter, 1> {
  using Out::Out;
};
at::Tensor& nextafter_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  NextAfterKernel kernel(out);
  kernel.meta(self, other);
  const at::ScalarType type = kernel.common_dtype();
  if (!at::isReducedFloatingType(type)) {
    run(OCL_ROW("nextafter"), kernel);
    return out;
  }
  auto bits = [&](const at::Tensor& t) { return t.to(out.device(), type).view(at::kShort); };
  at::Tensor result;
  auto iterator = at::TensorIteratorConfig()
                      .add_output(result)
                      .add_owned_const_input(bits(self))
                      .add_owned_const_input(bits(other))
                      .build();
  run(OCL_ROW("nextafter_bits"), iterator, {ops::ElementwiseScalar(int64_t{type == at::kHalf ? 0x7c00 : 0x7f80})});
  return out.copy_(iterator.output().view(type));
}

// Those with a factor for the second operand.
#define OCL_SCALED(op, run_op)                                                                                      \
  struct op##_scaled final : Out<at::meta::structured_##op##_Tensor, 1> {                                           \
    using Out::Out;                                                                                                 \
  };                                                                                                                \
  at::Tensor& op##_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) { \
    op##_scaled kernel(out);                                                                                        \
    kernel.meta(self, other, alpha);                                                                                \
    run_op(kernel, alpha);                                                                                          \
    return out;                                                                                                     \
  }                                                                                                                 \
  at::Tensor op##_new(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {                   \
    New<at::meta::structured_##op##_Tensor> kernel;                                                                 \
    kernel.meta(self, other, alpha);                                                                                \
    run_op(kernel, alpha);                                                                                          \
    return std::move(kernel.result);                                                                                \
  }                                                                                                                 \
  at::Tensor& op##_in_place(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {                   \
    return ocl::aten::op##_out(self, other, alpha, self);                                                           \
  }

void run_add(at::TensorIteratorBase& iterator, const at::Scalar& alpha) {
  if (alpha.equal(1))
    run(OCL_ROW("add"), iterator);
  else
    run(OCL_ROW("add_alpha"), iterator, {scalar_of(alpha)});
}
void run_sub(at::TensorIteratorBase& iterator, const at::Scalar& alpha) {
  if (alpha.equal(1))
    run(OCL_ROW("sub"), iterator);
  else
    run(OCL_ROW("add_alpha"), iterator, {scalar_of(-alpha)});
}
OCL_SCALED(add, run_add)
OCL_SCALED(sub, run_sub)

// relu(self + alpha * other), floating types
at::Tensor& add_relu_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  auto iterator = at::TensorIterator::binary_op(out, self, other);
  run(OCL_ROW("add_relu"), iterator, {scalar_of(alpha)});
  return out;
}
at::Tensor add_relu(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  at::Tensor out;
  auto iterator = at::TensorIterator::binary_op(out, self, other);
  run(OCL_ROW("add_relu"), iterator, {scalar_of(alpha)});
  return iterator.output();
}

struct DivModeKernel final : Out<at::meta::structured_div_Tensor_mode, 1> {
  using Out::Out;
};
at::Tensor& div_mode_out(const at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> mode,
                         at::Tensor& out) {
  DivModeKernel kernel(out);
  kernel.meta(self, other, mode);
  if (!mode)
    run(OCL_ROW("div"), kernel);
  else if (*mode == "trunc")
    run(OCL_ROW("div_trunc"), kernel);
  else
    run(OCL_ROW("div_floor"), kernel);
  return out;
}

at::Tensor& floor_divide_into(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  auto iterator = at::TensorIterator::binary_op(out, self, other);
  run(OCL_ROW("div_floor"), iterator);
  return out;
}
at::Tensor floor_divide(const at::Tensor& self, const at::Tensor& other) {
  at::Tensor out;
  auto iterator = at::TensorIterator::binary_op(out, self, other);
  run(OCL_ROW("div_floor"), iterator);
  return iterator.output();
}
at::Tensor& floor_divide_(at::Tensor& self, const at::Tensor& other) {
  return ocl::aten::floor_divide_into(self, other, self);
}

struct PowScalarKernel final : Out<at::meta::structured_pow_Tensor_Scalar, 1> {
  using Out::Out;
};
at::Tensor& pow_tensor_scalar_out(const at::Tensor& self, const at::Scalar& exponent, at::Tensor& out) {
  PowScalarKernel kernel(out);
  kernel.meta(self, exponent);
  if (exponent.equal(0.0)) return out.fill_(1);
  if (exponent.equal(1.0)) return out.copy_(self);
  if (exponent.equal(2.0))
    run(OCL_ROW("pow_2"), kernel);
  else if (exponent.equal(3.0))
    run(OCL_ROW("pow_3"), kernel);
  else if (exponent.equal(0.5) && !at::isIntegralType(kernel.common_dtype(), true))
    run(OCL_ROW("sqrt"), kernel);
  else
    check_convertible(exponent, kernel.common_dtype()), run(OCL_ROW("pow_scalar"), kernel, {scalar_of(exponent)});
  return out;
}

struct PowBaseKernel final : Out<at::meta::structured_pow_Scalar, 1> {
  using Out::Out;
};
at::Tensor& pow_scalar_out(const at::Scalar& base, const at::Tensor& exponent, at::Tensor& out) {
  PowBaseKernel kernel(out);
  kernel.meta(base, exponent);
  if (base.equal(1.0)) return out.fill_(1);
  return at::pow_out(out, at::native::wrapped_scalar_tensor(base), exponent);
}

// ---- logic: any dtypes, boolean result (or the dtype of out=)
at::Tensor& logical_out(const char* name, const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  auto iterator = at::TensorIterator::comparison_op(out, self, other);
  run(ops::elementwise_row(name), iterator);
  return out;
}
at::Tensor& logical_and_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return logical_out("logical_and", self, other, out);
}
at::Tensor& logical_or_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return logical_out("logical_or", self, other, out);
}
at::Tensor& logical_xor_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return logical_out("logical_xor", self, other, out);
}

// ATen checks the operands and calls these.
void complex_kernel(at::TensorIterator& iterator) { run(OCL_ROW("complex"), iterator, {}, iterator.dtype(0)); }
void polar_kernel(at::TensorIterator& iterator) {
  const at::Tensor parts = at::view_as_real(iterator.tensor(0));
  const auto write = [&](const ops::ElementwiseRow& row, int64_t part) {
    const at::Tensor out = parts.select(-1, part);
    auto one = at::TensorIteratorConfig()
                   .set_check_mem_overlap(false)
                   .resize_outputs(false)
                   .add_output(out)
                   .add_const_input(iterator.tensor(1))
                   .add_const_input(iterator.tensor(2))
                   .build();
    run(row, one);
  };
  write(OCL_ROW("polar_real"), 0);
  write(OCL_ROW("polar_imaginary"), 1);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_IMPL(m, atan2, "atan2", "", ".out");
  OCL_IMPL(m, copysign, "copysign", ".Tensor", ".out");
  OCL_IMPL(m, fmod, "fmod", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, remainder, "remainder", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, hypot, "hypot", "", ".out");
  m.impl("nextafter.out", nextafter_out);
  OCL_IMPL(m, gcd, "gcd", "", ".out");
  OCL_IMPL(m, lcm, "lcm", "", ".out");
  OCL_IMPL(m, heaviside, "heaviside", "", ".out");
  OCL_IMPL_NEW(m, logaddexp, "logaddexp", "", ".out");
  OCL_IMPL_NEW(m, logaddexp2, "logaddexp2", "", ".out");
  OCL_IMPL_NEW(m, maximum, "maximum", "", ".out");
  OCL_IMPL_NEW(m, minimum, "minimum", "", ".out");
  OCL_IMPL_NEW(m, fmax, "fmax", "", ".out");
  OCL_IMPL_NEW(m, fmin, "fmin", "", ".out");
  OCL_IMPL(m, xlogy, "xlogy", ".Tensor", ".OutTensor");
  OCL_IMPL_NEW(m, xlog1py, "special_xlog1py", "", ".out");
  OCL_IMPL(m, mul, "mul", ".Tensor", ".out");
  OCL_IMPL(m, div, "div", ".Tensor", ".out");
  OCL_IMPL_NEW(m, pow, "pow", ".Tensor_Tensor", ".Tensor_Tensor_out");
  OCL_IMPL(m, bitwise_and, "bitwise_and", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, bitwise_or, "bitwise_or", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, bitwise_xor, "bitwise_xor", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, shift_left, "bitwise_left_shift", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, shift_right, "bitwise_right_shift", ".Tensor", ".Tensor_out");
  m.impl("__lshift__.Tensor",
         [](const at::Tensor& self, const at::Tensor& other) { return at::bitwise_left_shift(self, other); });
  m.impl("__lshift__.Scalar",
         [](const at::Tensor& self, const at::Scalar& other) { return at::bitwise_left_shift(self, other); });
  m.impl("__rshift__.Tensor",
         [](const at::Tensor& self, const at::Tensor& other) { return at::bitwise_right_shift(self, other); });
  m.impl("__rshift__.Scalar",
         [](const at::Tensor& self, const at::Scalar& other) { return at::bitwise_right_shift(self, other); });
  m.impl("__ilshift__.Tensor",
         [](at::Tensor& self, const at::Tensor& other) -> at::Tensor& { return self.bitwise_left_shift_(other); });
  m.impl("__ilshift__.Scalar",
         [](at::Tensor& self, const at::Scalar& other) -> at::Tensor& { return self.bitwise_left_shift_(other); });
  m.impl("__irshift__.Tensor",
         [](at::Tensor& self, const at::Tensor& other) -> at::Tensor& { return self.bitwise_right_shift_(other); });
  m.impl("__irshift__.Scalar",
         [](at::Tensor& self, const at::Scalar& other) -> at::Tensor& { return self.bitwise_right_shift_(other); });
  OCL_IMPL(m, eq_tensor, "eq", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, eq_scalar, "eq", ".Scalar", ".Scalar_out");
  OCL_IMPL(m, ne_tensor, "ne", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, ne_scalar, "ne", ".Scalar", ".Scalar_out");
  OCL_IMPL(m, lt_tensor, "lt", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, lt_scalar, "lt", ".Scalar", ".Scalar_out");
  OCL_IMPL(m, le_tensor, "le", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, le_scalar, "le", ".Scalar", ".Scalar_out");
  OCL_IMPL(m, gt_tensor, "gt", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, gt_scalar, "gt", ".Scalar", ".Scalar_out");
  OCL_IMPL(m, ge_tensor, "ge", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, ge_scalar, "ge", ".Scalar", ".Scalar_out");
  OCL_IMPL(m, add, "add", ".Tensor", ".out");
  m.impl("_add_relu.out", add_relu_out);
  m.impl("_add_relu.Tensor", add_relu);
  OCL_IMPL(m, sub, "sub", ".Tensor", ".out");
  m.impl("div.out_mode", div_mode_out);
  m.impl("floor_divide", floor_divide);
  m.impl("floor_divide.out", floor_divide_into);
  m.impl("floor_divide_.Tensor", floor_divide_);
  m.impl("pow.Tensor_Scalar_out", pow_tensor_scalar_out);
  m.impl("pow_.Tensor", pow_in_place);
  m.impl("pow.Scalar_out", pow_scalar_out);
  m.impl("logical_and.out", logical_and_out);
  m.impl("logical_or.out", logical_or_out);
  m.impl("logical_xor.out", logical_xor_out);
  m.impl("complex.out", at::native::complex_out);
  m.impl("polar.out", at::native::polar_out);
  m.impl("rsub.Tensor", [](const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
    return at::native::rsub(self, other, alpha);
  });
  m.impl("remainder.Scalar_Tensor", [](const at::Scalar& self, const at::Tensor& other) {
    return at::remainder(at::native::wrapped_scalar_tensor(self), other);
  });
}

}  // namespace ocl::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(complex_stub, &ocl::aten::complex_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(polar_stub, &ocl::aten::polar_kernel)

}  // namespace at::native
