// Operators that make numbers, order them and add them up.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"
#include "ops/index/compact.h"
#include "ops/index/index.h"
#include "ops/scan/scan.h"
#include "ops/shape/shape.h"
#include "ops/sort/sort.h"

#include <cmath>

namespace ocl::ort {

namespace {

Kernel range(const Node& node) {
  need(HostTensor::handles(node.dtype(0)), "not for this element type");
  return [](Run& run) {
    const HostTensor start = run.host(0), limit = run.host(1), delta = run.host(2);
    need(delta.real(0) != 0, "a delta of 0");
    int64_t n = 0;
    if (start.whole()) {
      const int64_t span = limit.integer(0) - start.integer(0), step = delta.integer(0);
      n = (span > 0) == (step > 0) && span != 0 ? ops::ceil_div(std::abs(span), std::abs(step)) : 0;
    } else {
      n = std::max<int64_t>(0, static_cast<int64_t>(std::ceil((limit.real(0) - start.real(0)) / delta.real(0))));
    }
    if (start.whole() && n <= host_limit) {
      HostTensor t{start.dtype, {n}, {}, {}};
      for (int64_t i = 0; i < n; ++i) t.integers.push_back(start.integer(0) + i * delta.integer(0));
      return run.give(0, std::move(t));
    }
    const TensorView y = run.output(0, start.dtype, {n});
    if (n == 0) return;
    ops::Progression p;
    p.start = start.real(0), p.step = delta.real(0);
    p.integer_start = start.integer(0), p.integer_step = delta.integer(0);
    ops::progression(run.queue(), y, ops::ProgressionKind::arange, p);
  };
}

Kernel constant_of_shape(const Node& node) {
  const Attribute* value = node.attribute("value");
  need(!value || value->tensor, "not for this element type");
  const HostTensor one = value ? *value->tensor : HostTensor{DType::float32, {1}, {}, {0}};
  need(one.count() == 1, "a value that is not one element");
  return [one](Run& run) {
    const Sizes sizes = run.host(0).integers;
    const auto n = static_cast<size_t>(count_of(sizes));
    if (static_cast<int64_t>(n) <= host_limit) {
      HostTensor t{one.dtype, sizes, {}, {}};
      if (one.whole())
        t.integers.assign(n, one.integers[0]);
      else
        t.reals.assign(n, one.reals[0]);
      return run.give(0, std::move(t));
    }
    const TensorView y = run.output(0, one.dtype, sizes);
    const ops::ElementwiseScalar scalar =
        one.whole() ? ops::ElementwiseScalar(one.integers[0]) : ops::ElementwiseScalar(one.reals[0]);
    ops::elementwise(run.queue(), ops::elementwise_row("fill"), ops::compute_type(one.dtype), y, {}, {scalar});
  };
}

Kernel constant(const Node& node) {
  const Attribute* value = node.attribute("value");
  need(value && value->tensor && value->tensor->count() <= host_limit, "no small tensor");
  return [t = *value->tensor](Run& run) { run.give(0, t); };
}

Kernel trilu(const Node& node) {
  const bool upper = node.integer("upper", 1) != 0;
  return [upper](Run& run) {
    const TensorView x = run.view(0);
    need(x.dims >= 2, "at least two dimensions");
    const int64_t k = run.has(1) ? run.host(1).integer(0) : 0;
    const TensorView y = run.output(0, x.dtype, sizes_of(x));
    if (y.numel()) ops::triangle(run.queue(), y, x, k, upper);
  };
}

Kernel cumulative_sum(const Node& node) {
  const bool exclusive = node.integer("exclusive", 0) != 0, reverse = node.integer("reverse", 0) != 0;
  return [=](Run& run) {
    TensorView x = run.view(0);
    const int d = axis_of(run.host(1).integer(0), x.dims);
    TensorView y = run.output(0, x.dtype, sizes_of(x));
    if (y.numel() == 0) return;
    if (reverse) {
      const TensorView flipped = run.scratch(x.dtype, sizes_of(x));
      ops::flip(run.queue(), flipped, x, std::array{d});
      x = flipped;
    }
    const TensorView sums = exclusive || reverse ? run.scratch(x.dtype, sizes_of(x)) : y;
    ops::scan(run.queue(), ops::Scan::cumsum, x, d, sums);
    if (!exclusive && !reverse) return;
    TensorView from = sums;
    if (exclusive) {
      from = run.scratch(x.dtype, sizes_of(x));
      ops::zero(run.queue(), from);
      TensorView to = from, first = sums;
      to.sizes[d] = first.sizes[d] = x.sizes[d] - 1;
      to.data = static_cast<char*>(to.data) + to.strides[d] * static_cast<int64_t>(ops::size_of(x.dtype));
      if (to.numel()) ops::copy_strided(run.queue(), to, first);
    }
    if (reverse)
      ops::flip(run.queue(), y, from, std::array{d});
    else
      ops::copy_strided(run.queue(), y, from);
  };
}

Kernel top_k(const Node& node) {
  need(node.version >= 10, "k as an attribute");
  const int64_t axis = node.integer("axis", -1);
  const bool largest = node.integer("largest", 1) != 0;
  return [=](Run& run) {
    const TensorView x = run.view(0);
    const int d = axis_of(axis, x.dims);
    Sizes sizes = sizes_of(x);
    const int64_t k = run.host(1).integer(0);
    need(k >= 0 && k <= sizes[static_cast<size_t>(d)], "k is out of range");
    sizes[static_cast<size_t>(d)] = k;
    const TensorView values = run.output(0, x.dtype, sizes), indices = run.output(1, DType::int64, sizes);
    if (values.numel()) ops::sort(run.queue(), x, d, largest, values, indices);
  };
}

Kernel non_zero(const Node&) {
  return [](Run& run) {
    const TensorView x = run.dense(0);
    need(x.dims > 0, "a scalar");
    ops::Compaction compaction(run.queue(), x);
    const int64_t n = compaction.count();
    const TensorView y = run.output(0, DType::int64, {x.dims, n});
    if (n) compaction.coordinates(permuted(y, std::array{1, 0}), n);
  };
}

Kernel one_hot(const Node& node) {
  const int64_t axis = node.integer("axis", -1);
  need(everything.has(node.dtype(2)), "not for this element type");
  return [axis](Run& run) {
    Sizes sizes = run.sizes(0), seen = sizes;
    const int rank = static_cast<int>(sizes.size()) + 1, at = axis_of(axis, rank);
    const int64_t depth = run.host(1).integer(0);
    need(depth > 0, "a depth below 1");
    sizes.insert(sizes.begin() + at, depth);
    seen.insert(seen.begin() + at, 1);
    const DType index_type = run.dtype(0), type = run.dtype(2);
    const TensorView y = run.output(0, type, sizes);
    if (y.numel() == 0) return;
    Queue& queue = run.queue();
    const TensorView index = broadcast(reshaped(run.dense(0), seen), sizes);
    const TensorView hit = run.scratch(DType::boolean, sizes), other = run.scratch(DType::boolean, sizes);
    Sizes line(static_cast<size_t>(rank), 1);
    line[static_cast<size_t>(at)] = depth;
    for (const int64_t start : {int64_t{0}, -depth}) {  // an index may count from the end
      const TensorView numbers = run.scratch(index_type, {depth});
      ops::Progression p;
      p.start = static_cast<double>(start), p.integer_start = start;
      ops::progression(queue, numbers, ops::ProgressionKind::arange, p);
      ops::elementwise(queue, ops::elementwise_row("eq"), ops::compute_type(index_type), start ? other : hit,
                       {index, broadcast(reshaped(numbers, line), sizes)});
    }
    ops::elementwise(queue, ops::elementwise_row("logical_or"), DType::boolean, hit, {hit, other});
    TensorView off = run.dense(2), on = off;
    need(off.numel() == 2, "values are not two");
    off.dims = on.dims = 0;
    on.data = static_cast<char*>(on.data) + ops::size_of(type);
    ops::elementwise(queue, ops::elementwise_row("where"), ops::compute_type(type), y,
                     {hit, broadcast(on, sizes), broadcast(off, sizes)});
  };
}

constexpr Operator rows[] = {
    {"Range", numbers, range},           {"ConstantOfShape", TypeSet{DType::int64}, constant_of_shape, 9},
    {"Constant", everything, constant},  {"Trilu", everything, trilu},
    {"CumSum", numbers, cumulative_sum}, {"TopK", numbers, top_k},
    {"NonZero", everything, non_zero},   {"OneHot", numbers, one_hot},
};

}  // namespace

std::span<const Operator> sequence_operators() { return rows; }

}  // namespace ocl::ort
