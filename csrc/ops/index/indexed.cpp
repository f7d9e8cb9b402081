#include "ops/index/indexed_plan.h"
#include "opencl/capabilities/float_atomics.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace ocl::ops {
namespace {

struct Dim {
  int64_t size, dst, src, idx;
  bool merges_into(const Dim& outer) const {
    return outer.dst == dst * size && outer.src == src * size && outer.idx == idx * size;
  }
};

void merge(std::vector<Dim>& dims) {
  std::vector<Dim> merged;
  for (const Dim& dim : dims) {
    if (!merged.empty() && dim.merges_into(merged.back()))
      merged.back() = {merged.back().size * dim.size, dim.dst, dim.src, dim.idx};
    else
      merged.push_back(dim);
  }
  dims = std::move(merged);
}

// Whether the last free dimension is the better inner loop than the last conflict dimension.
bool prefer_free(const Dim& free, const Dim& conflict) {
  if (free.size < 8 && conflict.size > 64) return false;
  return std::abs(free.src) + std::abs(free.idx) <= std::abs(conflict.src) + std::abs(conflict.idx);
}

Dim take_inner(std::vector<Dim>& free, std::vector<Dim>& conflict, bool& inner_is_free) {
  inner_is_free = true;
  if (conflict.empty() && free.empty()) return {1, 1, 1, 0};
  std::vector<Dim>& from =
      conflict.empty() || (!free.empty() && prefer_free(free.back(), conflict.back())) ? free : conflict;
  inner_is_free = &from == &free;
  // A short row costs more to set up than to copy: loop over the longer neighbour instead.
  if (inner_is_free && from.size() > 1 && from.back().size < 8 && from[from.size() - 2].size > from.back().size)
    std::swap(from[from.size() - 2], from.back());
  Dim inner = from.back();
  from.pop_back();
  return inner;
}

void append(IndexedWalk& walk, const std::vector<Dim>& dims, int64_t& count) {
  for (const Dim& dim : dims) {
    if (walk.dims == walk_dims)
      throw InvalidArgument("indexing: the operands have too many dimensions that cannot be merged");
    walk.sizes[walk.dims] = dim.size;
    walk.dst[walk.dims] = dim.dst;
    walk.src[walk.dims] = dim.src;
    walk.idx[walk.dims] = dim.idx;
    ++walk.dims;
    count *= dim.size;
  }
}

Defines defines_of(const Device& device, DType type, DType index, Combine combine, bool atomic, size_t bytes) {
  Defines defines;
  dtype(defines, "INDEX_DTYPE", index);
  if (combine == Combine::assign) return defines.add("BYTES", static_cast<int64_t>(bytes));
  dtype(defines, "D", type);
  return add_atomic_defines(defines.add("COMBINE", static_cast<int64_t>(combine)), device, atomic);
}

// `bytes`: of an element that is assigned.
Kernel& kernel_of(Device& device, DType type, DType index, Combine combine, bool atomic, size_t bytes) {
  static KernelSite copy_cpu("index/indexed.cl", "index_cpu"), copy_gpu("index/indexed.cl", "index_gpu");
  static KernelSite accumulate_cpu("scatter/scatter.cl", "scatter_cpu"),
      accumulate_gpu("scatter/scatter.cl", "scatter_gpu");
  const bool assign = combine == Combine::assign;
  KernelSite& site =
      assign ? (device.cpu_style() ? copy_cpu : copy_gpu) : (device.cpu_style() ? accumulate_cpu : accumulate_gpu);
  const Variant variant = assign ? Variant().add(bytes, 6).add(index)
                                 : Variant().add(type).add(index).add(static_cast<uint64_t>(combine), 3).add(atomic, 1);
  return site.get(device, variant, [&] { return defines_of(device, type, index, combine, atomic, bytes); });
}

// How a CPU launch is cut: blocks of the outer dimensions, blocks of the inner dimension, classes of destination
// indices.
struct Cut {
  int64_t outer_block, inner_block, parts;
};

Cut cut_cpu(const IndexedPlan& plan, const Device& device) {
  const IndexedWalk& walk = plan.walk;
  const int64_t wanted = cpu_tasks(device, walk.outer * walk.conflict * walk.inner);
  Cut cut{ceil_div(walk.outer, std::min(walk.outer, wanted)), walk.inner, 1};
  int64_t tasks = ceil_div(walk.outer, cut.outer_block);
  if (tasks < wanted && plan.inner_is_free && walk.inner >= 128) {
    // A block of conflicting rows is met row by row, far apart in memory: long pieces of rows, and no more of them than
    // keep the units busy.
    const int64_t units = device.capabilities().compute_units,
                  most = plan.has_conflicts() ? std::min(wanted, 4 * units) : wanted;
    cut.inner_block =
        std::max<int64_t>(plan.has_conflicts() ? 1024 : 64, round_up(ceil_div(walk.inner, ceil_div(most, tasks)), 64));
    tasks *= ceil_div(walk.inner, cut.inner_block);
  }
  // Every part scans all indices, so there are no more parts than workers.
  const int64_t workers = std::min<int64_t>(wanted, device.capabilities().compute_units);
  if (plan.has_conflicts())
    while (tasks * cut.parts < workers) cut.parts *= 2;
  return cut;
}

bool can_do_atomics(const Device& device, DType type) {
  return size_of(type) <= 4 || (size_of(type) == 8 && device.capabilities().has_extension("cl_khr_int64_base_atomics"));
}

void check(const IndexedOperands& operands) {
  if (!operands.from_value && operands.source.dtype != operands.destination.dtype)
    throw InvalidArgument("indexing: source and destination must have one dtype");
  if (operands.side != IndexSide::none && operands.index.dtype != DType::int64 && operands.index.dtype != DType::int32)
    throw InvalidArgument("indexing: indices must be int64 or int32");
}

// Rows of neighbours as rows of elements of up to 16 bytes, where all of them begin and end with whole ones; returns an
// element's bytes.
size_t widen(IndexedPlan& plan, const IndexedOperands& operands) {
  IndexedWalk& walk = plan.walk;
  const size_t bytes = size_of(operands.destination.dtype);
  if (walk.from_value || walk.inner_dst != 1 || walk.inner_src != 1 || walk.inner_idx != 0 || !plan.inner_is_free)
    return bytes;
  const auto fits = [&](size_t wide) {
    const auto factor = static_cast<int64_t>(wide / bytes);
    bool whole = walk.inner % factor == 0 && walk.dst_step % factor == 0 && walk.src_step % factor == 0;
    for (int d = 0; d < walk.dims; ++d) whole = whole && walk.dst[d] % factor == 0 && walk.src[d] % factor == 0;
    return whole && reinterpret_cast<uintptr_t>(operands.destination.data) % wide == 0 &&
           reinterpret_cast<uintptr_t>(operands.source.data) % wide == 0;
  };
  size_t wide = 16;
  while (wide > bytes && !fits(wide)) wide /= 2;
  const auto factor = static_cast<int64_t>(wide / bytes);
  walk.inner /= factor, walk.dst_step /= factor, walk.src_step /= factor;
  for (int d = 0; d < walk.dims; ++d) walk.dst[d] /= factor, walk.src[d] /= factor;
  return wide;
}

// GPU work-groups of the kernel that picks rows, elements of a row that it is used for, and that a work-item copies at
// once; mirrors index/indexed.cl.
constexpr int64_t row_group = 256, least_row = 8, row_unrolled = 4;

// Whole rows picked by index, enough of them for every task to have some.
bool picks_rows(const IndexedPlan& plan, const Device& device, size_t bytes) {
  const IndexedWalk& walk = plan.walk;
  const bool enough = device.cpu_style() ? bytes < 16 && walk.outer >= cpu_tasks(device, walk.outer * walk.inner)
                                         : walk.inner >= least_row && walk.inner <= 1 << 20 && walk.outer < 1 << 30;
  return enough && walk.has_index && !walk.from_value && walk.dims == 1 && walk.outer_dims == 1 && walk.dst_step == 0 &&
         walk.inner > 1 && walk.inner_dst == 1 && walk.inner_src == 1 && walk.inner_idx == 0;
}

void pick_rows(Queue& queue, const IndexedOperands& operands, const IndexedWalk& walk, size_t bytes,
               const ErrorSite& site) {
  static KernelSite rows_site("index/indexed.cl", "index_rows");
  Device& device = queue.device();
  const DType type = operands.destination.dtype, index = operands.index.dtype;
  Kernel& kernel = rows_site.get(device, Variant().add(bytes, 6).add(index),
                                 [&] { return defines_of(device, type, index, Combine::assign, false, bytes); });
  const int64_t items = std::clamp<int64_t>(
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(walk.inner, row_unrolled)))), least_row,
      row_group);
  const int64_t block = device.cpu_style() ? ceil_div(walk.outer, cpu_tasks(device, walk.outer * walk.inner)) : items;
  const int64_t groups = ceil_div(walk.outer, device.cpu_style() ? block : row_group / items),
                group = device.cpu_style() ? 1 : row_group;
  launch(queue, kernel, Range(static_cast<size_t>(groups * group)), Range(static_cast<size_t>(group)),
         operands.destination.data, operands.source.data, operands.index.data, device_errors(device).data(),
         site.code(), int32_t{operands.checked}, walk.outer, walk.inner, walk.lowest, walk.limit, walk.dst[0],
         walk.src[0], walk.src_step, walk.idx[0], block);
}

}  // namespace

IndexedPlan plan_indexed(const IndexedOperands& operands) {
  const TensorView& destination = operands.destination;
  const bool indexed = operands.side != IndexSide::none, to_destination = operands.side == IndexSide::destination;
  std::vector<Dim> free, conflict;
  for (int d = 0; d < destination.dims; ++d) {
    if (destination.sizes[d] == 1) continue;
    const Dim dim{destination.sizes[d], destination.strides[d], operands.from_value ? 0 : operands.source.strides[d],
                  indexed ? operands.index.strides[d] : 0};
    (to_destination && dim.dst == 0 ? conflict : free).push_back(dim);
  }
  std::stable_sort(free.begin(), free.end(),
                   [](const Dim& a, const Dim& b) { return std::abs(a.dst) > std::abs(b.dst); });
  merge(free);
  merge(conflict);
  IndexedPlan plan;
  IndexedWalk& walk = plan.walk;
  const Dim inner = take_inner(free, conflict, plan.inner_is_free);
  append(walk, free, walk.outer);
  walk.outer_dims = walk.dims;
  append(walk, conflict, walk.conflict);
  walk.inner = inner.size;
  walk.inner_dst = inner.dst;
  walk.inner_src = inner.src;
  walk.inner_idx = inner.idx;
  walk.lowest = operands.wraps ? -operands.limit : 0;
  walk.limit = operands.limit;
  walk.dst_step = to_destination ? operands.step : 0;
  walk.src_step = operands.side == IndexSide::source ? operands.step : 0;
  walk.has_index = indexed ? (operands.checked ? 2 : 1) : 0;
  walk.from_value = operands.from_value;
  return plan;
}

void indexed(Queue& queue, const IndexedOperands& operands, Combine combine, bool deterministic,
             const ErrorSite& site) {
  check(operands);
  if (operands.destination.numel() == 0) return;
  Device& device = queue.device();
  const DType type = operands.destination.dtype;
  const DType index = operands.side == IndexSide::none ? DType::int64 : operands.index.dtype;
  if (combine != Combine::assign) require_dtype(device, type, "indexing");
  IndexedPlan plan = plan_indexed(operands);
  const size_t bytes = combine == Combine::assign && !device.cpu_style() ? widen(plan, operands) : size_of(type);
  const IndexedWalk& walk = plan.walk;
  if (combine == Combine::assign && picks_rows(plan, device, bytes))
    return pick_rows(queue, operands, walk, bytes, site);
  const auto run = [&](Kernel& kernel, Range global, Range local, int64_t a, int64_t b, int64_t parts) {
    launch(queue, kernel, global, local, operands.destination.data, operands.source.data, operands.index.data,
           device_errors(device).data(), walk, operands.value.low, operands.value.high, site.code(), a, b, parts);
  };
  if (device.cpu_style()) {
    const Cut cut = cut_cpu(plan, device);
    const int64_t tasks = ceil_div(walk.outer, cut.outer_block) * ceil_div(walk.inner, cut.inner_block) * cut.parts;
    run(kernel_of(device, type, index, combine, false, bytes), Range(tasks), Range(1), cut.outer_block, cut.inner_block,
        cut.parts);
    return;
  }
  // GPU: one work-item per element, or per destination line that it walks in order.
  const bool ordered =
      plan.has_conflicts() && (deterministic || (combine != Combine::assign && !can_do_atomics(device, type)));
  const bool atomic = combine != Combine::assign && plan.has_conflicts() && !ordered;
  const int64_t inner_block = ordered && !plan.inner_is_free ? walk.inner : 1;
  const int64_t lines = walk.outer * ceil_div(walk.inner, inner_block) * (ordered ? 1 : walk.conflict);
  int64_t parts = 1;
  if (ordered)
    while (lines * parts < 4096) parts *= 2;
  run(kernel_of(device, type, index, combine, atomic, bytes), Range(round_up(lines * parts, 256)), Range(256),
      inner_block, int64_t{ordered}, parts);
}

void combine_indices(Queue& queue, const TensorView& out, std::span<const TensorView> indices,
                     std::span<const int64_t> sizes, std::span<const int64_t> strides, const ErrorSite& site) {
  if (out.numel() == 0) return;
  if (out.dims > walk_dims) throw InvalidArgument("indexing: index tensors have too many dimensions");
  static KernelSite kernel_site("index/combine.cl", "combine_indices");
  Device& device = queue.device();
  for (size_t first = 0; first < indices.size(); first += params::combine_slots) {
    params::CombineWalk walk{};
    walk.dims = out.dims;
    walk.numel = out.numel();
    walk.count = static_cast<int32_t>(std::min<size_t>(params::combine_slots, indices.size() - first));
    std::copy_n(out.sizes.begin(), out.dims, walk.sizes);
    const void* data[params::combine_slots] = {};
    const DType type = indices[first].dtype;
    for (int t = 0; t < walk.count; ++t) {
      const TensorView& index = indices[first + t];
      if (index.dtype != type) throw InvalidArgument("indexing: index tensors must have one dtype");
      data[t] = index.data;
      std::copy_n(index.strides.begin(), out.dims, walk.strides[t]);
      walk.limits[t] = sizes[first + t];
      walk.steps[t] = strides[first + t];
    }
    Kernel& kernel = kernel_site.get(device, Variant().add(type), [&] {
      Defines defines;
      return dtype(defines, "INDEX_DTYPE", type);
    });
    const int64_t block = device.cpu_style() ? ceil_div(walk.numel, cpu_tasks(device, walk.numel, 4096)) : 1;
    const int64_t items = ceil_div(walk.numel, block);
    launch(queue, kernel, Range(device.cpu_style() ? items : round_up(items, 256)),
           device.cpu_style() ? Range(1) : Range(256), out.data, data[0], data[1], data[2], data[3],
           device_errors(device).data(), walk, site.code(), int32_t{first > 0}, block);
  }
}

}  // namespace ocl::ops
