// Convolution in 1 to 3 dimensions and its gradients. ATen checks arguments, turns 1-D into 2-D and handles empty
// inputs before these kernels are called; a transposed convolution is the same problem with input and output exchanged.
#include "torch/aten/common.h"
#include "ops/conv/bias.h"
#include "ops/conv/conv.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_native.h>

namespace ocl::aten {
namespace {

using ops::ConvPass;
using ops::ConvProblem;

struct Parameters {
  at::IntArrayRef stride, padding, dilation;
  bool transposed;
  at::IntArrayRef output_padding;
  int64_t groups;
};

void check_types(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  TORCH_CHECK(input.options().type_equal(weight.options()), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  TORCH_CHECK(!bias.defined() || input.options().type_equal(bias.options()), "Input type (", input.toString(),
              ") and bias type (", bias.toString(), ") should be the same");
  TORCH_CHECK(input.device() == weight.device() && (!bias.defined() || bias.device() == input.device()),
              "Expected all tensors to be on the same device, but got input on ", input.device(), " and weight on ",
              weight.device());
  if (input.is_complex() || input.scalar_type() == at::kBool) not_implemented_for("convolution", input.scalar_type());
}

// ATen's entries have checked this; the operators may also be called as they are.
void check_shapes(const at::Tensor& input, const at::Tensor& weight, const Parameters& p) {
  const int64_t dims = input.dim();
  const auto spatial = static_cast<size_t>(dims - 2);
  TORCH_CHECK(dims >= 3 && dims <= 5 && weight.dim() == dims && p.groups > 0,
              "Expected 3D to 5D input and a weight of as many dimensions, but got ", input.sizes(), " and ",
              weight.sizes());
  TORCH_CHECK(p.stride.size() == spatial && p.padding.size() == spatial && p.dilation.size() == spatial &&
                  (!p.transposed || p.output_padding.size() == spatial),
              "Expected ", spatial, " values of stride, padding and dilation");
  TORCH_CHECK(input.size(1) == (p.transposed ? weight.size(0) : weight.size(1) * p.groups), "Given groups=", p.groups,
              ", weight of size ", weight.sizes(), ", got an input of ", input.size(1), " channels");
}

bool suggests_channels_last(const at::Tensor& tensor) {
  const at::MemoryFormat format = tensor.suggest_memory_format();
  return format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d;
}

// Memory order of the result: channels last when the input or the weight is.
at::MemoryFormat result_format(const at::Tensor& input, const at::Tensor& weight) {
  if (!suggests_channels_last(input) && !suggests_channels_last(weight)) return at::MemoryFormat::Contiguous;
  return input.dim() == 4   ? at::MemoryFormat::ChannelsLast
         : input.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                            : at::MemoryFormat::Contiguous;
}

// Filters are taken in the order that they have, channels last or not.
at::MemoryFormat filter_format(const at::Tensor& weight) {
  if (weight.is_contiguous() || !suggests_channels_last(weight)) return at::MemoryFormat::Contiguous;
  return weight.suggest_memory_format();
}

// The convolution whose forward pass maps x to y. Its weight, dense, is [channels of y, channels of x / groups,
// kernel].
ConvProblem problem_of(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight, const Parameters& p,
                       at::MemoryFormat format) {
  ConvProblem problem;
  problem.dtype = dtype_of(x.scalar_type());
  problem.channels_last = format != at::MemoryFormat::Contiguous;
  problem.filters_last = !weight.is_contiguous();
  problem.batch = x.size(0);
  problem.groups = p.groups;
  problem.in_channels = x.size(1);
  problem.out_channels = y.size(1);
  const int64_t dims = x.dim() - 2;
  for (int64_t d = 0; d < dims; ++d) {
    const size_t to = 3 - dims + d, from = static_cast<size_t>(d);
    problem.input[to] = x.size(d + 2), problem.output[to] = y.size(d + 2), problem.kernel[to] = weight.size(d + 2);
    problem.stride[to] = p.stride[from], problem.padding[to] = p.padding[from], problem.dilation[to] = p.dilation[from];
  }
  return problem;
}

std::vector<int64_t> output_sizes(const at::Tensor& input, const at::Tensor& weight, const Parameters& p) {
  return p.transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), p.padding, p.output_padding,
                                                    p.stride, p.dilation, p.groups)
                      : at::native::conv_output_size(input.sizes(), weight.sizes(), p.padding, p.stride, p.dilation);
}

at::Tensor forward(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& optional_bias,
                   const Parameters& p, const ops::ConvLimits& limits) {
  const at::Tensor bias_given = optional_bias.value_or(at::Tensor());
  check_types(input, weight, bias_given);
  check_shapes(input, weight, p);
  const at::MemoryFormat format = result_format(input, weight);
  const at::Tensor x = input.contiguous(format), w = weight.contiguous(filter_format(weight));
  const at::Tensor bias = bias_given.defined() ? bias_given.contiguous() : at::Tensor();
  at::Tensor output = empty_like_options(output_sizes(input, weight, p), input.options(), format);
  Queue& queue = queue_for(input);
  if (!p.transposed) {
    ConvProblem problem = problem_of(x, output, w, p, format);
    problem.limits = limits;
    ops::convolution(queue, ConvPass::forward, problem, {address(x), address(w), address(output), address(bias)});
    return output;
  }
  ops::convolution(queue, ConvPass::backward_data, problem_of(output, x, w, p, format),
                   {address(output), address(w), address(x)});
  if (bias.defined()) {
    std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
    shape[1] = bias.size(0);
    output.add_(bias.view(shape));
  }
  return output;
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  return forward(input, weight, bias, {stride, padding, dilation, transposed, output_padding, groups}, {});
}

// With its results cut off, for torch_ocl.optimize; without gradients.
at::Tensor limited_convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                               int64_t groups, double low, double high) {
  const c10::DeviceGuard guard(input.device());
  const Parameters p{stride, padding, dilation, false, {}, groups};
  check_types(input, weight, bias ? *bias : at::Tensor());
  check_shapes(input, weight, p);
  for (const int64_t size : output_sizes(input, weight, p))
    if (size <= 0)  // ATen's errors for kernels that are larger than the input; an empty batch has no limits to keep
      return at::convolution(input, weight, bias, stride, padding, dilation, false,
                             std::vector<int64_t>(stride.size(), 0), groups);
  return forward(input, weight, bias, p, {static_cast<float>(low), static_cast<float>(high)});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& grad_output,
                                                                    const at::Tensor& input, const at::Tensor& weight,
                                                                    at::IntArrayRef stride, at::IntArrayRef padding,
                                                                    at::IntArrayRef dilation, bool transposed,
                                                                    at::IntArrayRef output_padding, int64_t groups,
                                                                    std::array<bool, 3> output_mask) {
  const Parameters p{stride, padding, dilation, transposed, output_padding, groups};
  check_types(grad_output, weight, at::Tensor());
  check_types(input, weight, at::Tensor());
  check_shapes(input, weight, p);
  TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(output_sizes(input, weight, p)),
              "convolution_backward: expected a gradient of size ", output_sizes(input, weight, p), ", but got ",
              grad_output.sizes());
  const at::MemoryFormat format = result_format(input, weight);
  const at::Tensor dy = grad_output.contiguous(format), w = weight.contiguous(filter_format(weight));
  Queue& queue = queue_for(input);
  // Sides of the underlying convolution: for a transposed one the gradient of its output stands on the x side.
  auto problem = [&](const at::Tensor& of_input) {
    return transposed ? problem_of(dy, of_input, w, p, format) : problem_of(of_input, dy, w, p, format);
  };
  at::Tensor grad_input, grad_weight, grad_bias;
  if (output_mask[0]) {
    grad_input = empty_like_options(input.sizes(), input.options(), format);
    if (transposed)
      ops::convolution(queue, ConvPass::forward, problem(grad_input), {address(dy), address(w), address(grad_input)});
    else
      ops::convolution(queue, ConvPass::backward_data, problem(grad_input),
                       {address(grad_input), address(w), address(dy)});
  }
  if (output_mask[1]) {
    const at::Tensor x = input.contiguous(format);
    grad_weight = empty_like_options(w.sizes(), w.options(), filter_format(w));
    ops::convolution(queue, ConvPass::backward_weight, problem(x),
                     {address(transposed ? dy : x), address(grad_weight), address(transposed ? x : dy)});
  }
  if (output_mask[2]) {
    grad_bias = empty_like_options({dy.size(1)}, dy.options());
    ops::conv_bias_gradient(queue, dtype_of(dy.scalar_type()), format != at::MemoryFormat::Contiguous, dy.size(0),
                            dy.size(1), dy.numel() / std::max<int64_t>(1, dy.size(0) * dy.size(1)), address(dy),
                            address(grad_bias));
  }
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace

// ATen chooses by the input's device what computes; with another weight's that would be the CPU.
at::Tensor any_convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                           at::IntArrayRef output_padding, int64_t groups) {
  if (input.device().type() != weight.device().type()) [[unlikely]]
    check_types(input, weight, bias ? *bias : at::Tensor());
  return at::native::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def(
      "limited_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
      "int groups, float low, float high) -> Tensor");
}
TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) { m.impl("limited_convolution", limited_convolution); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution", any_convolution);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace ocl::aten
