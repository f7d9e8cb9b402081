// Reductions over axes.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"
#include "ops/reduce/reduce.h"

#include <algorithm>

namespace ocl::ort {

namespace {

struct Reduced {
  Sizes sizes;  // of the result
  ops::DimMask dims = 0;
  int64_t count = 1;  // elements of one result
};

Reduced reduced(const Sizes& from, const std::vector<int>& axes, bool keep) {
  Reduced r;
  for (const int axis : axes) r.dims |= ops::DimMask{1} << axis;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool gone = r.dims >> d & 1;
    if (gone) r.count *= from[d];
    if (!gone || keep) r.sizes.push_back(gone ? 1 : from[d]);
  }
  return r;
}

// Axes are an attribute, or from 13 (ReduceSum) and 18 on an input.
std::vector<int> axes_given(Run& run, const Sizes& attribute, int rank) {
  return axes_of(run.has(1) ? run.host(1).integers : attribute, rank);
}

bool nothing_to_do(Run& run, const Sizes& attribute, bool noop) {
  return noop && (run.has(1) ? run.host(1).count() == 0 : attribute.empty());
}

// `before` is applied to the elements and `after` to the result, both rows of elementwise operators.
struct Recipe {
  ops::Reduction reduction;
  const char* before = nullptr;
  const char* after = nullptr;
};

void reduce_run(Run& run, const Recipe& recipe, const Sizes& attribute, bool keep, bool noop) {
  const Sizes from = run.sizes(0);
  TensorView x = run.view(0);
  const bool none = nothing_to_do(run, attribute, noop);
  const Reduced r =
      none ? reduced(from, {}, true) : reduced(from, axes_given(run, attribute, static_cast<int>(from.size())), keep);
  const DType type = x.dtype, compute = ops::compute_type(type);
  if (recipe.before && x.numel()) {
    const TensorView mapped = run.scratch(compute, from);  // squares of half numbers overflow
    ops::elementwise(run.queue(), ops::elementwise_row(recipe.before), compute, mapped, {x});
    x = mapped;
  }
  const TensorView y = run.output(0, type, r.sizes);
  if (y.numel() == 0) return;
  const TensorView whole_result = recipe.after ? run.scratch(compute, r.sizes) : y;
  ops::reduce(run.queue(), recipe.reduction, x, r.dims, whole_result, static_cast<double>(r.count));
  if (recipe.after) ops::elementwise(run.queue(), ops::elementwise_row(recipe.after), compute, y, {whole_result});
}

Kernel reduction(const Node& node, Recipe recipe) {
  return [=, attribute = node.integers("axes"), keep = node.integer("keepdims", 1) != 0,
          noop = node.integer("noop_with_empty_axes", 0) != 0](Run& run) {
    reduce_run(run, recipe, attribute, keep, noop);
  };
}

using R = ops::Reduction;
Kernel sum(const Node& node) { return reduction(node, {R::sum}); }
Kernel mean(const Node& node) { return reduction(node, {R::mean}); }
Kernel product(const Node& node) { return reduction(node, {R::prod}); }
Kernel maximum(const Node& node) { return reduction(node, {R::amax}); }
Kernel minimum(const Node& node) { return reduction(node, {R::amin}); }
Kernel norm_1(const Node& node) { return reduction(node, {R::norm_1}); }
Kernel norm_2(const Node& node) { return reduction(node, {R::norm_2}); }
Kernel sum_of_squares(const Node& node) { return reduction(node, {R::sum, "pow_2"}); }
Kernel log_of_sum(const Node& node) { return reduction(node, {R::sum, nullptr, "log"}); }

// log(sum(exp(x - max))) + max
Kernel log_sum_exp(const Node& node) {
  return [attribute = node.integers("axes"), keep = node.integer("keepdims", 1) != 0,
          noop = node.integer("noop_with_empty_axes", 0) != 0](Run& run) {
    const Sizes from = run.sizes(0);
    const TensorView x = run.view(0);
    const bool none = nothing_to_do(run, attribute, noop);
    const auto axes = none ? std::vector<int>{} : axes_given(run, attribute, static_cast<int>(from.size()));
    const Reduced r = reduced(from, axes, keep || none), kept = reduced(from, axes, true);
    const DType compute = ops::compute_type(x.dtype);
    const TensorView y = run.output(0, x.dtype, r.sizes);
    if (y.numel() == 0) return;
    const TensorView top = run.scratch(compute, kept.sizes), total = run.scratch(compute, kept.sizes);
    Queue& queue = run.queue();
    const auto apply = [&](const char* row, const TensorView& to, std::initializer_list<TensorView> inputs) {
      ops::elementwise(queue, ops::elementwise_row(row), compute, to, inputs);
    };
    ops::reduce(queue, R::amax, x, kept.dims, top);
    // an infinite maximum would make NaN of the difference
    ops::elementwise(queue, ops::elementwise_row("nan_to_num"), compute, top, {top}, {0.0, 0.0, 0.0});
    if (x.numel()) {
      const TensorView shifted = run.scratch(compute, from);
      apply("sub", shifted, {x, broadcast(top, from)});
      apply("exp", shifted, {shifted});
      ops::reduce(queue, R::sum, shifted, kept.dims, total);
    } else {
      ops::zero(queue, total);
    }
    apply("log", total, {total});
    apply("add", y, {reshaped(total, r.sizes), reshaped(top, r.sizes)});
  };
}

Kernel best(const Node& node, ops::Reduction kind) {
  need(node.integer("select_last_index", 0) == 0, "the last of equal values");
  const int64_t axis = node.integer("axis", 0);
  const bool keep = node.integer("keepdims", 1) != 0;
  return [=](Run& run) {
    const TensorView x = run.view(0);
    const Reduced r = reduced(sizes_of(x), {axis_of(axis, x.dims)}, keep);
    const TensorView y = run.output(0, DType::int64, r.sizes);
    TensorView value = y;
    value.data = nullptr, value.dtype = x.dtype;
    if (y.numel()) ops::reduce(run.queue(), kind, x, r.dims, value, 0, y);
  };
}

Kernel arg_max(const Node& node) { return best(node, R::argmax); }
Kernel arg_min(const Node& node) { return best(node, R::argmin); }

constexpr TypeSet sums = floats | TypeSet{DType::int64, DType::int32};

constexpr Operator rows[] = {
    {"ReduceSum", sums, sum},
    {"ReduceMean", floats, mean},
    {"ReduceProd", sums, product},
    {"ReduceMax", numbers, maximum},
    {"ReduceMin", numbers, minimum},
    {"ReduceL1", floats, norm_1},
    {"ReduceL2", floats, norm_2},
    {"ReduceSumSquare", floats, sum_of_squares},
    {"ReduceLogSum", floats, log_of_sum},
    {"ReduceLogSumExp", floats, log_sum_exp},
    {"ArgMax", numbers, arg_max},
    {"ArgMin", numbers, arg_min},
};

}  // namespace

std::span<const Operator> reduction_operators() { return rows; }

}  // namespace ocl::ort
