// Binary elementwise operators, comparisons and logic.
#include "aten/elementwise_macros.h"

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

OCL_BINARY(atan2_out, atan2, "atan2")
OCL_BINARY(copysign_out, copysign_Tensor, "copysign")
OCL_BINARY(fmod_out, fmod_Tensor, "fmod")
OCL_BINARY(remainder_out, remainder_Tensor, "remainder")
OCL_BINARY(hypot_out, hypot, "hypot")
OCL_BINARY(gcd_out, gcd, "gcd")
OCL_BINARY(lcm_out, lcm, "lcm")
OCL_BINARY(heaviside_out, heaviside, "heaviside")
OCL_BINARY(logaddexp_out, logaddexp, "logaddexp")
OCL_BINARY(logaddexp2_out, logaddexp2, "logaddexp2")
OCL_BINARY(maximum_out, maximum, "maximum")
OCL_BINARY(minimum_out, minimum, "minimum")
OCL_BINARY(fmax_out, fmax, "fmax")
OCL_BINARY(fmin_out, fmin, "fmin")
OCL_BINARY(xlogy_out, xlogy_Tensor, "xlogy")
OCL_BINARY(xlog1py_out, special_xlog1py, "xlog1py")
OCL_BINARY(mul_out, mul_Tensor, "mul")
OCL_BINARY(div_out, div_Tensor, "div")
OCL_BINARY(pow_out, pow_Tensor_Tensor, "pow")
OCL_BINARY(bitwise_and_out, bitwise_and_Tensor, "bitwise_and")
OCL_BINARY(bitwise_or_out, bitwise_or_Tensor, "bitwise_or")
OCL_BINARY(bitwise_xor_out, bitwise_xor_Tensor, "bitwise_xor")
OCL_BINARY(shift_left_out, bitwise_left_shift_Tensor, "shift_left")
OCL_BINARY(shift_right_out, bitwise_right_shift_Tensor, "shift_right")
OCL_COMPARE(eq)
OCL_COMPARE(ne)
OCL_COMPARE(lt)
OCL_COMPARE(le)
OCL_COMPARE(gt)
OCL_COMPARE(ge)

// Half types are computed in float32, whose neighbours are not theirs.
struct NextAfterKernel final : Out<at::meta::structured_nextafter, 1> { using Out::Out; };
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
  auto iterator = at::TensorIteratorConfig().add_output(result).add_owned_const_input(bits(self)).add_owned_const_input(bits(other)).build();
  run(OCL_ROW("nextafter_bits"), iterator, {ops::ElementwiseScalar(int64_t{type == at::kHalf ? 0x7c00 : 0x7f80})});
  return out.copy_(iterator.output().view(type));
}

struct AddKernel final : Out<at::meta::structured_add_Tensor, 1> { using Out::Out; };
at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  AddKernel kernel(out);
  kernel.meta(self, other, alpha);
  if (alpha.equal(1)) run(OCL_ROW("add"), kernel);
  else run(OCL_ROW("add_alpha"), kernel, {scalar_of(alpha)});
  return out;
}

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

struct SubKernel final : Out<at::meta::structured_sub_Tensor, 1> { using Out::Out; };
at::Tensor& sub_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  SubKernel kernel(out);
  kernel.meta(self, other, alpha);
  if (alpha.equal(1)) run(OCL_ROW("sub"), kernel);
  else run(OCL_ROW("add_alpha"), kernel, {scalar_of(-alpha)});
  return out;
}

struct DivModeKernel final : Out<at::meta::structured_div_Tensor_mode, 1> { using Out::Out; };
at::Tensor& div_mode_out(const at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> mode, at::Tensor& out) {
  DivModeKernel kernel(out);
  kernel.meta(self, other, mode);
  if (!mode) run(OCL_ROW("div"), kernel);
  else if (*mode == "trunc") run(OCL_ROW("div_trunc"), kernel);
  else run(OCL_ROW("div_floor"), kernel);
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
at::Tensor& floor_divide_(at::Tensor& self, const at::Tensor& other) { return ocl::aten::floor_divide_into(self, other, self); }

struct PowScalarKernel final : Out<at::meta::structured_pow_Tensor_Scalar, 1> { using Out::Out; };
at::Tensor& pow_tensor_scalar_out(const at::Tensor& self, const at::Scalar& exponent, at::Tensor& out) {
  PowScalarKernel kernel(out);
  kernel.meta(self, exponent);
  if (exponent.equal(0.0)) return out.fill_(1);
  if (exponent.equal(1.0)) return out.copy_(self);
  if (exponent.equal(2.0)) run(OCL_ROW("pow_2"), kernel);
  else if (exponent.equal(3.0)) run(OCL_ROW("pow_3"), kernel);
  else if (exponent.equal(0.5) && !at::isIntegralType(kernel.common_dtype(), true)) run(OCL_ROW("sqrt"), kernel);
  else check_convertible(exponent, kernel.common_dtype()), run(OCL_ROW("pow_scalar"), kernel, {scalar_of(exponent)});
  return out;
}

struct PowBaseKernel final : Out<at::meta::structured_pow_Scalar, 1> { using Out::Out; };
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
at::Tensor& logical_and_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) { return logical_out("logical_and", self, other, out); }
at::Tensor& logical_or_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) { return logical_out("logical_or", self, other, out); }
at::Tensor& logical_xor_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) { return logical_out("logical_xor", self, other, out); }

// ATen checks the operands and calls these.
void complex_kernel(at::TensorIterator& iterator) { run(OCL_ROW("complex"), iterator, {}, iterator.dtype(0)); }
void polar_kernel(at::TensorIterator& iterator) {
  const at::Tensor parts = at::view_as_real(iterator.tensor(0));
  const auto write = [&](const ops::ElementwiseRow& row, int64_t part) {
    const at::Tensor out = parts.select(-1, part);
    auto one = at::TensorIteratorConfig().set_check_mem_overlap(false).resize_outputs(false).add_output(out).add_const_input(iterator.tensor(1))
                   .add_const_input(iterator.tensor(2)).build();
    run(row, one);
  };
  write(OCL_ROW("polar_real"), 0);
  write(OCL_ROW("polar_imaginary"), 1);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("atan2.out", atan2_out);
  m.impl("copysign.out", copysign_out);
  m.impl("fmod.Tensor_out", fmod_out);
  m.impl("remainder.Tensor_out", remainder_out);
  m.impl("hypot.out", hypot_out);
  m.impl("nextafter.out", nextafter_out);
  m.impl("gcd.out", gcd_out);
  m.impl("lcm.out", lcm_out);
  m.impl("heaviside.out", heaviside_out);
  m.impl("logaddexp.out", logaddexp_out);
  m.impl("logaddexp2.out", logaddexp2_out);
  m.impl("maximum.out", maximum_out);
  m.impl("minimum.out", minimum_out);
  m.impl("fmax.out", fmax_out);
  m.impl("fmin.out", fmin_out);
  m.impl("xlogy.OutTensor", xlogy_out);
  m.impl("special_xlog1py.out", xlog1py_out);
  m.impl("mul.out", mul_out);
  m.impl("div.out", div_out);
  m.impl("pow.Tensor_Tensor_out", pow_out);
  m.impl("bitwise_and.Tensor_out", bitwise_and_out);
  m.impl("bitwise_or.Tensor_out", bitwise_or_out);
  m.impl("bitwise_xor.Tensor_out", bitwise_xor_out);
  m.impl("bitwise_left_shift.Tensor_out", shift_left_out);
  m.impl("bitwise_right_shift.Tensor_out", shift_right_out);
  m.impl("__lshift__.Tensor", [](const at::Tensor& self, const at::Tensor& other) { return at::bitwise_left_shift(self, other); });
  m.impl("__lshift__.Scalar", [](const at::Tensor& self, const at::Scalar& other) { return at::bitwise_left_shift(self, other); });
  m.impl("__rshift__.Tensor", [](const at::Tensor& self, const at::Tensor& other) { return at::bitwise_right_shift(self, other); });
  m.impl("__rshift__.Scalar", [](const at::Tensor& self, const at::Scalar& other) { return at::bitwise_right_shift(self, other); });
  m.impl("__ilshift__.Tensor", [](at::Tensor& self, const at::Tensor& other) -> at::Tensor& { return self.bitwise_left_shift_(other); });
  m.impl("__ilshift__.Scalar", [](at::Tensor& self, const at::Scalar& other) -> at::Tensor& { return self.bitwise_left_shift_(other); });
  m.impl("__irshift__.Tensor", [](at::Tensor& self, const at::Tensor& other) -> at::Tensor& { return self.bitwise_right_shift_(other); });
  m.impl("__irshift__.Scalar", [](at::Tensor& self, const at::Scalar& other) -> at::Tensor& { return self.bitwise_right_shift_(other); });
  m.impl("eq.Tensor_out", eq_tensor_out);
  m.impl("eq.Scalar_out", eq_scalar_out);
  m.impl("ne.Tensor_out", ne_tensor_out);
  m.impl("ne.Scalar_out", ne_scalar_out);
  m.impl("lt.Tensor_out", lt_tensor_out);
  m.impl("lt.Scalar_out", lt_scalar_out);
  m.impl("le.Tensor_out", le_tensor_out);
  m.impl("le.Scalar_out", le_scalar_out);
  m.impl("gt.Tensor_out", gt_tensor_out);
  m.impl("gt.Scalar_out", gt_scalar_out);
  m.impl("ge.Tensor_out", ge_tensor_out);
  m.impl("ge.Scalar_out", ge_scalar_out);
  m.impl("add.out", add_out);
  m.impl("_add_relu.out", add_relu_out);
  m.impl("_add_relu.Tensor", add_relu);
  m.impl("sub.out", sub_out);
  m.impl("div.out_mode", div_mode_out);
  m.impl("floor_divide", floor_divide);
  m.impl("floor_divide.out", floor_divide_into);
  m.impl("floor_divide_.Tensor", floor_divide_);
  m.impl("pow.Tensor_Scalar_out", pow_tensor_scalar_out);
  m.impl("pow.Scalar_out", pow_scalar_out);
  m.impl("logical_and.out", logical_and_out);
  m.impl("logical_or.out", logical_or_out);
  m.impl("logical_xor.out", logical_xor_out);
  m.impl("complex.out", at::native::complex_out);
  m.impl("polar.out", at::native::polar_out);
  m.impl("rsub.Tensor", [](const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) { return at::native::rsub(self, other, alpha); });
  m.impl("remainder.Scalar_Tensor", [](const at::Scalar& self, const at::Tensor& other) {
    return at::remainder(at::native::wrapped_scalar_tensor(self), other);
  });
}

}  // namespace ocl::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(complex_stub, &ocl::aten::complex_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(polar_stub, &ocl::aten::polar_kernel)

}  // namespace at::native
