// Fused optimizer steps (torch.optim with fused=True): _fused_sgd_, _fused_adam_, _fused_adamw_, _fused_adagrad_ and
// their overloads with the learning rate in a tensor.
#include "torch/aten/common.h"
#include "ops/optimizer/optimizer.h"

#include <ATen/ops/empty_like.h>

namespace ocl::aten {

namespace {

using at::Tensor;
using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

// The lists of a call as rows; gradients of another layout than their parameter are copied into its layout first.
class Step {
 public:
  Step(const char* name, TensorList params, TensorList grads) : name_(name), params_(params), rows_(params.size()) {
    if (params.empty()) return;
    dtype_ = params[0].scalar_type();
    TORCH_CHECK(at::isFloatingType(dtype_), name, ": parameters must be of a floating type, got ", dtype_);
    for (size_t i = 0; i < params.size(); ++i) {
      TORCH_CHECK(params[i].is_privateuseone() && params[i].device() == params[0].device() &&
                      params[i].scalar_type() == dtype_ && params[i].is_non_overlapping_and_dense(),
                  name, ": parameters must be dense tensors of one dtype on one device");
      rows_[i].numel = params[i].numel();
      rows_[i].data[0] = address(params[i]);
    }
    add(1, grads, "gradients", true);
  }

  void add(int slot, TensorList list, const char* what, bool copy_other_layouts = false) {
    TORCH_CHECK(list.size() == params_.size(), name_, ": ", list.size(), " ", what, " for ", params_.size(),
                " parameters");
    for (size_t i = 0; i < list.size(); ++i) {
      const Tensor& param = params_[i];
      Tensor t = list[i];
      TORCH_CHECK(t.device() == param.device() && t.scalar_type() == dtype_ && t.sizes() == param.sizes(), name_,
                  ": params, grads and states must have same dtype, device and shape (", what, " ", i, ")");
      if (!same_layout(t, param)) {
        TORCH_CHECK(copy_other_layouts, name_, ": ", what, " ", i, " has another memory layout than its parameter");
        t = at::empty_like(param).copy_(t);
        kept_.push_back(t);
      }
      rows_[i].data[slot] = address(t);
    }
  }

  void add_steps(TensorList steps) {
    TORCH_CHECK(steps.size() == params_.size(), name_, ": ", steps.size(), " state_steps for ", params_.size(),
                " parameters");
    for (size_t i = 0; i < steps.size(); ++i) {
      TORCH_CHECK(steps[i].device() == params_[0].device() && steps[i].numel() == 1, name_,
                  ": state_steps must be 1-element tensors on the device of the parameters");
      rows_[i].data[5] = scalar(steps[i]);
    }
  }

  ops::StepExtras extras(const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
    ops::StepExtras result;
    if (grad_scale && grad_scale->defined()) result.grad_scale = scalar(*grad_scale);
    if (found_inf && found_inf->defined()) result.found_inf = scalar(*found_inf);
    return result;
  }
  // A learning rate on the CPU is a number, one on the device stays there.
  void set_learning_rate(const Tensor& lr, double& number, ops::StepExtras& extras) {
    TORCH_CHECK(lr.numel() == 1, name_, ": lr must be a 1-element tensor");
    if (lr.device().is_cpu())
      number = lr.item().toDouble();
    else
      extras.learning_rate = scalar(lr);
  }

  bool empty() const { return params_.empty(); }
  Queue& queue() const { return queue_for(params_[0]); }
  c10::Device device() const { return params_[0].device(); }
  ops::DType dtype() const { return dtype_of(dtype_); }
  std::span<const ops::MultiTensorRow> rows() const { return rows_; }

 private:
  // A single value on the device as float32.
  const float* scalar(const Tensor& value) {
    const Tensor as_float = value.to(params_[0].device(), at::kFloat);
    kept_.push_back(as_float);
    return static_cast<const float*>(address(as_float));
  }

  const char* name_;
  TensorList params_;
  at::ScalarType dtype_ = at::kFloat;
  std::vector<ops::MultiTensorRow> rows_;
  std::vector<Tensor> kept_;
};

void sgd(TensorList params, TensorList grads, TensorList buffers, const Tensor* lr_tensor, ops::SgdOptions options,
         const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  Step step("_fused_sgd_", params, grads);
  if (step.empty()) return;
  const c10::DeviceGuard guard(step.device());
  if (options.momentum != 0) step.add(2, buffers, "momentum buffers");
  ops::StepExtras extras = step.extras(grad_scale, found_inf);
  if (lr_tensor) step.set_learning_rate(*lr_tensor, options.lr, extras);
  ops::sgd_step(step.queue(), step.dtype(), step.rows(), options, extras);
}

void fused_sgd_(TensorList params, TensorList grads, TensorList buffers, double weight_decay, double momentum,
                double lr, double dampening, bool nesterov, bool maximize, bool first, const OptionalTensor& grad_scale,
                const OptionalTensor& found_inf) {
  sgd(params, grads, buffers, nullptr, {lr, weight_decay, momentum, dampening, nesterov, maximize, first}, grad_scale,
      found_inf);
}
void fused_sgd_tensor_lr_(TensorList params, TensorList grads, TensorList buffers, double weight_decay, double momentum,
                          const Tensor& lr, double dampening, bool nesterov, bool maximize, bool first,
                          const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  sgd(params, grads, buffers, &lr, {0, weight_decay, momentum, dampening, nesterov, maximize, first}, grad_scale,
      found_inf);
}

struct AdamLists {
  TensorList params, grads, averages, squares, largest, steps;
};

void adam(const char* name, const AdamLists& lists, const Tensor* lr_tensor, ops::AdamOptions options,
          const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  Step step(name, lists.params, lists.grads);
  if (step.empty()) return;
  const c10::DeviceGuard guard(step.device());
  step.add(2, lists.averages, "exp_avgs");
  step.add(3, lists.squares, "exp_avg_sqs");
  if (options.amsgrad) step.add(4, lists.largest, "max_exp_avg_sqs");
  step.add_steps(lists.steps);
  ops::StepExtras extras = step.extras(grad_scale, found_inf);
  if (lr_tensor) step.set_learning_rate(*lr_tensor, options.lr, extras);
  ops::adam_step(step.queue(), step.dtype(), step.rows(), options, extras);
}

template <bool decoupled>
void fused_adam_(TensorList params, TensorList grads, TensorList averages, TensorList squares, TensorList largest,
                 TensorList steps, double lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,
                 bool maximize, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adam(decoupled ? "_fused_adamw_" : "_fused_adam_", {params, grads, averages, squares, largest, steps}, nullptr,
       {lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, decoupled}, grad_scale, found_inf);
}
template <bool decoupled>
void fused_adam_tensor_lr_(TensorList params, TensorList grads, TensorList averages, TensorList squares,
                           TensorList largest, TensorList steps, const Tensor& lr, double beta1, double beta2,
                           double weight_decay, double eps, bool amsgrad, bool maximize,
                           const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adam(decoupled ? "_fused_adamw_" : "_fused_adam_", {params, grads, averages, squares, largest, steps}, &lr,
       {0, beta1, beta2, weight_decay, eps, amsgrad, maximize, decoupled}, grad_scale, found_inf);
}

void adagrad(TensorList params, TensorList grads, TensorList sums, TensorList steps, const Tensor* lr_tensor,
             ops::AdagradOptions options, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  Step step("_fused_adagrad_", params, grads);
  if (step.empty()) return;
  const c10::DeviceGuard guard(step.device());
  step.add(2, sums, "state_sums");
  step.add_steps(steps);
  ops::StepExtras extras = step.extras(grad_scale, found_inf);
  if (lr_tensor) step.set_learning_rate(*lr_tensor, options.lr, extras);
  ops::adagrad_step(step.queue(), step.dtype(), step.rows(), options, extras);
}

void fused_adagrad_(TensorList params, TensorList grads, TensorList sums, TensorList steps, double lr, double lr_decay,
                    double weight_decay, double eps, bool maximize, const OptionalTensor& grad_scale,
                    const OptionalTensor& found_inf) {
  adagrad(params, grads, sums, steps, nullptr, {lr, lr_decay, weight_decay, eps, maximize}, grad_scale, found_inf);
}
void fused_adagrad_tensor_lr_(TensorList params, TensorList grads, TensorList sums, TensorList steps, const Tensor& lr,
                              double lr_decay, double weight_decay, double eps, bool maximize,
                              const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  adagrad(params, grads, sums, steps, &lr, {0, lr_decay, weight_decay, eps, maximize}, grad_scale, found_inf);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sgd_", &fused_sgd_);
  m.impl("_fused_sgd_.tensor_lr", &fused_sgd_tensor_lr_);
  m.impl("_fused_adam_", &fused_adam_<false>);
  m.impl("_fused_adam_.tensor_lr", &fused_adam_tensor_lr_<false>);
  m.impl("_fused_adamw_", &fused_adam_<true>);
  m.impl("_fused_adamw_.tensor_lr", &fused_adam_tensor_lr_<true>);
  m.impl("_fused_adagrad_", &fused_adagrad_);
  m.impl("_fused_adagrad_.tensor_lr", &fused_adagrad_tensor_lr_);
}

}  // namespace ocl::aten
