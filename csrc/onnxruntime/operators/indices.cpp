// Operators that read or write at indices. Negative indices count from the end.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"
#include "ops/index/index.h"
#include "ops/index/indexed.h"

namespace ocl::ort {

namespace {

constexpr TypeSet index_types{DType::int64, DType::int32};

void need_indices(const Node& node, size_t input) {
  need(index_types.has(node.dtype(input)), "indices that are no integers");
}

const ops::ErrorSite& gather_site() {
  static const ops::ErrorSite site("Gather");
  return site;
}

Kernel gather(const Node& node) {
  need_indices(node, 1);
  const int64_t axis = node.integer("axis", 0);
  return [axis](Run& run) {
    const Sizes from = run.sizes(0), picked = run.sizes(1);
    const auto at = static_cast<size_t>(axis_of(axis, static_cast<int>(from.size())));
    Sizes sizes(from.begin(), from.begin() + static_cast<int64_t>(at));
    sizes.insert(sizes.end(), picked.begin(), picked.end());
    sizes.insert(sizes.end(), from.begin() + static_cast<int64_t>(at) + 1, from.end());
    const int64_t n = from[at], k = count_of(picked);
    if (from.size() == 1 && run.all_on_host() && k <= host_limit) {
      const HostTensor &x = run.host(0), &index = run.host(1);
      return run.give(0, host_pick(x, sizes, [&](int64_t i) {
                        const int64_t chosen = index.integers[static_cast<size_t>(i)];
                        need(chosen >= -n && chosen < n, "an index is out of range");
                        return chosen < 0 ? chosen + n : chosen;
                      }));
    }
    const TensorView x = run.dense(0), index = run.dense(1), y = run.output(0, x.dtype, sizes);
    if (y.numel() == 0) return;
    const std::span all(from);
    const int64_t outer = count_of(all.first(at)), inner = count_of(all.subspan(at + 1));
    const Sizes shape{outer, k, inner};
    ops::IndexedOperands operands;
    operands.destination = reshaped(y, shape);
    operands.source = TensorView::strided(x.data, x.dtype, shape, std::array{n * inner, int64_t{0}, int64_t{1}});
    operands.index = TensorView::strided(index.data, index.dtype, shape, std::array<int64_t, 3>{0, 1, 0});
    operands.side = ops::IndexSide::source;
    operands.limit = n, operands.step = inner, operands.wraps = true;
    ops::indexed(run.queue(), operands, ops::Combine::assign, false, gather_site());
  };
}

// A view with the sizes of the indices that does not move along the axis.
TensorView fixed_along(TensorView view, int axis, const TensorView& index) {
  view.sizes = index.sizes;
  view.strides[axis] = 0;
  return view;
}

Kernel gather_elements(const Node& node) {
  need_indices(node, 1);
  const int64_t axis = node.integer("axis", 0);
  return [axis](Run& run) {
    const TensorView x = run.view(0), index = run.view(1);
    const int at = axis_of(axis, x.dims);
    need(x.dims == index.dims && x.dims > 0, "the numbers of dimensions differ");
    const TensorView y = run.output(0, x.dtype, sizes_of(index));
    if (y.numel() == 0) return;
    static const ops::ErrorSite site("GatherElements");
    ops::IndexedOperands operands{
        y, fixed_along(x, at, index), index, ops::IndexSide::source, x.sizes[at], x.strides[at], true};
    ops::indexed(run.queue(), operands, ops::Combine::assign, false, site);
  };
}

ops::Combine combination(const std::string& reduction) {
  using ops::Combine;
  if (reduction == "none") return Combine::assign;
  if (reduction == "add") return Combine::add;
  if (reduction == "mul") return Combine::multiply;
  if (reduction == "min") return Combine::minimum;
  need(reduction == "max", "this reduction");
  return Combine::maximum;
}

// Output 0 is a copy of input 0.
TensorView copied(Run& run) {
  const TensorView x = run.view(0), y = run.output(0, x.dtype, sizes_of(x));
  if (y.numel()) ops::copy_strided(run.queue(), y, x);
  return y;
}

Kernel scatter_elements(const Node& node) {
  need_indices(node, 1);
  const int64_t axis = node.integer("axis", 0);
  const ops::Combine combine = combination(node.text("reduction", "none"));
  return [=](Run& run) {
    const TensorView index = run.view(1), updates = run.view(2), y = copied(run);
    const int at = axis_of(axis, y.dims);
    need(y.dims == index.dims && sizes_of(updates) == sizes_of(index) && y.dims > 0, "the sizes do not fit");
    if (index.numel() == 0 || y.numel() == 0) return;
    static const ops::ErrorSite site("ScatterElements");
    ops::IndexedOperands operands{
        fixed_along(y, at, index), updates, index, ops::IndexSide::destination, y.sizes[at], y.strides[at], true};
    ops::indexed(run.queue(), operands, combine, false, site);
  };
}

// Tuples of indices into the dimensions [batch, batch + depth) of x, over [batches, tuples, slice].
struct Tuples {
  std::vector<TensorView> indices;
  Sizes sizes, strides;
  Sizes shape;
  TensorView self;

  ops::AdvancedIndex index() const { return {self, indices, sizes, strides}; }
};

Tuples tuples_of(const TensorView& x, const TensorView& index, int batch) {
  const int depth = static_cast<int>(index.size(-1));
  need(batch + depth <= x.dims && batch < index.dims, "the indices do not fit");
  Tuples t;
  int64_t batches = 1, tuples = 1, slice = 1, batch_step = 1;
  for (int d = 0; d < batch; ++d) batches *= x.sizes[d];
  for (int d = batch; d < x.dims; ++d) batch_step *= x.sizes[d];
  for (int d = batch; d < index.dims - 1; ++d) tuples *= index.sizes[d];
  for (int d = batch + depth; d < x.dims; ++d) slice *= x.sizes[d];
  t.shape = {batches, tuples, slice};
  t.self = TensorView::strided(x.data, x.dtype, t.shape, std::array{batch_step, int64_t{0}, int64_t{1}});
  for (int i = 0; i < depth; ++i) {
    void* at = static_cast<char*>(index.data) + i * static_cast<int64_t>(ops::size_of(index.dtype));
    t.indices.push_back(
        TensorView::strided(at, index.dtype, t.shape, std::array<int64_t, 3>{tuples * depth, depth, 0}));
    t.sizes.push_back(x.sizes[batch + i]);
    t.strides.push_back(x.strides[batch + i]);
  }
  return t;
}

Kernel gather_nd(const Node& node) {
  need_indices(node, 1);
  const auto batch = static_cast<int>(node.integer("batch_dims", 0));
  return [batch](Run& run) {
    const TensorView x = run.dense(0), index = run.dense(1);
    need(index.dims > 0, "the indices are a scalar");
    Sizes sizes(index.sizes.begin(), index.sizes.begin() + index.dims - 1);
    sizes.insert(sizes.end(), x.sizes.begin() + batch + index.size(-1), x.sizes.begin() + x.dims);
    const TensorView y = run.output(0, x.dtype, sizes);
    if (y.numel() == 0) return;
    const Tuples t = tuples_of(x, index, batch);
    ops::index(run.queue(), reshaped(y, t.shape), t.index());
  };
}

Kernel scatter_nd(const Node& node) {
  need_indices(node, 1);
  const std::string reduction = node.text("reduction", "none");
  need(reduction == "none" || reduction == "add", "this reduction");
  return [add = reduction == "add"](Run& run) {
    const TensorView index = run.dense(1), updates = run.dense(2), y = copied(run);
    need(index.dims > 0, "the indices are a scalar");
    const Tuples t = tuples_of(y, index, 0);
    need(count_of(t.shape) == updates.numel(), "the sizes do not fit");
    if (updates.numel()) ops::index_put(run.queue(), t.index(), reshaped(updates, t.shape), add, false);
  };
}

constexpr Operator rows[] = {
    {"Gather", everything, gather},         {"GatherElements", everything, gather_elements},
    {"GatherND", everything, gather_nd},    {"ScatterElements", numbers, scatter_elements},
    {"Scatter", numbers, scatter_elements}, {"ScatterND", numbers, scatter_nd},
};

}  // namespace

std::span<const Operator> index_operators() { return rows; }

}  // namespace ocl::ort
