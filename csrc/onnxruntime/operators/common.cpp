#include "onnxruntime/operators/common.h"

#include "ops/index/index.h"

#include <algorithm>
#include <numeric>

namespace ocl::ort {

Sizes broadcast_sizes(std::span<const Sizes> all) {
  size_t rank = 0;
  for (const Sizes& sizes : all) rank = std::max(rank, sizes.size());
  Sizes result(rank, 1);
  for (const Sizes& sizes : all) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t& to = result[rank - sizes.size() + i];
      if (to == sizes[i] || sizes[i] == 1) continue;
      need(to == 1, "the sizes do not broadcast");
      to = sizes[i];
    }
  }
  return result;
}

TensorView broadcast(const TensorView& view, const Sizes& sizes) {
  const int rank = static_cast<int>(sizes.size()), lead = rank - view.dims;
  need(lead >= 0 && rank <= ops::max_dims, "the sizes do not broadcast");
  TensorView wide = view;
  wide.dims = rank;
  for (int d = 0; d < rank; ++d) {
    const bool there = d >= lead;
    wide.sizes[d] = sizes[d];
    const bool repeated = !there || (view.sizes[d - lead] == 1 && sizes[d] != 1);
    need(repeated || view.sizes[d - lead] == sizes[d], "the sizes do not broadcast");
    wide.strides[d] = repeated ? 0 : view.strides[d - lead];
  }
  return wide;
}

TensorView permuted(const TensorView& view, std::span<const int> order) {
  TensorView result = view;
  for (int d = 0; d < view.dims; ++d) {
    result.sizes[d] = view.sizes[order[d]];
    result.strides[d] = view.strides[order[d]];
  }
  return result;
}

TensorView reshaped(const TensorView& dense, const Sizes& sizes) {
  return TensorView::contiguous(dense.data, dense.dtype, sizes);
}

void elementwise_output(Run& run, int output, const char* row, DType compute, DType result,
                        std::initializer_list<int> inputs, std::initializer_list<ops::ElementwiseScalar> scalars) {
  std::vector<Sizes> all;
  for (const int i : inputs) all.push_back(run.sizes(i));
  const Sizes sizes = broadcast_sizes(all);
  std::array<TensorView, 3> views;
  size_t n = 0;
  for (const int i : inputs) views.at(n++) = broadcast(run.view(i), sizes);
  const TensorView y = run.output(output, result, sizes);
  if (count_of(sizes) == 0) return;
  const ops::ElementwiseRow& found = ops::elementwise_row(row);
  const DType type = ops::compute_type(compute);
  if (n == 1)
    ops::elementwise(run.queue(), found, type, y, {views[0]}, scalars);
  else if (n == 2)
    ops::elementwise(run.queue(), found, type, y, {views[0], views[1]}, scalars);
  else
    ops::elementwise(run.queue(), found, type, y, {views[0], views[1], views[2]}, scalars);
}

std::vector<int> axes_of(std::span<const int64_t> axes, int rank) {
  std::vector<int> result;
  for (const int64_t axis : axes) result.push_back(axis_of(axis, rank));
  if (!axes.empty()) return result;
  result.resize(static_cast<size_t>(rank));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

WindowAttributes window_attributes(const Node& node) {
  return {node.text("auto_pad", "NOTSET"), node.integers("kernel_shape"), node.integers("strides"),
          node.integers("pads"), node.integers("dilations")};
}

Window::Triple Window::output() const {
  Triple sizes{1, 1, 1};
  for (int d = 3 - spatial; d < 3; ++d) {
    const int64_t room = input[d] + before[d] + after[d] - dilation[d] * (kernel[d] - 1) - 1;
    need(room >= 0, "the window is larger than the padded input");
    sizes[d] = room / stride[d] + 1;
  }
  return sizes;
}

Window place_window(const WindowAttributes& a, const Sizes& input, const Sizes& kernel) {
  Window w;
  w.spatial = static_cast<int>(input.size());
  need(w.spatial >= 1 && w.spatial <= 3 && kernel.size() == input.size(), "1 to 3 spatial dimensions");
  const auto given = [&](const Sizes& values, size_t i, int64_t otherwise) {
    return values.empty() ? otherwise : values.at(i);
  };
  for (size_t i = 0; i < input.size(); ++i) {
    const size_t d = 3 - input.size() + i;
    w.input[d] = input[i];
    w.kernel[d] = kernel[i];
    w.stride[d] = given(a.stride, i, 1);
    w.dilation[d] = given(a.dilation, i, 1);
    need(w.stride[d] > 0 && w.dilation[d] > 0 && w.kernel[d] > 0, "strides, dilations and windows must be positive");
    if (a.auto_pad == "SAME_UPPER" || a.auto_pad == "SAME_LOWER") {
      const int64_t out = ops::ceil_div(w.input[d], w.stride[d]);
      const int64_t total =
          std::max<int64_t>(0, (out - 1) * w.stride[d] + w.dilation[d] * (w.kernel[d] - 1) + 1 - w.input[d]);
      w.before[d] = a.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.after[d] = total - w.before[d];
    } else if (a.auto_pad != "VALID") {
      w.before[d] = given(a.padding, i, 0);
      w.after[d] = given(a.padding, i + input.size(), 0);
    }
  }
  return w;
}

Window::Triple pooled_output(const Window& w, bool ceil_mode) {
  if (!ceil_mode) return w.output();
  Window::Triple sizes{1, 1, 1};
  for (int d = 3 - w.spatial; d < 3; ++d) {
    const int64_t room = w.input[d] + w.before[d] + w.after[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
    sizes[d] = ops::ceil_div(std::max<int64_t>(room, 0), w.stride[d]) + 1;
    // A window that would begin in the padding behind the input is none.
    if ((sizes[d] - 1) * w.stride[d] >= w.input[d] + w.before[d]) --sizes[d];
  }
  return sizes;
}

TensorView padded(Run& run, const TensorView& x, const Sizes& before, const Sizes& after, double value) {
  Sizes sizes = sizes_of(x);
  for (size_t d = 0; d < sizes.size(); ++d) sizes[d] += before[d] + after[d];
  const TensorView y = run.scratch(x.dtype, sizes);
  ops::elementwise(run.queue(), ops::elementwise_row("fill"), ops::compute_type(x.dtype), y, {}, {value});
  TensorView from = x, to = y;
  for (int d = 0; d < x.dims; ++d) {
    const auto i = static_cast<size_t>(d);
    const int64_t skipped = std::max<int64_t>(0, -before[i]);
    const int64_t count = x.sizes[d] - skipped - std::max<int64_t>(0, -after[i]);
    if (count <= 0) return y;
    from.sizes[d] = to.sizes[d] = count;
    from.data = static_cast<char*>(from.data) + skipped * x.strides[d] * static_cast<int64_t>(ops::size_of(x.dtype));
    to.data = static_cast<char*>(to.data) +
              std::max<int64_t>(0, before[i]) * y.strides[d] * static_cast<int64_t>(ops::size_of(x.dtype));
  }
  ops::copy_strided(run.queue(), to, from);
  return y;
}

}  // namespace ocl::ort
