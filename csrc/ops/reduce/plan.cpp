#include "ops/reduce/plan.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace ocl::ops {

namespace {

struct Dim {
  int64_t size, x, y, index;
};

// Stride of `view` for dimension d of x; the view has x's dimensions or only the kept ones.
int64_t output_stride(const TensorView& view, const TensorView& x, DimMask dims, int d) {
  if (view.dims == x.dims) return view.strides[d];
  int at = 0;
  for (int i = 0; i < d; ++i) at += !(dims >> i & 1);
  return view.strides[at];
}

// Merges neighbours that are one dimension in every operand. Outermost first.
int collapse(Dim* list, int count) {
  int n = 0;
  for (int i = 0; i < count; ++i) {
    if (list[i].size == 1) continue;
    Dim& previous = list[n - 1 < 0 ? 0 : n - 1];
    const Dim& next = list[i];
    const bool fits = n > 0 && previous.x == next.x * next.size && previous.y == next.y * next.size &&
                      previous.index == next.index * next.size;
    if (fits)
      previous = {previous.size * next.size, next.x, next.y, next.index};
    else
      list[n++] = next;
  }
  return n;
}

// Largest stride outermost; broadcast dimensions before all, so that long runs stay innermost.
void by_stride(Dim* list, int count) {
  const auto rank = [](const Dim& d) { return d.x == 0 ? INT64_MAX : d.x; };
  std::stable_sort(list, list + count, [&](const Dim& a, const Dim& b) { return rank(a) > rank(b); });
}

void check(const TensorView& x, DimMask dims, const TensorView& y) {
  int kept = 0;
  for (int d = 0; d < x.dims; ++d) kept += !(dims >> d & 1);
  bool fits = y.dims == x.dims || y.dims == kept;
  for (int d = 0, at = 0; fits && d < x.dims; ++d) {
    const bool reduced = dims >> d & 1;
    if (y.dims == x.dims)
      fits = y.sizes[d] == (reduced ? 1 : x.sizes[d]);
    else if (!reduced)
      fits = y.sizes[at++] == x.sizes[d];
  }
  if (!fits) throw InvalidArgument("reduce: output " + y.shape_string() + " does not fit input " + x.shape_string());
}

// Chunks of the reduced range, so that about `wanted` tasks run; a chunk is a multiple of `step` and not below `least`.
void split(ReduceShape& shape, int64_t natural, int64_t wanted, int64_t least, int64_t step) {
  int64_t splits = natural >= wanted ? 1 : ceil_div(wanted, std::max<int64_t>(natural, 1));
  splits = std::max<int64_t>(1, std::min(splits, shape.extent / least));
  // relative indices inside a chunk are 32-bit
  splits = std::max(splits, ceil_div(shape.extent, int64_t{1} << 30));
  shape.chunk = splits == 1 ? shape.extent : round_up(ceil_div(shape.extent, splits), step);
  shape.splits = ceil_div(shape.extent, shape.chunk);
}

void cut_cpu(ReducePlan& plan, const ReduceTarget& target) {
  ReduceShape& shape = plan.shape;
  // Enough work for a task's own costs to disappear, and then at least eight tasks for each unit.
  const int64_t elements = shape.outputs * shape.extent;
  const int64_t elements_per_task = std::clamp<int64_t>(elements / (8 * target.units), 32768, 131072);
  int64_t wanted = ceil_div(elements, elements_per_task);
  wanted = wanted <= 1 ? 1 : round_up(std::min(wanted, 64 * target.units), target.units);
  int64_t items = shape.outputs;
  if (plan.kind == ReduceKind::column) {
    const int64_t columns = shape.kept_size[shape.kept - 1];
    // Adding up chunks takes a launch of its own, which a small sum with a strip for every unit does better without. A
    // large one reads rows in long runs, for the sake of the processor's prefetching.
    constexpr int64_t small_elements = int64_t{1} << 20, least_columns = 64;
    const bool small = elements <= small_elements;
    shape.lanes = std::min(target.columns,
                           small ? std::max(least_columns, round_up(ceil_div(columns, target.units), 16)) : columns);
    items = shape.outputs / columns * ceil_div(columns, shape.lanes);
    split(shape, items, small && items >= target.units ? items : wanted, 64, 8);
  } else {
    split(shape, items, wanted, 4096, 64);
  }
  shape.per_task = shape.splits > 1 ? 1 : std::max<int64_t>(1, ceil_div(items, wanted));
  plan.tasks = ceil_div(items, shape.per_task) * shape.splits;
}

void cut_gpu(ReducePlan& plan, const ReduceTarget& target) {
  ReduceShape& shape = plan.shape;
  constexpr int64_t group = 256;
  const auto power = [](int64_t n) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  };
  if (plan.kind == ReduceKind::column) {
    const int64_t width = std::clamp<int64_t>(power(shape.kept_size[shape.kept - 1]), 1, 32);
    shape.lanes = std::min(group / width, power(ceil_div(shape.extent, 4)));
  } else {
    shape.lanes = std::min(group, power(ceil_div(shape.extent, 4)));
  }
  const int64_t groups = ceil_div(shape.outputs, group / shape.lanes);
  // Enough groups to be busy, or else so many that the last of them to run does not take long. A group along columns
  // has less on its way at a time.
  const int64_t busy = target.units * 8, wanted = groups >= busy                    ? groups
                                                  : plan.kind == ReduceKind::column ? 6 * busy
                                                                                    : 2 * busy;
  split(shape, groups, wanted, shape.lanes * 16, shape.lanes);
  plan.tasks = groups * shape.splits;
}

}  // namespace

ReducePlan plan_reduce(const TensorView& x, DimMask dims, const TensorView& y, const TensorView& index, bool ordered,
                       const ReduceTarget& target) {
  if (y.data || !index.data) check(x, dims, y);
  if (index.data) check(x, dims, index);
  Dim kept[max_dims], reduced[max_dims];
  int kept_count = 0, reduced_count = 0;
  ReducePlan plan;
  ReduceShape& shape = plan.shape;
  for (int d = 0; d < x.dims; ++d) {
    if (dims >> d & 1) {
      reduced[reduced_count++] = {x.sizes[d], x.strides[d], 0, 0};
      shape.extent *= x.sizes[d];
    } else {
      kept[kept_count++] = {x.sizes[d], x.strides[d], y.data ? output_stride(y, x, dims, d) : 0,
                            index.data ? output_stride(index, x, dims, d) : 0};
      shape.outputs *= x.sizes[d];
    }
  }
  shape.has_y = y.data != nullptr;
  shape.has_index = index.data != nullptr;
  if (shape.outputs == 0 || shape.extent == 0) ordered = true;
  by_stride(kept, kept_count);
  if (!ordered) by_stride(reduced, reduced_count);
  shape.kept = collapse(kept, kept_count);
  shape.reduced = collapse(reduced, reduced_count);
  for (int d = 0; d < shape.kept; ++d) {
    shape.kept_size[d] = kept[d].size;
    shape.kept_x[d] = kept[d].x;
    shape.kept_y[d] = kept[d].y;
    shape.kept_index[d] = kept[d].index;
  }
  for (int d = 0; d < shape.reduced; ++d) {
    shape.reduced_size[d] = reduced[d].size;
    shape.reduced_x[d] = reduced[d].x;
  }
  if (shape.reduced == 0 || reduced[shape.reduced - 1].x == 1)
    plan.kind = ReduceKind::inner;
  else if (shape.kept > 0 && kept[shape.kept - 1].x == 1)
    plan.kind = ReduceKind::column;
  // nothing to reduce over contiguous elements is a copy: columns
  if (shape.reduced == 0 && shape.kept > 0 && kept[shape.kept - 1].x == 1) plan.kind = ReduceKind::column;
  if (shape.outputs == 0 || shape.extent == 0) {
    plan.tasks = 0;
    shape.splits = 0;
    return plan;
  }
  target.cpu ? cut_cpu(plan, target) : cut_gpu(plan, target);
  return plan;
}

}  // namespace ocl::ops
