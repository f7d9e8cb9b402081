// Convolutions and transposed convolutions in 1 to 3 dimensions.
#include "onnxruntime/operators/common.h"
#include "ops/conv/conv.h"

#include <algorithm>

namespace ocl::ort {

namespace {

Sizes spatial(const TensorView& x) { return {x.sizes.begin() + 2, x.sizes.begin() + x.dims}; }

// y [N, O, *] += bias [O]
void add_bias(Run& run, const TensorView& y, TensorView bias) {
  bias.dims = 2;
  bias.sizes[1] = 1, bias.strides[1] = 0;
  const TensorView flat =
      TensorView::contiguous(y.data, y.dtype, {y.sizes[0], y.sizes[1], y.numel() / (y.sizes[0] * y.sizes[1])});
  ops::elementwise(run.queue(), ops::elementwise_row("add"), ops::compute_type(y.dtype), flat,
                   {flat, broadcast(bias, sizes_of(flat))});
}

Sizes output_sizes(int64_t batch, int64_t channels, const Window& w, const Window::Triple& output) {
  Sizes sizes{batch, channels};
  sizes.insert(sizes.end(), output.end() - w.spatial, output.end());
  return sizes;
}

ops::ConvProblem problem_of(const Window& w, DType dtype) {
  ops::ConvProblem p;
  p.dtype = dtype;
  p.input = w.input, p.kernel = w.kernel, p.stride = w.stride, p.padding = w.before, p.dilation = w.dilation;
  return p;
}

Kernel limited_convolution(const Node& node, const ops::ConvLimits& limits) {
  const WindowAttributes attributes = window_attributes(node);
  const int64_t groups = node.integer("group", 1);
  need(!node.ranked(1) || (node.rank(1) >= 3 && node.rank(1) <= 5), "1 to 3 spatial dimensions");
  for (const int64_t pad : attributes.padding) need(pad >= 0, "negative padding");
  return [=](Run& run) {
    TensorView x = run.dense(0);
    const TensorView w = run.dense(1);
    need(x.dims >= 3 && x.dims <= 5 && w.dims == x.dims, "1 to 3 spatial dimensions");
    Window window = place_window(attributes, spatial(x), spatial(w));
    const Sizes sizes = output_sizes(x.sizes[0], w.sizes[0], window, window.output());
    if (!window.symmetric()) {
      Sizes before(2, 0), after(2, 0);
      before.insert(before.end(), window.before.end() - window.spatial, window.before.end());
      after.insert(after.end(), window.after.end() - window.spatial, window.after.end());
      x = padded(run, x, before, after, 0);
      WindowAttributes inside = attributes;
      inside.auto_pad = "VALID";
      window = place_window(inside, spatial(x), spatial(w));
    }
    ops::ConvProblem p = problem_of(window, x.dtype);
    p.limits = limits;
    p.batch = x.sizes[0], p.in_channels = x.sizes[1], p.out_channels = w.sizes[0], p.groups = groups;
    p.output = window.output();
    need(groups > 0 && w.sizes[1] * groups == p.in_channels && p.out_channels % groups == 0,
         "channels and groups do not fit");
    const TensorView y = run.output(0, x.dtype, sizes);
    ops::convolution(run.queue(), ops::ConvPass::forward, p,
                     {x.data, w.data, y.data, run.has(2) ? run.dense(2).data : nullptr});
  };
}

Kernel convolution(const Node& node) { return limited_convolution(node, {}); }

// Made by fusion.cpp.
Kernel convolution_within(const Node& node) {
  const ops::ConvLimits all;
  return limited_convolution(node, {node.number("low", all.low), node.number("high", all.high)});
}

// Padding of a transposed convolution: given, or so that the output has output_shape or input * stride.
void place_transposed(const WindowAttributes& a, const Sizes& shape, const Sizes& extra, Window& w,
                      Window::Triple& output) {
  const bool same = a.auto_pad == "SAME_UPPER" || a.auto_pad == "SAME_LOWER";
  for (int d = 3 - w.spatial; d < 3; ++d) {
    const auto i = static_cast<size_t>(d - (3 - w.spatial));
    const int64_t more = extra.empty() ? 0 : extra.at(i);
    const int64_t full = (w.input[d] - 1) * w.stride[d] + more + w.dilation[d] * (w.kernel[d] - 1) + 1;
    output[d] = full - w.before[d] - w.after[d];
    if (shape.empty() && !same) continue;
    output[d] = shape.empty() ? w.input[d] * w.stride[d] : shape.at(shape.size() - static_cast<size_t>(w.spatial) + i);
    const int64_t total = std::max<int64_t>(0, full - output[d]);
    w.before[d] = a.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.after[d] = total - w.before[d];
  }
}

Kernel transposed(const Node& node) {
  const WindowAttributes attributes = window_attributes(node);
  const Sizes shape = node.integers("output_shape"), extra = node.integers("output_padding");
  const int64_t groups = node.integer("group", 1);
  for (const int64_t pad : attributes.padding) need(pad >= 0, "negative padding");
  need(!node.ranked(1) || (node.rank(1) >= 3 && node.rank(1) <= 5), "1 to 3 spatial dimensions");
  return [=](Run& run) {
    const TensorView y = run.dense(0), w = run.dense(1);
    need(y.dims >= 3 && y.dims <= 5 && w.dims == y.dims, "1 to 3 spatial dimensions");
    WindowAttributes given = attributes;
    if (given.auto_pad != "NOTSET") given.padding.clear();
    Window window = place_window({"NOTSET", {}, given.stride, given.padding, given.dilation}, spatial(y), spatial(w));
    Window::Triple output{1, 1, 1};
    place_transposed(given, shape, extra, window, output);
    // The gradient of the input of the convolution from `output` to y: computed for the padding in front on both
    // sides, then cropped or longer than what the padding behind leaves.
    ops::ConvProblem p = problem_of(window, y.dtype);
    p.batch = y.sizes[0], p.in_channels = w.sizes[1] * groups, p.out_channels = y.sizes[1], p.groups = groups;
    p.output = window.input, p.input = output, p.padding = window.before;
    need(groups > 0 && w.sizes[0] == p.out_channels && p.out_channels % groups == 0, "channels and groups do not fit");
    // The library wants sizes that the forward pass has: positions behind the last window are zero.
    Window::Triple covered = output;
    for (int d = 3 - window.spatial; d < 3; ++d)
      covered[d] = (window.input[d] - 1) * window.stride[d] + window.dilation[d] * (window.kernel[d] - 1) + 1 -
                   2 * window.before[d];
    const bool exact = covered == output;
    p.input = covered;
    Window::Triple positive = covered;
    for (int64_t& size : positive) size = std::max<int64_t>(size, 0);
    need(positive == covered, "padding beyond what the windows cover");
    const Sizes sizes = output_sizes(y.sizes[0], p.in_channels, window, output);
    const TensorView x = run.output(0, y.dtype, sizes);
    const TensorView computed =
        exact ? x : run.scratch(y.dtype, output_sizes(y.sizes[0], p.in_channels, window, covered));
    ops::convolution(run.queue(), ops::ConvPass::backward_data, p, {computed.data, w.data, y.data, nullptr});
    if (!exact) {
      Sizes before(sizes.size(), 0), after(sizes.size(), 0);
      for (size_t d = 2; d < sizes.size(); ++d) after[d] = sizes[d] - computed.sizes[d];
      ops::copy(run.queue(), x, padded(run, computed, before, after, 0));
    }
    if (run.has(2)) add_bias(run, x, run.dense(2));
  };
}

constexpr TypeSet floating{DType::float32, DType::float16, DType::float64};

constexpr Operator rows[] = {
    {"Conv", floating, convolution},
    {"ConvLimited", floating, convolution_within},
    {"ConvTranspose", floating, transposed},
};

}  // namespace

std::span<const Operator> convolution_operators() { return rows; }

}  // namespace ocl::ort
