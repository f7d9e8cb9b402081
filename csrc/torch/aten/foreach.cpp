// _foreach_* operators: whole lists in one launch where all tensors share dtype, device and dense layout; otherwise
// ATen's own loop over the tensors. Also the two operators of torch.amp.GradScaler.
#include "torch/aten/common.h"
#include "ops/foreach/foreach.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale_native.h>
#include <ATen/ops/_foreach_abs_native.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_clamp_max_native.h>
#include <ATen/ops/_foreach_clamp_min_native.h>
#include <ATen/ops/_foreach_copy_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_exp_native.h>
#include <ATen/ops/_foreach_lerp_native.h>
#include <ATen/ops/_foreach_log_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_neg_native.h>
#include <ATen/ops/_foreach_norm_native.h>
#include <ATen/ops/_foreach_pow_native.h>
#include <ATen/ops/_foreach_reciprocal_native.h>
#include <ATen/ops/_foreach_rsqrt_native.h>
#include <ATen/ops/_foreach_sigmoid_native.h>
#include <ATen/ops/_foreach_sign_native.h>
#include <ATen/ops/_foreach_sqrt_native.h>
#include <ATen/ops/_foreach_sub_native.h>
#include <ATen/ops/_foreach_tanh_native.h>
#include <ATen/ops/_foreach_zero_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {

namespace {

using at::Scalar;
using at::Tensor;
using at::TensorList;
using ScalarList = at::ArrayRef<Scalar>;

// Dense tensors of one floating dtype on our device.
bool uniform(TensorList tensors) {
  if (tensors.empty()) return false;
  const auto dtype = tensors[0].scalar_type();
  const auto device = tensors[0].device();
  if (!device.is_privateuseone() || !ops::is_floating(dtype_of(dtype))) return false;
  for (const Tensor& t : tensors)
    if (t.scalar_type() != dtype || t.device() != device || t.layout() != at::kStrided ||
        !t.is_non_overlapping_and_dense())
      return false;
  return true;
}

// The arguments behind `self`, collected in order.
struct Arguments {
  explicit Arguments(TensorList self) : self(self), good(uniform(self)) {}

  void add(TensorList list) {
    if (!good) return;
    good = list.size() == self.size() && uniform(list) && list[0].scalar_type() == self[0].scalar_type() &&
           list[0].device() == self[0].device();
    for (size_t i = 0; good && i < self.size(); ++i) good = same_layout(self[i], list[i]);
    lists[count++] = list;
  }
  void add(const Scalar& value) {
    good = good && !value.isComplex() && !value.isSymbolic();
    if (good) scalar *= value.toDouble();
  }
  void add(ScalarList values) {
    good = good && values.size() == self.size();
    for (const Scalar& value : values) good = good && !value.isComplex() && !value.isSymbolic();
    scalars = values;
  }
  void add(const Tensor& value) {
    good = good && value.dim() == 0 && value.scalar_type() == self[0].scalar_type();
    if (!good) return;
    if (value.device() == self[0].device())
      address = aten::address(value);
    else if (value.device().is_cpu())
      scalar *= value.item().toDouble();
    else
      good = false;
    on_device = address != nullptr;
  }
  // A factor beside a tensor on the device (add.Tensor's alpha) has no place in the kernel.
  bool fast() const { return good && !(on_device && scalar != 1); }

  TensorList self;
  bool good;
  std::array<TensorList, 2> lists;
  int count = 0;
  double scalar = 1;
  ScalarList scalars;
  const void* address = nullptr;
  bool on_device = false;
};

void run(ops::Foreach op, TensorList out, const Arguments& arguments) {
  const TensorList self = arguments.self;
  std::vector<ops::MultiTensorRow> rows(self.size());
  for (size_t i = 0; i < self.size(); ++i) {
    rows[i].numel = self[i].numel();
    rows[i].scalar = arguments.scalars.empty() ? arguments.scalar : arguments.scalars[i].toDouble();
    rows[i].data = {address(out[i]), address(self[i])};
    for (int k = 0; k < arguments.count; ++k) rows[i].data[2 + k] = address(arguments.lists[k][i]);
  }
  const c10::DeviceGuard guard(self[0].device());
  ops::foreach (queue_for(self[0]), op, dtype_of(self[0].scalar_type()), rows, arguments.address);
}

// A dispatcher kernel with the signature of ATen's loop `slow`; the operator runs in place when that returns void.
template <ops::Foreach op, class Result, class... Rest>
struct Fused {
  template <Result (*slow)(TensorList, Rest...)>
  static Result call(TensorList self, Rest... rest) {
    Arguments arguments(self);
    (arguments.add(rest), ...);
    if (!arguments.fast()) return slow(self, rest...);
    if constexpr (std::is_void_v<Result>) {
      run(op, self, arguments);
      for (const Tensor& t : self) t.unsafeGetTensorImpl()->bump_version();
    } else {
      Result out;
      out.reserve(self.size());
      for (const Tensor& t : self) out.push_back(at::empty_like(t));
      run(op, out, arguments);
      return out;
    }
  }
};

template <ops::Foreach op, class Result, class... Rest>
Fused<op, Result, Rest...> fused_of(Result (*)(TensorList, Rest...));

#define FUSED(op, slow) &decltype(fused_of<ops::Foreach::op>(&at::native::slow))::template call<&at::native::slow>

void copy_(TensorList self, TensorList source, bool non_blocking) {
  Arguments arguments(source);
  arguments.add(self);
  if (!arguments.fast()) return at::native::foreach_tensor_copy_list_kernel_slow_(self, source, non_blocking);
  arguments.count = 0;
  run(ops::Foreach::copy, self, arguments);
}

void zero_(TensorList self) {
  Arguments arguments(self);
  arguments.scalar = 0;
  if (!arguments.fast()) return at::native::foreach_tensor_zero_slow_(self);
  run(ops::Foreach::fill, self, arguments);
}

// Order 0 (maximum), 1 or 2, or -1.
int norm_order(const Scalar& order) {
  if (order.isComplex() || order.isSymbolic()) return -1;
  const double p = order.toDouble();
  return p == 1 ? 1 : p == 2 ? 2 : p == std::numeric_limits<double>::infinity() ? 0 : -1;
}

std::vector<Tensor> norm(TensorList self, const Scalar& order, std::optional<at::ScalarType> dtype) {
  const int kernel = norm_order(order);
  bool fast = kernel >= 0 && uniform(self);
  const auto result_type = fast ? dtype.value_or(self[0].scalar_type()) : at::kFloat;
  fast = fast && at::isFloatingType(result_type) && at::promoteTypes(self[0].scalar_type(), result_type) == result_type;
  for (const Tensor& t : self) fast = fast && (t.numel() > 0 || kernel != 0);
  if (!fast) return at::native::foreach_tensor_norm_slow(self, order, dtype);
  const c10::DeviceGuard guard(self[0].device());
  const Tensor results = at::zeros({static_cast<int64_t>(self.size())}, self[0].options().dtype(result_type));
  std::vector<Tensor> views = results.unbind();
  std::vector<ops::MultiTensorRow> rows(self.size());
  for (size_t i = 0; i < self.size(); ++i) {
    rows[i].numel = self[i].numel();
    rows[i].data = {address(self[i]), address(views[i])};
  }
  ops::foreach_norm(queue_for(self[0]), kernel, dtype_of(self[0].scalar_type()), dtype_of(result_type), rows);
  return views;
}

void non_finite_check_and_unscale_(TensorList scaled_grads, Tensor& found_inf, const Tensor& inverse_scale) {
  if (scaled_grads.empty()) return;
  TORCH_CHECK(inverse_scale.is_privateuseone() && found_inf.is_privateuseone(),
              "inv_scale and found_inf must be on the device of the gradients");
  TORCH_CHECK(inverse_scale.numel() == 1, "inv_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(inverse_scale.scalar_type() == at::kFloat, "inv_scale must be a float tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
  // One launch per dtype; gradients that are not dense go through a dense copy.
  const c10::DeviceGuard guard(found_inf.device());
  std::map<at::ScalarType, std::vector<ops::MultiTensorRow>> rows;
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const Tensor& grad : scaled_grads) {
    TORCH_CHECK(grad.is_privateuseone(), "one of scaled_grads was not on the device of found_inf");
    TORCH_CHECK(grad.layout() == at::kStrided, "one of scaled_grads was not a strided tensor.");
    Tensor dense = grad;
    if (!grad.is_non_overlapping_and_dense()) {
      dense = grad.contiguous();
      copies.emplace_back(grad, dense);
    }
    rows[grad.scalar_type()].push_back({dense.numel(), 0, {address(dense)}});
  }
  for (auto& [dtype, list] : rows)
    ops::foreach_unscale(queue_for(found_inf), dtype_of(dtype), list, address(inverse_scale), address(found_inf));
  for (auto& [grad, dense] : copies) grad.copy_(dense);
}

Tensor& update_scale_(Tensor& scale, Tensor& growth_tracker, const Tensor& found_inf, double growth, double backoff,
                      int64_t interval) {
  TORCH_CHECK(growth_tracker.is_privateuseone() && scale.is_privateuseone() && found_inf.is_privateuseone(),
              "_amp_update_scale_: scale, growth_tracker and found_inf must be on the device");
  TORCH_CHECK(growth_tracker.numel() == 1 && growth_tracker.scalar_type() == at::kInt,
              "growth_tracker must be a 1-element int tensor.");
  TORCH_CHECK(scale.numel() == 1 && scale.scalar_type() == at::kFloat,
              "current_scale must be a 1-element float tensor.");
  TORCH_CHECK(found_inf.numel() == 1 && found_inf.scalar_type() == at::kFloat,
              "found_inf must be a 1-element float tensor.");
  const c10::DeviceGuard guard(scale.device());
  ops::update_scale(queue_for(scale), address(scale), address(growth_tracker), address(found_inf), growth, backoff,
                    interval);
  return scale;
}

}  // namespace

// Both forms of an overload: functional and in place.
#define BOTH(name, overload, op, slow)                \
  m.impl("_foreach_" name overload, FUSED(op, slow)); \
  m.impl("_foreach_" name "_" overload, FUSED(op, slow##_))
#define UNARY(name) BOTH(#name, "", name, foreach_tensor_##name##_slow)
#define SCALARS(name, op, stem)                                          \
  BOTH(name, ".Scalar", op, foreach_tensor_##stem##_scalar_kernel_slow); \
  BOTH(name, ".ScalarList", op, foreach_tensor_##stem##_scalarlist_kernel_slow)
#define LIST(name, op, stem) BOTH(name, ".List", op, foreach_tensor_##stem##_list_kernel_slow)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  UNARY(abs);
  UNARY(exp);
  UNARY(log);
  UNARY(neg);
  UNARY(reciprocal);
  UNARY(rsqrt);
  UNARY(sigmoid);
  UNARY(sign);
  UNARY(sqrt);
  UNARY(tanh);
  SCALARS("add", add_scalar, add);
  SCALARS("sub", sub_scalar, sub);
  SCALARS("mul", mul_scalar, mul);
  SCALARS("div", div_scalar, div);
  SCALARS("pow", pow_scalar, pow);
  SCALARS("clamp_min", clamp_min_scalar, clamp_min);
  SCALARS("clamp_max", clamp_max_scalar, clamp_max);
  SCALARS("maximum", clamp_min_scalar, clamp_min);
  SCALARS("minimum", clamp_max_scalar, clamp_max);
  LIST("add", add, add);
  LIST("sub", sub, sub);
  LIST("mul", mul, mul);
  LIST("div", div, div);
  LIST("pow", pow, pow);
  LIST("clamp_min", clamp_min, clamp_min);
  LIST("clamp_max", clamp_max, clamp_max);
  LIST("maximum", clamp_min, clamp_min);
  LIST("minimum", clamp_max, clamp_max);
  BOTH("add", ".Tensor", add_scalar, foreach_tensor_add_tensor_kernel_slow);
  BOTH("mul", ".Tensor", mul_scalar, foreach_tensor_mul_tensor_kernel_slow);
  BOTH("div", ".Tensor", div_scalar, foreach_tensor_div_tensor_kernel_slow);
  BOTH("addcmul", ".Scalar", addcmul, foreach_tensor_addcmul_scalar_slow);
  BOTH("addcmul", ".ScalarList", addcmul, foreach_tensor_addcmul_scalarlist_slow);
  BOTH("addcdiv", ".Scalar", addcdiv, foreach_tensor_addcdiv_scalar_slow);
  BOTH("addcdiv", ".ScalarList", addcdiv, foreach_tensor_addcdiv_scalarlist_slow);
  BOTH("lerp", ".List", lerp, foreach_tensor_ternary_lerp_slow);
  BOTH("lerp", ".Scalar", lerp_scalar, foreach_tensor_lerp_list_kernel_slow);
  BOTH("lerp", ".ScalarList", lerp_scalar, foreach_tensor_lerp_scalarlist_kernel_slow);
  m.impl("_foreach_copy_", &copy_);
  m.impl("_foreach_zero_", &zero_);
  m.impl("_foreach_norm.Scalar", &norm);
  m.impl("_amp_foreach_non_finite_check_and_unscale_", &non_finite_check_and_unscale_);
  m.impl("_amp_update_scale_", &update_scale_);
}

}  // namespace ocl::aten
