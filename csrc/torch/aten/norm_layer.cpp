// native_layer_norm, native_group_norm and _fused_rms_norm.
#include "torch/aten/dense_output.h"
#include "ops/norm/layer_norm.h"

#include <algorithm>

namespace ocl::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

at::ScalarType statistics_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

Tensor dense_as(const Tensor& tensor, at::ScalarType type) {
  if (!tensor.defined()) return tensor;
  return tensor.scalar_type() == type ? tensor.contiguous() : tensor.to(type).contiguous();
}
Tensor dense_as(const OptionalTensor& tensor, at::ScalarType type) { return dense_as(tensor.value_or(Tensor()), type); }

at::ScalarType parameter_type(const OptionalTensor& weight, const OptionalTensor& bias, at::ScalarType otherwise) {
  if (weight && weight->defined()) return weight->scalar_type();
  return bias && bias->defined() ? bias->scalar_type() : otherwise;
}

// ", 3, 4" as PyTorch's message has it.
std::string trailing(IntArrayRef shape) {
  std::string text;
  for (const int64_t size : shape) text += ", " + std::to_string(size);
  return text;
}

// Rows and row length of an input normalised over its last dimensions.
ops::LayerNormProblem layer_problem(const Tensor& input, IntArrayRef shape, const OptionalTensor& weight,
                                    const OptionalTensor& bias) {
  TORCH_CHECK(!shape.empty(),
              "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
              "normalized_shape = ",
              shape);
  TORCH_CHECK(
      input.dim() >= static_cast<int64_t>(shape.size()) && input.sizes().slice(input.dim() - shape.size()) == shape,
      "Given normalized_shape=", shape, ", expected input with shape [*", trailing(shape), "], but got input of size",
      input.sizes());
  for (const OptionalTensor* parameter : {&weight, &bias})
    TORCH_CHECK(!*parameter || !(*parameter)->defined() || (*parameter)->sizes() == shape, "Expected ",
                parameter == &weight ? "weight" : "bias", " to be of same shape as normalized_shape, but got ",
                parameter->value().sizes(), " and normalized_shape = ", shape);
  ops::LayerNormProblem p;
  p.dtype = dtype_of(input.scalar_type());
  p.parameter = dtype_of(parameter_type(weight, bias, input.scalar_type()));
  const int64_t outer = input.dim() - static_cast<int64_t>(shape.size());
  for (int64_t d = 0; d < input.dim(); ++d) (d < outer ? p.rows : p.n) *= input.size(d);
  return p;
}

std::vector<int64_t> statistics_sizes(const Tensor& input, size_t normalized) {
  std::vector<int64_t> sizes(input.sizes().begin(), input.sizes().end());
  std::fill(sizes.end() - normalized, sizes.end(), 1);
  return sizes;
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input, IntArrayRef shape,
                                                     const OptionalTensor& weight, const OptionalTensor& bias,
                                                     double eps) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  ops::LayerNormProblem p = layer_problem(input, shape, weight, bias);
  p.eps = eps;
  const at::ScalarType parameters = scalar_type_of(p.parameter);
  const Tensor x = input.contiguous(), w = dense_as(weight, parameters), b = dense_as(bias, parameters);
  const auto options = input.options().dtype(statistics_type(input.scalar_type()));
  const auto sizes = statistics_sizes(input, shape.size());
  Tensor y = empty_like_options(input.sizes(), input.options()), mean = empty_like_options(sizes, options),
         rstd = empty_like_options(sizes, options);
  ops::layer_norm_forward(queue_for(x), p, address(x), address(w), address(b), address(y), address(mean),
                          address(rstd));
  return {y, mean, rstd};
}

// Gradients of weight and bias where asked for, zero without rows.
Tensor parameter_gradient(bool wanted, const OptionalTensor& parameter, IntArrayRef sizes, const Tensor& input,
                          at::ScalarType type, bool zero) {
  if (!wanted || !parameter || !parameter->defined()) return Tensor();
  Tensor gradient = empty_like_options(sizes, input.options().dtype(type));
  if (zero) gradient.zero_();
  return gradient;
}

std::tuple<Tensor, Tensor, Tensor> layer_backward(const Tensor& grad_out, const Tensor& input, IntArrayRef shape,
                                                  const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight,
                                                  const OptionalTensor& bias, std::array<bool, 3> mask, bool rms) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  ops::LayerNormProblem p = layer_problem(input, shape, weight, bias);
  p.rms = rms;
  const at::ScalarType parameters = scalar_type_of(p.parameter), statistics = statistics_type(input.scalar_type());
  const Tensor g = dense_as(grad_out, input.scalar_type()), x = input.contiguous(), w = dense_as(weight, parameters);
  const Tensor m = dense_as(mean, statistics), r = dense_as(rstd, statistics);
  const bool empty = input.numel() == 0;
  Tensor grad_input = mask[0] ? empty_like_options(input.sizes(), input.options()) : Tensor();
  Tensor grad_weight = parameter_gradient(mask[1], weight, shape, input, parameters, empty);
  Tensor grad_bias = parameter_gradient(mask[2], bias, shape, input, parameters, empty);
  if (!empty)
    ops::layer_norm_backward(queue_for(x), p, address(g), address(x), address(m), address(r), address(w),
                             address(grad_input), address(grad_weight), address(grad_bias));
  return {grad_input, grad_weight, grad_bias};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                              IntArrayRef shape, const Tensor& mean, const Tensor& rstd,
                                                              const OptionalTensor& weight, const OptionalTensor& bias,
                                                              std::array<bool, 3> mask) {
  return layer_backward(grad_out, input, shape, mean, rstd, weight, bias, mask, false);
}

std::tuple<Tensor, Tensor> fused_rms_norm(const Tensor& input, IntArrayRef shape, const OptionalTensor& weight,
                                          std::optional<double> eps) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  ops::LayerNormProblem p = layer_problem(input, shape, weight, std::nullopt);
  p.rms = true;
  p.eps = eps.value_or(input.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                          : double{std::numeric_limits<float>::epsilon()});
  const Tensor x = input.contiguous(), w = dense_as(weight, scalar_type_of(p.parameter));
  Tensor y = empty_like_options(input.sizes(), input.options());
  Tensor rstd = empty_like_options(statistics_sizes(input, shape.size()),
                                   input.options().dtype(statistics_type(input.scalar_type())));
  ops::layer_norm_forward(queue_for(x), p, address(x), address(w), nullptr, address(y), nullptr, address(rstd));
  return {y, rstd};
}

std::tuple<Tensor, Tensor> fused_rms_norm_backward(const Tensor& grad_out, const Tensor& input, IntArrayRef shape,
                                                   const Tensor& rstd, const OptionalTensor& weight,
                                                   std::array<bool, 2> mask) {
  const auto [grad_input, grad_weight, none] =
      layer_backward(grad_out, input, shape, Tensor(), rstd, weight, std::nullopt, {mask[0], mask[1], false}, true);
  return {grad_input, grad_weight};
}

ops::GroupNormProblem group_problem(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                    int64_t N, int64_t C, int64_t HxW, int64_t group) {
  TORCH_CHECK(group > 0, "Expected num groups to be greater than 0, got ", group);
  TORCH_CHECK(C % group == 0,
              "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
              input.sizes(), " and num_groups=", group);
  for (const OptionalTensor* parameter : {&weight, &bias})
    TORCH_CHECK(!*parameter || !(*parameter)->defined() || ((*parameter)->dim() == 1 && (*parameter)->numel() == C),
                "Expected ", parameter == &weight ? "weight" : "bias",
                " to be a vector of size equal to the number of channels in input, but got ",
                parameter == &weight ? "weight" : "bias", " of shape ", parameter->value().sizes(),
                " and input of shape ", input.sizes());
  TORCH_CHECK(input.numel() == N * C * HxW, "native_group_norm: an input of shape ", input.sizes(), " has not ", N,
              " x ", C, " x ", HxW, " elements");
  ops::GroupNormProblem p;
  p.dtype = dtype_of(input.scalar_type());
  p.parameter = dtype_of(parameter_type(weight, bias, input.scalar_type()));
  p.batch = N, p.channels = C, p.inner = HxW, p.groups = group;
  return p;
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input, const OptionalTensor& weight,
                                                     const OptionalTensor& bias, int64_t N, int64_t C, int64_t HxW,
                                                     int64_t group, double eps) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  ops::GroupNormProblem p = group_problem(input, weight, bias, N, C, HxW, group);
  p.eps = eps;
  const at::ScalarType parameters = scalar_type_of(p.parameter);
  const Tensor x = input.contiguous(), w = dense_as(weight, parameters), b = dense_as(bias, parameters);
  const auto options = input.options().dtype(statistics_type(input.scalar_type()));
  Tensor y = empty_like_options(input.sizes(), input.options()), mean = empty_like_options({N, group}, options),
         rstd = empty_like_options({N, group}, options);
  if (input.numel() == 0) {
    mean.fill_(std::numeric_limits<double>::quiet_NaN());
    rstd.fill_(std::numeric_limits<double>::quiet_NaN());
    return {y, mean, rstd};
  }
  ops::group_norm_forward(queue_for(x), p, address(x), address(w), address(b), address(y), address(mean),
                          address(rstd));
  return {y, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                              const Tensor& mean, const Tensor& rstd,
                                                              const OptionalTensor& weight, int64_t N, int64_t C,
                                                              int64_t HxW, int64_t group, std::array<bool, 3> mask) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  const ops::GroupNormProblem p = group_problem(input, weight, std::nullopt, N, C, HxW, group);
  const at::ScalarType parameters = scalar_type_of(p.parameter), statistics = statistics_type(input.scalar_type());
  const Tensor g = dense_as(grad_out, input.scalar_type()), x = input.contiguous(), w = dense_as(weight, parameters);
  const Tensor m = dense_as(mean, statistics), r = dense_as(rstd, statistics);
  Tensor gradients[3];
  if (mask[0]) gradients[0] = empty_like_options(input.sizes(), input.options());
  for (int i : {1, 2})
    if (mask[i]) gradients[i] = empty_like_options({C}, input.options().dtype(parameters));
  if (input.numel() == 0) {
    for (int i : {1, 2})
      if (mask[i]) gradients[i].zero_();
  } else {
    ops::group_norm_backward(queue_for(x), p, address(g), address(x), address(m), address(r), address(w),
                             address(gradients[0]), address(gradients[1]), address(gradients[2]));
  }
  return {gradients[0], gradients[1], gradients[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_layer_norm", TORCH_FN(native_layer_norm));
  m.impl("native_layer_norm_backward", TORCH_FN(native_layer_norm_backward));
  m.impl("_fused_rms_norm", TORCH_FN(fused_rms_norm));
  m.impl("_fused_rms_norm_backward", TORCH_FN(fused_rms_norm_backward));
  m.impl("native_group_norm", TORCH_FN(native_group_norm));
  m.impl("native_group_norm_backward", TORCH_FN(native_group_norm_backward));
}

}  // namespace ocl::aten
