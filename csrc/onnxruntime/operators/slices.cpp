// Operators that take parts of a tensor, or lay elements around it.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"
#include "ops/index/index.h"
#include "ops/pad/pad.h"

#include <algorithm>

namespace ocl::ort {

namespace {

// Starts, ends, axes and steps, as attributes (1) or inputs (10).
struct SliceArguments {
  Sizes starts, ends, axes, steps;
};

// Moves the start of one dimension, and sets its size and stride. Returns the offset in elements.
int64_t slice_dimension(TensorView& view, int d, int64_t start, int64_t end, int64_t step) {
  const int64_t n = view.sizes[d];
  need(step != 0, "a step of 0");
  const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? n - 1 : n;
  const auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, step < 0 ? int64_t{-1} : 0, highest); };
  const int64_t from = std::clamp(start < 0 ? start + n : start, int64_t{0}, std::max<int64_t>(highest, 0));
  // an end below -n means "before the first element", which only a negative step reaches
  const int64_t to = end < -n ? lowest : place(end);
  const int64_t span = step < 0 ? from - to : to - from;
  view.sizes[d] = n == 0 || span <= 0 ? 0 : ops::ceil_div(span, step < 0 ? -step : step);
  const int64_t offset = view.sizes[d] ? from * view.strides[d] : 0;
  view.strides[d] *= step;
  return offset;
}

void slice_run(Run& run, const SliceArguments& a) {
  const bool host = run.on_host(0);
  TensorView view = host ? TensorView::contiguous(nullptr, run.dtype(0), run.sizes(0)) : run.view(0);
  int64_t offset = 0;
  for (size_t i = 0; i < a.starts.size(); ++i) {
    const int d = axis_of(a.axes.empty() ? static_cast<int64_t>(i) : a.axes.at(i), view.dims);
    offset += slice_dimension(view, d, a.starts[i], a.ends.at(i), a.steps.empty() ? 1 : a.steps.at(i));
  }
  const Sizes sizes = sizes_of(view);
  if (host)
    return run.give(0,
                    host_strided(run.host(0), sizes, {view.strides.begin(), view.strides.begin() + view.dims}, offset));
  view.data = static_cast<char*>(view.data) + offset * static_cast<int64_t>(ops::size_of(view.dtype));
  const TensorView y = run.output(0, view.dtype, sizes);
  if (y.numel()) ops::copy_strided(run.queue(), y, view);
}

Kernel slice(const Node& node) {
  if (node.version < 10)
    return [a = SliceArguments{node.integers("starts"), node.integers("ends"), node.integers("axes"), {}}](Run& run) {
      slice_run(run, a);
    };
  return [](Run& run) {
    const auto given = [&](int input) { return run.has(input) ? run.host(input).integers : Sizes{}; };
    slice_run(run, {given(1), given(2), given(3), given(4)});
  };
}

Kernel split(const Node& node) {
  const int64_t axis = node.integer("axis", 0);
  return [axis, attribute = node.integers("split")](Run& run) {
    TensorView x = run.view(0);
    const int d = axis_of(axis, x.dims), n = run.outputs();
    Sizes parts = run.has(1) ? run.host(1).integers : attribute;
    const int64_t size = x.sizes[d], each = ops::ceil_div(size, n);
    if (parts.empty())
      for (int i = 0; i < n; ++i) parts.push_back(std::clamp<int64_t>(size - i * each, 0, each));
    need(static_cast<int>(parts.size()) == n, "the parts are not as many as the outputs");
    int64_t total = 0;
    for (const int64_t part : parts) total += part;
    need(total == size, "the parts do not add up");
    for (int i = 0; i < n; ++i) {
      x.sizes[d] = parts[static_cast<size_t>(i)];
      run.alias(i, 0, x);  // a view: who needs it row-major copies it
      x.data = static_cast<char*>(x.data) + x.sizes[d] * x.strides[d] * static_cast<int64_t>(ops::size_of(x.dtype));
    }
  };
}

struct Pads {
  Sizes before, after;
};

// Pads of all dimensions from those of the axes.
Pads pads_of(const Sizes& pads, const Sizes& axes, int rank) {
  const auto n = static_cast<size_t>(rank), given = pads.size() / 2;
  Pads p{Sizes(n, 0), Sizes(n, 0)};
  for (size_t i = 0; i < given; ++i) {
    const auto d = axes.empty() ? i : static_cast<size_t>(axis_of(axes.at(i), rank));
    p.before.at(d) = pads[i];
    p.after.at(d) = pads[given + i];
  }
  return p;
}

void constant_pad(Run& run, const Pads& pads, double value) {
  const TensorView x = run.view(0);
  Sizes sizes = sizes_of(x);
  for (size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] += pads.before[d] + pads.after[d];
    need(sizes[d] >= 0, "more is cropped than there is");
  }
  const TensorView filled = padded(run, x, pads.before, pads.after, value);
  const TensorView y = run.output(0, x.dtype, sizes);
  if (y.numel()) ops::copy_strided(run.queue(), y, filled);
}

// Reflection and replication of the last one to three dimensions.
void border_pad(Run& run, const Pads& pads, bool reflect) {
  const TensorView x = run.dense(0);
  ops::PadProblem p;
  p.reflect = reflect;
  p.dtype = x.dtype;
  Sizes sizes = sizes_of(x);
  for (int d = 0; d < x.dims; ++d) {
    const auto i = static_cast<size_t>(d);
    sizes[i] += pads.before[i] + pads.after[i];
    const int triple = d - (x.dims - 3);
    if (triple < 0) {
      need(pads.before[i] == 0 && pads.after[i] == 0, "borders of more than the last three dimensions");
      p.planes *= x.sizes[d];
      continue;
    }
    need(sizes[i] >= 0 && x.sizes[d] > 0, "more is cropped than there is");
    if (reflect) need(pads.before[i] < x.sizes[d] && pads.after[i] < x.sizes[d], "reflections of reflections");
    p.input[static_cast<size_t>(triple)] = x.sizes[d];
    p.output[static_cast<size_t>(triple)] = sizes[i];
    p.left[static_cast<size_t>(triple)] = pads.before[i];
  }
  const TensorView y = run.output(0, x.dtype, sizes);
  if (y.numel()) ops::pad_forward(run.queue(), p, x.data, y.data);
}

Kernel pad(const Node& node) {
  const std::string mode = node.text("mode", "constant");
  need(mode == "constant" || mode == "reflect" || mode == "edge", "this mode");
  if (node.version < 11) {
    need(node.version >= 2, "opset 1");
    return [mode, pads = node.integers("pads"), value = node.number("value", 0)](Run& run) {
      const Pads p = pads_of(pads, {}, run.rank(0));
      mode == "constant" ? constant_pad(run, p, value) : border_pad(run, p, mode == "reflect");
    };
  }
  return [mode](Run& run) {
    const Pads p = pads_of(run.host(1).integers, run.has(3) ? run.host(3).integers : Sizes{}, run.rank(0));
    if (mode != "constant") return border_pad(run, p, mode == "reflect");
    double value = 0;
    if (run.has(2)) {
      // a half number has no host type of its own
      if (HostTensor::handles(run.dtype(2)))
        value = run.host(2).real(0);
      else {
        const TensorView wide = run.scratch(DType::float32, run.sizes(2));
        ops::copy(run.queue(), wide, run.view(2));
        value = download(run.queue(), wide).real(0);
      }
    }
    constant_pad(run, p, value);
  };
}

constexpr Operator rows[] = {
    {"Slice", everything, slice},
    {"Split", everything, split, 2},
    {"Pad", numbers, pad},
};

}  // namespace

std::span<const Operator> slice_operators() { return rows; }

}  // namespace ocl::ort
