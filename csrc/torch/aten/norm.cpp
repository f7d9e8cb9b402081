// native_batch_norm and its relatives.
#include "torch/aten/dense_output.h"
#include "ops/norm/batch_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace ocl::aten {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

at::ScalarType statistics_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

void check_channels(const Tensor& parameter, const char* name, int64_t channels) {
  if (parameter.defined())
    TORCH_CHECK(parameter.numel() == channels, name, " should contain ", channels, " elements not ", parameter.numel());
}

// A parameter as a dense vector of `type`; gradients and statistics are worked on in that type.
Tensor parameter_as(const OptionalTensor& parameter, at::ScalarType type) {
  const Tensor t = dense(parameter);
  return t.defined() && t.scalar_type() != type ? t.to(type) : t;
}

at::ScalarType common_type(const OptionalTensor& a, const OptionalTensor& b, at::ScalarType otherwise) {
  if (a && a->defined()) return a->scalar_type();
  return b && b->defined() ? b->scalar_type() : otherwise;
}

// Running statistics, written back at the end when they were not dense or not of the common type.
class RunningStatistic {
 public:
  RunningStatistic(const OptionalTensor& given, at::ScalarType type)
      : given_(given.value_or(Tensor())), used_(parameter_as(given, type)) {}
  ops::TensorView view() const { return optional_view(used_); }
  const Tensor& tensor() const { return used_; }
  void finish() const {
    if (used_.defined() && !used_.is_same(given_)) given_.copy_(used_);
  }

 private:
  Tensor given_, used_;
};

// The input in a layout that the kernels take and, where it is wanted, an output of the same layout.
std::pair<Tensor, Tensor> kernel_layout(const Tensor& input, bool output = true) {
  if (ops::batch_norm_takes(view(input)) && input.is_non_overlapping_and_dense())
    return {input, output ? at::empty_like(input) : Tensor()};
  const Tensor x = input.contiguous(input.suggest_memory_format());
  return {x, output ? at::empty_like(x, x.suggest_memory_format()) : Tensor()};
}

Triple forward(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training, double momentum,
               double eps) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  TORCH_CHECK(input.dim() >= 2, "batch_norm: expected an input of at least 2 dimensions, got ", input.dim());
  const int64_t channels = input.size(1);
  const auto options = input.options().dtype(statistics_type(input.scalar_type()));
  const at::ScalarType parameters = common_type(weight, bias, input.scalar_type());
  const Tensor w = parameter_as(weight, parameters), b = parameter_as(bias, parameters);
  const at::ScalarType running = common_type(running_mean, running_var, parameters);
  const RunningStatistic mean(running_mean, running), var(running_var, running);
  check_channels(w, "weight", channels);
  check_channels(b, "bias", channels);
  check_channels(mean.tensor(), "running_mean", channels);
  check_channels(var.tensor(), "running_var", channels);
  TORCH_CHECK(training || (mean.tensor().defined() && var.tensor().defined()),
              "Expected running_mean and running_var to be defined when not training");

  const auto [x, y] = kernel_layout(input);
  Tensor save_mean = empty_like_options({training ? channels : 0}, options),
         save_invstd = empty_like_options({training ? channels : 0}, options);
  ops::BatchNormForward arguments{view(x), view(y)};
  arguments.weight = optional_view(w);
  arguments.bias = optional_view(b);
  arguments.running_mean = mean.view();
  arguments.running_var = var.view();
  arguments.save_mean = optional_view(save_mean);
  arguments.save_invstd = optional_view(save_invstd);
  arguments.training = training;
  arguments.momentum = momentum;
  arguments.eps = eps;
  ops::batch_norm_forward(queue_for(x), arguments);
  if (training) {
    mean.finish();
    var.finish();
  }
  return {y, save_mean, save_invstd};
}

Triple native_batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                         double momentum, double eps) {
  return forward(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

std::tuple<Tensor&, Tensor&, Tensor&> native_batch_norm_out(const Tensor& input, const OptionalTensor& weight,
                                                            const OptionalTensor& bias,
                                                            const OptionalTensor& running_mean,
                                                            const OptionalTensor& running_var, bool training,
                                                            double momentum, double eps, Tensor& out, Tensor& save_mean,
                                                            Tensor& save_invstd) {
  const auto results = forward(input, weight, bias, running_mean, running_var, training, momentum, eps);
  for (auto [given, result] : {std::pair(&out, &std::get<0>(results)), std::pair(&save_mean, &std::get<1>(results)),
                               std::pair(&save_invstd, &std::get<2>(results))}) {
    at::native::resize_output(*given, result->sizes());
    given->copy_(*result);
  }
  return {out, save_mean, save_invstd};
}

Triple native_batch_norm_legit(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               Tensor& running_mean, Tensor& running_var, bool training, double momentum, double eps) {
  return forward(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Triple native_batch_norm_legit_no_stats(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                        bool training, double momentum, double eps) {
  return forward(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

Triple native_batch_norm_backward(const Tensor& grad_out, const Tensor& input, const OptionalTensor& weight,
                                  const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                  const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train,
                                  double eps, std::array<bool, 3> mask) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  TORCH_CHECK(input.dim() >= 2 && grad_out.sizes() == input.sizes(),
              "batch_norm_backward: expected an input of at least 2 dimensions and a gradient of its size, got ",
              input.sizes(), " and ", grad_out.sizes());
  const int64_t channels = input.size(1);
  const at::ScalarType parameters = common_type(weight, std::nullopt, input.scalar_type());
  const at::ScalarType running = common_type(running_mean, running_var, parameters),
                       statistics = statistics_type(input.scalar_type());
  const Tensor w = parameter_as(weight, parameters), mean = parameter_as(running_mean, running),
               var = parameter_as(running_var, running);
  const Tensor saved_mean = parameter_as(save_mean, statistics), saved_invstd = parameter_as(save_invstd, statistics);
  check_channels(w, "weight", channels);
  check_channels(mean, "running_mean", channels);
  check_channels(var, "running_var", channels);
  if (train) {  // otherwise the forward pass returned empty ones
    check_channels(saved_mean, "save_mean", channels);
    check_channels(saved_invstd, "save_invstd", channels);
  }
  TORCH_CHECK(train ? saved_mean.defined() && saved_invstd.defined() : mean.defined() && var.defined(),
              "batch_norm_backward: expected saved statistics in training and running ones otherwise");

  auto [x, grad_input] = kernel_layout(input, mask[0]);
  Tensor grad = grad_out.scalar_type() == x.scalar_type() ? grad_out : grad_out.to(x.scalar_type());
  if (grad.strides() != x.strides()) {
    const Tensor copy = at::empty_like(x);  // in x's layout
    copy.copy_(grad);
    grad = copy;
  }
  const auto options = input.options().dtype(parameters);
  Tensor grad_weight = mask[1] ? empty_like_options({channels}, options) : Tensor();
  Tensor grad_bias = mask[2] ? empty_like_options({channels}, options) : Tensor();
  if (input.numel() == 0) {
    if (mask[1]) grad_weight.zero_();
    if (mask[2]) grad_bias.zero_();
    return {mask[0] ? grad_input : Tensor(), grad_weight, grad_bias};
  }
  ops::BatchNormBackward arguments{view(grad), view(x)};
  arguments.weight = optional_view(w);
  arguments.running_mean = optional_view(mean);
  arguments.running_var = optional_view(var);
  arguments.save_mean = optional_view(saved_mean);
  arguments.save_invstd = optional_view(saved_invstd);
  if (mask[0]) arguments.grad_input = view(grad_input);
  arguments.grad_weight = optional_view(grad_weight);
  arguments.grad_bias = optional_view(grad_bias);
  arguments.training = train;
  arguments.eps = eps;
  ops::batch_norm_backward(queue_for(x), arguments);
  return {mask[0] ? grad_input : Tensor(), grad_weight, grad_bias};
}

// Training, with a fourth result in which cuDNN keeps something.
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_with_update(const Tensor& input, const OptionalTensor& weight,
                                                                  const OptionalTensor& bias, Tensor& running_mean,
                                                                  Tensor& running_var, double momentum, double eps) {
  auto [output, mean, invstd] = forward(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {output, mean, invstd, at::empty({0}, input.options().dtype(at::kByte))};
}
Triple batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                           const OptionalTensor& running_mean, const OptionalTensor& running_var,
                           const OptionalTensor& mean, const OptionalTensor& invstd, bool training, double eps,
                           std::array<bool, 3> mask, const Tensor& /*reserve*/) {
  return aten::native_batch_norm_backward(grad, input, weight, running_mean, running_var, mean, invstd, training, eps,
                                          mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm", TORCH_FN(native_batch_norm));
  m.impl("native_batch_norm.out", TORCH_FN(native_batch_norm_out));
  m.impl("_native_batch_norm_legit", TORCH_FN(native_batch_norm_legit));
  m.impl("_native_batch_norm_legit.no_stats", TORCH_FN(native_batch_norm_legit_no_stats));
  m.impl("_batch_norm_with_update", TORCH_FN(batch_norm_with_update));
  m.impl("batch_norm_backward", TORCH_FN(batch_norm_backward));
  m.impl("native_batch_norm_backward", TORCH_FN(native_batch_norm_backward));
}

}  // namespace ocl::aten
