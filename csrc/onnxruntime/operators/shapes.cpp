// Operators that change sizes, order and place of elements.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"
#include "ops/index/index.h"
#include "ops/shape/shape.h"

#include <algorithm>
#include <numeric>

namespace ocl::ort {

namespace {

// Output 0 is input 0 with other sizes.
void give_reshaped(Run& run, const Sizes& sizes) {
  need(count_of(sizes) == count_of(run.sizes(0)), "the number of elements changes");
  if (run.on_host(0)) {
    HostTensor t = run.host(0);
    t.sizes = sizes;
    return run.give(0, std::move(t));
  }
  const TensorView x = run.dense(0);
  run.alias(0, 0, reshaped(x, sizes));
}

Kernel reshape(const Node& node) {
  need(node.version >= 5, "sizes as an attribute");
  const bool zero = node.integer("allowzero", 0) != 0;
  return [zero](Run& run) {
    const Sizes from = run.sizes(0);
    Sizes sizes = run.host(1).integers;
    int64_t known = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 0 && !zero) {
        need(d < from.size(), "a size is to be copied from a dimension that is not there");
        sizes[d] = from[d];
      }
      if (sizes[d] >= 0) known *= sizes[d];
    }
    for (int64_t& size : sizes)
      if (size < 0) size = known ? count_of(from) / known : 0;
    give_reshaped(run, sizes);
  };
}

Kernel flatten(const Node& node) {
  const int64_t axis = node.integer("axis", 1);
  return [axis](Run& run) {
    const Sizes from = run.sizes(0);
    const auto rank = static_cast<int64_t>(from.size());
    const int64_t at = axis < 0 ? axis + rank : axis;
    need(at >= 0 && at <= rank, "the axis is out of range");
    const std::span all(from);
    give_reshaped(run, {count_of(all.first(static_cast<size_t>(at))), count_of(all.subspan(static_cast<size_t>(at)))});
  };
}

// Axes are an attribute, or from 13 on an input.
Sizes axes_given(Run& run, const Sizes& attribute) { return run.has(1) ? run.host(1).integers : attribute; }

Kernel squeeze(const Node& node) {
  return [attribute = node.integers("axes")](Run& run) {
    const Sizes from = run.sizes(0), axes = axes_given(run, attribute);
    const int rank = static_cast<int>(from.size());
    std::vector<bool> drop(from.size());
    for (size_t d = 0; d < from.size(); ++d) drop[d] = axes.empty() && !run.has(1) && from[d] == 1;
    for (const int64_t axis : axes) drop[static_cast<size_t>(axis_of(axis, rank))] = true;
    Sizes sizes;
    for (size_t d = 0; d < from.size(); ++d)
      if (!drop[d]) sizes.push_back(from[d]);
    give_reshaped(run, sizes);
  };
}

Kernel unsqueeze(const Node& node) {
  return [attribute = node.integers("axes")](Run& run) {
    const Sizes from = run.sizes(0), axes = axes_given(run, attribute);
    const int rank = static_cast<int>(from.size() + axes.size());
    std::vector<bool> added(static_cast<size_t>(rank));
    for (const int64_t axis : axes) added[static_cast<size_t>(axis_of(axis, rank))] = true;
    Sizes sizes;
    auto next = from.begin();
    for (const bool one : added) sizes.push_back(one || next == from.end() ? 1 : *next++);
    give_reshaped(run, sizes);
  };
}

Kernel identity(const Node&) {
  return [](Run& run) {
    if (run.on_host(0)) return run.give(0, run.host(0));
    run.alias(0, 0, run.view(0));
  };
}

Kernel dropout(const Node& node) {
  need(node.version >= 7, "training");
  if (node.has(2)) need(node.constant(2) && node.constant(2)->integer(0) == 0, "training");
  return [](Run& run) {
    const TensorView x = run.view(0);
    run.alias(0, 0, x);
    if (!run.wants(1)) return;
    const TensorView mask = run.output(1, DType::boolean, sizes_of(x));
    if (mask.numel())
      ops::elementwise(run.queue(), ops::elementwise_row("fill"), DType::boolean, mask, {}, {int64_t{1}});
  };
}

Kernel transpose(const Node& node) {
  return [given = node.integers("perm")](Run& run) {
    const int rank = run.rank(0);
    std::vector<int> order;
    if (given.empty())
      for (int d = rank; d-- > 0;) order.push_back(d);
    for (const int64_t d : given) order.push_back(axis_of(d, rank));
    need(static_cast<int>(order.size()) == rank, "perm has another number of dimensions");
    run.alias(0, 0, permuted(run.view(0), order));
  };
}

Kernel shape(const Node& node) {
  const int64_t start = node.integer("start", 0), end = node.integer("end", INT64_MAX);
  return [=](Run& run) {
    const Sizes sizes = run.sizes(0);
    const auto rank = static_cast<int64_t>(sizes.size());
    const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t from = clamped(start), to = std::max(from, clamped(end));
    run.give(0, HostTensor::of({sizes.begin() + from, sizes.begin() + to}));
  };
}

Kernel size(const Node&) {
  return [](Run& run) { run.give(0, HostTensor::scalar(count_of(run.sizes(0)))); };
}

Kernel concat(const Node& node) {
  need(node.version >= 4, "a default axis");
  const int64_t axis = node.integer("axis", 0);
  return [axis](Run& run) {
    const int at = axis_of(axis, run.rank(0));
    Sizes sizes = run.sizes(0);
    sizes[static_cast<size_t>(at)] = 0;
    for (int i = 0; i < run.inputs(); ++i) sizes[static_cast<size_t>(at)] += run.sizes(i)[static_cast<size_t>(at)];
    if (sizes.size() == 1 && sizes[0] <= host_limit && run.all_on_host()) {
      HostTensor t{run.dtype(0), sizes, {}, {}};
      for (int i = 0; i < run.inputs(); ++i) {
        const HostTensor& part = run.host(i);
        t.integers.insert(t.integers.end(), part.integers.begin(), part.integers.end());
        t.reals.insert(t.reals.end(), part.reals.begin(), part.reals.end());
      }
      return run.give(0, std::move(t));
    }
    std::vector<TensorView> parts;
    for (int i = 0; i < run.inputs(); ++i) {
      const TensorView part = run.view(i);
      Sizes fits = sizes_of(part);
      need(fits.size() == sizes.size(), "the numbers of dimensions differ");
      fits[static_cast<size_t>(at)] = sizes[static_cast<size_t>(at)];
      need(fits == sizes, "the sizes do not fit");
      parts.push_back(part);
    }
    const TensorView y = run.output(0, run.dtype(0), sizes);
    if (y.numel()) ops::concatenate(run.queue(), y, parts, at);
  };
}

Kernel expand(const Node&) {
  return [](Run& run) {
    const Sizes sizes = broadcast_sizes(std::array{run.sizes(0), run.host(1).integers});
    if (run.on_host(0) && count_of(sizes) <= host_limit) {
      const TensorView view = broadcast(TensorView::contiguous(nullptr, run.dtype(0), run.sizes(0)), sizes);
      return run.give(0, host_strided(run.host(0), sizes, {view.strides.begin(), view.strides.begin() + view.dims}, 0));
    }
    const TensorView x = broadcast(run.view(0), sizes), y = run.output(0, x.dtype, sizes);
    if (y.numel()) ops::copy_strided(run.queue(), y, x);
  };
}

Kernel tile(const Node& node) {
  need(node.version >= 6, "opset 1");
  return [](Run& run) {
    const TensorView x = run.view(0);
    const Sizes repeats = run.host(1).integers;
    need(static_cast<int>(repeats.size()) == x.dims && 2 * x.dims <= ops::max_dims, "repeats do not fit");
    Sizes sizes = sizes_of(x);
    TensorView from = x;
    Sizes split;
    from.dims = 2 * x.dims;
    for (int d = 0; d < x.dims; ++d) {
      const int64_t times = repeats[static_cast<size_t>(d)];
      from.sizes[2 * d] = times, from.strides[2 * d] = 0;
      from.sizes[2 * d + 1] = x.sizes[d], from.strides[2 * d + 1] = x.strides[d];
      split.insert(split.end(), {times, x.sizes[d]});
      sizes[static_cast<size_t>(d)] *= times;
    }
    const TensorView y = run.output(0, x.dtype, sizes);
    if (y.numel()) ops::copy_strided(run.queue(), reshaped(y, split), from);
  };
}

// x [N, C, H, W] seen with the sizes `split`, its dimensions then in `order`, copied to an output of `sizes`.
void rearrange(Run& run, const Sizes& split, std::span<const int> order, const Sizes& sizes) {
  const TensorView from = permuted(reshaped(run.dense(0), split), order);
  const TensorView y = run.output(0, from.dtype, sizes);
  if (y.numel()) ops::copy_strided(run.queue(), reshaped(y, sizes_of(from)), from);
}

Kernel depth_to_space(const Node& node) {
  const int64_t b = node.integer("blocksize", 0);
  const bool columns_first = node.text("mode", "DCR") == "CRD";
  need(b > 0, "no blocksize");
  return [=](Run& run) {
    const Sizes s = run.sizes(0);
    need(s.size() == 4 && s[1] % (b * b) == 0, "the channels do not fall into blocks");
    const int64_t c = s[1] / (b * b);
    const Sizes sizes{s[0], c, s[2] * b, s[3] * b};
    if (columns_first) return rearrange(run, {s[0], c, b, b, s[2], s[3]}, std::array{0, 1, 4, 2, 5, 3}, sizes);
    rearrange(run, {s[0], b, b, c, s[2], s[3]}, std::array{0, 3, 4, 1, 5, 2}, sizes);
  };
}

Kernel space_to_depth(const Node& node) {
  const int64_t b = node.integer("blocksize", 0);
  const bool columns_first = node.text("mode", "DCR") == "CRD";
  need(b > 0, "no blocksize");
  return [=](Run& run) {
    const Sizes s = run.sizes(0);
    need(s.size() == 4 && s[2] % b == 0 && s[3] % b == 0, "the sizes do not fall into blocks");
    rearrange(run, {s[0], s[1], s[2] / b, b, s[3] / b, b},
              columns_first ? std::array{0, 1, 3, 5, 2, 4} : std::array{0, 3, 5, 1, 2, 4},
              {s[0], s[1] * b * b, s[2] / b, s[3] / b});
  };
}

constexpr Operator rows[] = {
    {"Reshape", everything, reshape},
    {"Flatten", everything, flatten},
    {"Squeeze", everything, squeeze},
    {"Unsqueeze", everything, unsqueeze},
    {"Identity", everything, identity},
    {"Dropout", floats, dropout},
    {"Transpose", everything, transpose},
    {"Shape", everything, shape},
    {"Size", everything, size},
    {"Concat", everything, concat},
    {"Expand", everything, expand},
    {"Tile", everything, tile},
    {"DepthToSpace", everything, depth_to_space},
    {"SpaceToDepth", everything, space_to_depth},
};

}  // namespace

std::span<const Operator> shape_operators() { return rows; }

}  // namespace ocl::ort
