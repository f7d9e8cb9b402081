#include "ocl/convolution.h"

#include <algorithm>
#include <string>

namespace ocl {

using ops::ConvOperands;
using ops::ConvPass;
using ops::ConvProblem;
using ops::ConvRoute;
using ops::PlanTarget;
using ops::TensorView;

namespace {

[[noreturn]] void refuse(const std::string& call, const std::string& why) { throw InvalidArgument(call + ": " + why); }

// Whether the view is dense with the dimension of the channels running quickest, then the last dimension, and so on.
bool is_channels_last(const TensorView& x) {
  int64_t expected = 1;
  auto next = [&](int d) {
    const bool fits = x.sizes[d] == 1 || x.strides[d] == expected;
    expected *= x.sizes[d];
    return fits;
  };
  bool dense = next(1);
  for (int d = x.dims - 1; d > 1; --d) dense = next(d) && dense;
  return next(0) && dense;
}

// The memory order; false: N C *, true: N * C.
bool is_last(const char* name, const TensorView& x) {
  if (x.is_contiguous()) return false;
  if (!is_channels_last(x)) refuse("convolution", std::string(name) + " is neither contiguous nor channels_last");
  return true;
}

bool is_empty(const ConvProblem& p) { return p.x_numel() == 0 || p.y_numel() == 0 || p.w_numel() == 0; }

ConvRoute planned(const Device& device, ConvPass pass, const ConvProblem& problem) {
  ops::check_conv(problem);
  ops::require_dtype(device, problem.dtype, "convolution");
  const PlanTarget target(device);
  return is_empty(problem) ? ops::conv_route(ops::conv_algorithms(pass).back(), problem, target)
                           : ops::choose_conv(pass, problem, target);
}

ConvRoute planned(const Device& device, ConvPass pass, const ConvProblem& problem, const std::string& name) {
  ops::check_conv(problem);
  ops::require_dtype(device, problem.dtype, "convolution");
  for (const ops::ConvAlgorithm& algorithm : ops::conv_algorithms(pass)) {
    if (algorithm.name != name) continue;
    ConvRoute route = ops::conv_route(algorithm, problem, PlanTarget(device));
    if (route.plan.refusal) refuse("convolution", "the algorithm " + name + " refuses: " + route.plan.refusal);
    return route;
  }
  refuse("convolution", "there is no algorithm " + name);
}

// x, w and y of a pass have to be what x and w say.
ConvOperands operands_of(const ConvProblem& p, const TensorView& x, const TensorView& w, const TensorView& y) {
  const std::vector<int64_t> sizes = output_sizes(p, x.dims - 2);
  const bool same = y.dims == x.dims && y.dtype == x.dtype && std::equal(sizes.begin(), sizes.end(), y.sizes.begin());
  if (!same)
    refuse("convolution", "y is " + y.shape_string() + " of " + ops::name_of(y.dtype) + ", not " +
                              TensorView::contiguous(nullptr, x.dtype, sizes).shape_string() + " of " +
                              ops::name_of(x.dtype));
  if (y.numel() > 0 && !(p.channels_last ? is_channels_last(y) : y.is_contiguous()))
    refuse("convolution", "y is not in x's memory order");
  return {x.data, w.data, y.data, nullptr};
}

}  // namespace

ConvProblem convolution_problem(const TensorView& x, const TensorView& w, const ConvolutionOptions& options) {
  if (x.dims < 3 || x.dims > 5 || w.dims != x.dims)
    refuse("convolution", "x " + x.shape_string() + " and w " + w.shape_string() +
                              " must be [N, C, *] and [O, C / groups, *] with one to three spatial dimensions");
  if (x.dtype != w.dtype)
    refuse("convolution", std::string("x is of ") + ops::name_of(x.dtype) + ", w of " + ops::name_of(w.dtype));
  ConvProblem p;
  p.dtype = x.dtype;
  p.batch = x.sizes[0];
  p.in_channels = x.sizes[1];
  p.out_channels = w.sizes[0];
  p.groups = options.groups;
  if (p.groups < 1 || w.sizes[1] * p.groups != p.in_channels)
    refuse("convolution", "x " + x.shape_string() + " and w " + w.shape_string() + " do not fit " +
                              std::to_string(p.groups) + " groups");
  for (int d = 5 - x.dims, i = 2; d < 3; ++d, ++i) {
    p.input[d] = x.sizes[i], p.kernel[d] = w.sizes[i];
    p.stride[d] = options.stride[d], p.padding[d] = options.padding[d], p.dilation[d] = options.dilation[d];
    if (p.stride[d] < 1 || p.dilation[d] < 1 || p.padding[d] < 0 || p.kernel[d] < 1)
      refuse("convolution", "stride, dilation and the filter's sizes must be positive, padding not negative");
    const int64_t room = p.input[d] + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1;
    if (room < 0) refuse("convolution", "the filter " + w.shape_string() + " is larger than the padded input");
    p.output[d] = room / p.stride[d] + 1;
  }
  p.channels_last = is_last("x", x);
  p.filters_last = is_last("w", w);
  ops::check_conv(p);
  return p;
}

std::vector<int64_t> output_sizes(const ConvProblem& p, int spatial) {
  if (spatial < 1 || spatial > 3) refuse("output_sizes", std::to_string(spatial) + " spatial dimensions, not 1 to 3");
  std::vector<int64_t> sizes{p.batch, p.out_channels};
  sizes.insert(sizes.end(), p.output.end() - spatial, p.output.end());
  return sizes;
}

Convolution::Convolution(const Device& device, ConvPass pass, const ConvProblem& problem)
    : pass_(pass), route_(planned(device, pass, problem)) {}

Convolution::Convolution(const Device& device, ConvPass pass, const ConvProblem& problem, const char* algorithm)
    : pass_(pass), route_(planned(device, pass, problem, algorithm)) {}

size_t Convolution::workspace() const { return ops::workspace_of(route_); }

void Convolution::run(Queue& queue, const ConvOperands& operands) const {
  if (is_empty(route_.problem)) return ops::convolution(queue, pass_, route_.problem, operands);
  ops::run_conv(route_, queue, operands);
}

void convolution_forward(Queue& queue, const TensorView& x, const TensorView& w, const TensorView& bias,
                         const TensorView& y, const ConvolutionOptions& options) {
  const ConvProblem p = convolution_problem(x, w, options);
  ConvOperands operands = operands_of(p, x, w, y);
  if (bias) {
    if (bias.dims != 1 || bias.sizes[0] != p.out_channels || bias.dtype != p.dtype || !bias.is_contiguous())
      refuse("convolution", "bias " + bias.shape_string() + " must be [" + std::to_string(p.out_channels) +
                                "], contiguous, of x's element type");
    operands.bias = bias.data;
  }
  ops::convolution(queue, ConvPass::forward, p, operands);
}

void convolution_backward_data(Queue& queue, const TensorView& dy, const TensorView& w, const TensorView& dx,
                               const ConvolutionOptions& options) {
  const ConvProblem p = convolution_problem(dx, w, options);
  ops::convolution(queue, ConvPass::backward_data, p, operands_of(p, dx, w, dy));
}

void convolution_backward_weight(Queue& queue, const TensorView& dy, const TensorView& x, const TensorView& dw,
                                 const ConvolutionOptions& options) {
  const ConvProblem p = convolution_problem(x, dw, options);
  ops::convolution(queue, ConvPass::backward_weight, p, operands_of(p, x, dw, dy));
}

}  // namespace ocl
