// Pools with windows, and over everything.
#include "onnxruntime/operators/common.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"

#include <limits>

namespace ocl::ort {

namespace {

ops::PoolProblem problem_of(const TensorView& x, const Window& w, const Window::Triple& output, ops::PoolKind kind) {
  ops::PoolProblem p;
  p.kind = kind;
  p.dtype = x.dtype;
  p.batch = x.sizes[0], p.channels = x.sizes[1];
  p.input = w.input, p.kernel = w.kernel, p.stride = w.stride, p.padding = w.before, p.dilation = w.dilation;
  p.output = output;
  return p;
}

Sizes spatial(const TensorView& x) { return {x.sizes.begin() + 2, x.sizes.begin() + x.dims}; }

Sizes output_sizes(const TensorView& x, const Window& w, const Window::Triple& output) {
  Sizes sizes{x.sizes[0], x.sizes[1]};
  sizes.insert(sizes.end(), output.end() - w.spatial, output.end());
  return sizes;
}

// What both kinds of windows check and read.
WindowAttributes attributes_of(const Node& node) {
  need(!node.ranked(0) || (node.rank(0) >= 3 && node.rank(0) <= 5), "1 to 3 spatial dimensions");
  WindowAttributes attributes = window_attributes(node);
  for (const int64_t pad : attributes.padding) need(pad >= 0, "negative padding");
  return attributes;
}

Kernel max_pool(const Node& node) {
  need(!node.gives(1), "indices");
  const WindowAttributes attributes = attributes_of(node);
  const bool ceil_mode = node.integer("ceil_mode", 0) != 0;
  return [=](Run& run) {
    const TensorView x = run.dense(0);
    const Window w = place_window(attributes, spatial(x), attributes.kernel);
    const Window::Triple output = pooled_output(w, ceil_mode);
    const TensorView y = run.output(0, x.dtype, output_sizes(x, w, output));
    const TensorView index = run.scratch(DType::int64, sizes_of(y));
    ops::pool_forward(run.queue(), problem_of(x, w, output, ops::PoolKind::max), x.data, y.data, index.data);
  };
}

Kernel average_pool(const Node& node) {
  const WindowAttributes attributes = attributes_of(node);
  for (const int64_t dilation : attributes.dilation) need(dilation == 1, "dilated averages");
  const bool ceil_mode = node.integer("ceil_mode", 0) != 0, count_padding = node.integer("count_include_pad", 0) != 0;
  need(!ceil_mode || !count_padding, "padding that counts, with ceil_mode");
  return [=](Run& run) {
    TensorView x = run.dense(0);
    Window w = place_window(attributes, spatial(x), attributes.kernel);
    Window::Triple output = pooled_output(w, ceil_mode);
    if (count_padding && !w.symmetric()) {
      Sizes before(2, 0), after(2, 0);
      before.insert(before.end(), w.before.end() - w.spatial, w.before.end());
      after.insert(after.end(), w.after.end() - w.spatial, w.after.end());
      x = padded(run, x, before, after, 0);
      WindowAttributes inside = attributes;
      inside.auto_pad = "VALID";
      w = place_window(inside, spatial(x), attributes.kernel);
    }
    const TensorView y = run.output(0, x.dtype, output_sizes(x, w, output));
    ops::PoolProblem p = problem_of(x, w, output, ops::PoolKind::average);
    p.count_include_pad = count_padding;
    ops::pool_forward(run.queue(), p, x.data, y.data, nullptr);
  };
}

Kernel global(ops::Reduction reduction) {
  return [reduction](Run& run) {
    const TensorView x = run.view(0);
    Sizes sizes = sizes_of(x);
    ops::DimMask dims = 0;
    int64_t count = 1;
    for (int d = 2; d < x.dims; ++d) {
      dims |= ops::DimMask{1} << d;
      count *= x.sizes[d];
      sizes[static_cast<size_t>(d)] = 1;
    }
    ops::reduce(run.queue(), reduction, x, dims, run.output(0, x.dtype, sizes), static_cast<double>(count));
  };
}

Kernel global_average(const Node&) { return global(ops::Reduction::mean); }
Kernel global_max(const Node&) { return global(ops::Reduction::amax); }

constexpr Operator rows[] = {
    {"MaxPool", floats, max_pool},
    {"AveragePool", floats, average_pool},
    {"GlobalAveragePool", floats, global_average},
    {"GlobalMaxPool", floats, global_max},
};

}  // namespace

std::span<const Operator> pooling_operators() { return rows; }

}  // namespace ocl::ort
