// Ternary elementwise operators: fused multiply-adds, interpolation, clamping, selection.
#include "torch/aten/element_bits.h"
#include "torch/aten/elementwise_macros.h"
#include "torch/aten/versions.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/threshold_meta.h>

#include <cmath>

namespace ocl::aten {

namespace {

struct AddcmulKernel final : Out<at::meta::structured_addcmul, 1> {
  using Out::Out;
};
at::Tensor& addcmul_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& value,
                        at::Tensor& out) {
  AddcmulKernel kernel(out);
  kernel.meta(self, a, b, value);
  run(OCL_ROW("addcmul"), kernel, {scalar_of(value)});
  return out;
}

struct AddcdivKernel final : Out<at::meta::structured_addcdiv, 1> {
  using Out::Out;
};
at::Tensor& addcdiv_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& value,
                        at::Tensor& out) {
  AddcdivKernel kernel(out);
  kernel.meta(self, a, b, value);
  run(OCL_ROW("addcdiv"), kernel, {scalar_of(value)});
  return out;
}

struct LerpTensorKernel final : Out<at::meta::structured_lerp_Tensor, 1> {
  using Out::Out;
};
at::Tensor& lerp_tensor_out(const at::Tensor& self, const at::Tensor& end, const at::Tensor& weight, at::Tensor& out) {
  LerpTensorKernel kernel(out);
  kernel.meta(self, end, weight);
  run(OCL_ROW("lerp"), kernel);
  return out;
}

struct LerpScalarKernel final : Out<at::meta::structured_lerp_Scalar, 1> {
  using Out::Out;
};
at::Tensor& lerp_scalar_out(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight, at::Tensor& out) {
  LerpScalarKernel kernel(out);
  kernel.meta(self, end, weight);
  run(OCL_ROW("lerp_scalar"), kernel, {scalar_of(weight)});
  return out;
}

bool is_nan(const at::OptionalScalarRef& s) {
  return s.has_value() && s.get().isFloatingPoint() && std::isnan(s.get().toDouble());
}

struct ClampKernel final : Out<at::meta::structured_clamp, 1> {
  using Out::Out;
};
at::Tensor& clamp_out(const at::Tensor& self, const std::optional<at::Scalar>& low,
                      const std::optional<at::Scalar>& high, at::Tensor& out) {
  const at::OptionalScalarRef min = low ? at::OptionalScalarRef(*low) : at::OptionalScalarRef();
  const at::OptionalScalarRef max = high ? at::OptionalScalarRef(*high) : at::OptionalScalarRef();
  ClampKernel kernel(out);
  kernel.meta(self, min, max);
  std::optional<at::Scalar> least, largest;
  if (low) least = clamp_limit(*low, kernel.common_dtype(), true);
  if (high) largest = clamp_limit(*high, kernel.common_dtype(), false);
  if (is_nan(min) || is_nan(max)) return out.fill_(std::nan(""));
  if (least && largest) {
    // min > max sets everything to max, as on the CPU
    const bool crossed = least->toDouble() > largest->toDouble();
    run(OCL_ROW("clamp"), kernel, {scalar_of(crossed ? *largest : *least), scalar_of(*largest)});
  } else if (least) {
    run(OCL_ROW("clamp_min"), kernel, {scalar_of(*least)});
  } else {
    run(OCL_ROW("clamp_max"), kernel, {scalar_of(*largest)});
  }
  return out;
}

struct ClampTensorKernel final : Out<at::meta::structured_clamp_Tensor, 1> {
  using Out::Out;
};
at::Tensor& clamp_tensor_out(const at::Tensor& self, const std::optional<at::Tensor>& low,
                             const std::optional<at::Tensor>& high, at::Tensor& out) {
  const at::Tensor none;
  ClampTensorKernel kernel(out);
  kernel.meta(self, low && low->defined() ? at::OptionalTensorRef(*low) : at::OptionalTensorRef(),
              high && high->defined() ? at::OptionalTensorRef(*high) : at::OptionalTensorRef());
  if (low && high && low->defined() && high->defined())
    run(OCL_ROW("clamp_tensor"), kernel);
  else if (low && low->defined())
    run(OCL_ROW("maximum"), kernel);
  else
    run(OCL_ROW("minimum"), kernel);
  return out;
}

struct ClampMinKernel final : Out<at::meta::structured_clamp_min, 1> {
  using Out::Out;
};
at::Tensor& clamp_min_out(const at::Tensor& self, const at::Scalar& low, at::Tensor& out) {
  ClampMinKernel kernel(out);
  kernel.meta(self, low);
  const at::Scalar limit = clamp_limit(low, kernel.common_dtype(), true);
  if (low.isFloatingPoint() && std::isnan(low.toDouble())) return out.fill_(low);
  run(OCL_ROW("clamp_min"), kernel, {scalar_of(limit)});
  return out;
}

struct ClampMaxKernel final : Out<at::meta::structured_clamp_max, 1> {
  using Out::Out;
};
at::Tensor& clamp_max_out(const at::Tensor& self, const at::Scalar& high, at::Tensor& out) {
  ClampMaxKernel kernel(out);
  kernel.meta(self, high);
  const at::Scalar limit = clamp_limit(high, kernel.common_dtype(), false);
  if (high.isFloatingPoint() && std::isnan(high.toDouble())) return out.fill_(high);
  run(OCL_ROW("clamp_max"), kernel, {scalar_of(limit)});
  return out;
}

OCL_BINARY(clamp_min_tensor, clamp_min_Tensor, "maximum")
OCL_BINARY(clamp_max_tensor, clamp_max_Tensor, "minimum")

struct ThresholdKernel final : Out<at::meta::structured_threshold, 1> {
  using Out::Out;
};
at::Tensor& threshold_out(const at::Tensor& self, const at::Scalar& threshold, const at::Scalar& value,
                          at::Tensor& out) {
  ThresholdKernel kernel(out);
  kernel.meta(self, threshold, value);
  run(OCL_ROW("threshold"), kernel, {scalar_of(threshold), scalar_of(value)});
  return out;
}

at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const at::ScalarType type = at::result_type(self, other);
  TORCH_CHECK(out.scalar_type() == type, "Expected out type to be ", at::toString(type), " but got ",
              at::toString(out.scalar_type()));
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  if (condition.scalar_type() == at::kByte) {
    TORCH_WARN_ONCE(
        "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version "
        "of PyTorch. Use a "
        "boolean condition instead.");
  }
  const at::Device device = out.device();
  auto to_device = [&](const at::Tensor& t) { return t.device() != device && t.dim() == 0 ? t.to(device) : t; };
  const at::Tensor on = to_device(condition), a = to_device(self), b = to_device(other);
  auto iterator = at::TensorIteratorConfig()
                      .check_all_same_dtype(false)
                      .add_output(out)
                      .add_const_input(on)
                      .add_const_input(a)
                      .add_const_input(b)
                      .build();
  run(OCL_ROW("where"), iterator, {}, type);
  return out;
}
at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  at::Device device = condition.device();
  for (const at::Tensor* t : {&condition, &self, &other})
    if (t->device().type() == runtime::device_type) device = t->device();
  at::Tensor out = empty_like_options({0}, self.options().dtype(at::result_type(self, other)).device(device));
  return where_out(condition, self, other, out);
}

at::Tensor& masked_fill_scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  TORCH_CHECK(self.device() == mask.device(), "expected self and mask to be on the same device, but got mask on ",
              mask.device(), " and self on ", self.device());
  at::assert_no_internal_overlap(self);
  at::assert_no_partial_overlap(self, mask);
  const auto expanded = at::expand_inplace(self, mask, "masked_fill_");
  if (self.numel() == 0) return self;
  if (only_moved(self.scalar_type())) {
    as_bits(self).masked_fill_(mask, bits_of(value, self.scalar_type()));
    return self;
  }
  check_convertible(value, self.scalar_type());
  auto iterator = at::TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .add_output(self)
                      .add_const_input(self)
                      .add_const_input(*expanded)
                      .build();
  run(OCL_ROW("masked_fill"), iterator, {scalar_of(value)}, self.scalar_type());
  return self;
}
at::Tensor& masked_fill_tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return masked_fill_scalar(self, mask, value.item());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("addcmul.out", addcmul_out);
  m.impl("addcdiv.out", addcdiv_out);
  m.impl("lerp.Tensor_out", lerp_tensor_out);
  m.impl("lerp.Scalar_out", lerp_scalar_out);
  m.impl("clamp.out", clamp_out);
  m.impl("clamp.Tensor_out", clamp_tensor_out);
  m.impl("clamp_min.out", clamp_min_out);
  m.impl("clamp_max.out", clamp_max_out);
  OCL_IMPL(m, clamp_min_tensor, "clamp_min", ".Tensor", ".Tensor_out");
  OCL_IMPL(m, clamp_max_tensor, "clamp_max", ".Tensor", ".Tensor_out");
  m.impl("threshold.out", threshold_out);
  m.impl("where.self", where);
  m.impl("where.self_out", where_out);
  m.impl("masked_fill_.Scalar", masked_fill_scalar);
  m.impl("masked_fill_.Tensor", masked_fill_tensor);
}

}  // namespace ocl::aten
