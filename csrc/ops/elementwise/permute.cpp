#include "ops/elementwise/permute.h"

#include "ops/core/copy_bytes.h"
#include "params/elementwise.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <vector>

namespace ocl::ops {
namespace {

using params::permute_batches;
using params::PermuteGeometry;

struct Plan {
  size_t element_bytes;
  PermuteGeometry geometry;
  int64_t batches;
  bool rows = false;  // dimension 0 is contiguous on both sides
  bool reversed() const { return rows && geometry.from0 < 0; }
};

// Short runs that stay together become one wider element.
void widen(size_t& bytes, std::vector<PermuteDimension>& dimensions, uint64_t addresses) {
  for (auto run = dimensions.begin(); run != dimensions.end(); ++run) {
    if (run->from != 1 || run->to != 1) continue;
    const size_t wide = bytes * static_cast<size_t>(std::min<int64_t>(run->size, 16));
    if (run->size > 16 || wide > 16 || !std::has_single_bit(wide) || addresses % wide != 0) return;
    const int64_t size = run->size;
    for (const PermuteDimension& d : dimensions)
      if (&d != &*run && (d.from % size != 0 || d.to % size != 0)) return;
    dimensions.erase(run);
    for (PermuteDimension& d : dimensions) d.from /= size, d.to /= size;
    bytes = wide;
    return;
  }
}

// Runs are copied as elements of 4 bytes where everything is a multiple of that: vectors of 16 are then a cache line.
void widen_runs(size_t& bytes, PermuteDimension& run, std::span<PermuteDimension> others, uint64_t addresses) {
  if (bytes > 4) {
    const auto pieces = static_cast<int64_t>(bytes / 4);
    run.size *= pieces;
    for (PermuteDimension& d : others) d.from *= pieces, d.to *= pieces;
  } else {
    const auto each = static_cast<int64_t>(4 / bytes);
    if (addresses % 4 != 0 || run.size % each != 0) return;
    for (const PermuteDimension& d : others)
      if (d.from % each != 0 || d.to % each != 0) return;
    run.size /= each;
    for (PermuteDimension& d : others) d.from /= each, d.to /= each;
  }
  bytes = 4;
}

bool nearer(const PermuteDimension& a, const PermuteDimension& b) { return std::abs(a.to) < std::abs(b.to); }

bool make_plan(size_t element_bytes, const void* from, const void* to, std::span<const PermuteDimension> given,
               Plan& plan) {
  std::vector<PermuteDimension> dimensions;
  for (const PermuteDimension& d : given)
    if (d.size != 1) dimensions.push_back(d);
  const uint64_t addresses = reinterpret_cast<uint64_t>(from) | reinterpret_cast<uint64_t>(to);
  widen(element_bytes, dimensions, addresses);
  auto take = [&](auto&& fits, PermuteDimension& taken) {
    const auto found = std::find_if(dimensions.begin(), dimensions.end(), fits);
    if (found == dimensions.end()) return false;
    taken = *found;
    dimensions.erase(found);
    return true;
  };
  PermuteDimension result, source;
  const bool rows = take([](const PermuteDimension& d) { return d.to == 1 && std::abs(d.from) == 1; }, result);
  if (rows) {
    if (dimensions.empty() || (result.from < 0 && element_bytes > 8)) return false;
    if (result.from > 0) widen_runs(element_bytes, result, dimensions, addresses);
    const auto nearest = std::min_element(dimensions.begin(), dimensions.end(), nearer);
    source = *nearest;
    dimensions.erase(nearest);
  } else {
    if (!take([](const PermuteDimension& d) { return d.to == 1 && d.from != 1 && d.from != 0; }, result)) return false;
    if (!take([](const PermuteDimension& d) { return d.from == 1 && d.to != 0; }, source)) return false;
  }
  if (dimensions.size() > permute_batches) return false;
  plan = {element_bytes, {result.size, result.from, source.size, source.from, source.to, {}, {}, {}}, 1, rows};
  // Neighbours in memory run one after the other.
  std::sort(dimensions.begin(), dimensions.end(), nearer);
  for (size_t d = 0; d < permute_batches; ++d) {
    const PermuteDimension dimension = d < dimensions.size() ? dimensions[d] : PermuteDimension{1, 0, 0};
    plan.geometry.sizes[d] = dimension.size, plan.geometry.from[d] = dimension.from, plan.geometry.to[d] = dimension.to;
    plan.batches *= dimension.size;
  }
  return true;
}

// Equal parts of at most `limit`, whole cache lines each.
int64_t even_block(int64_t size, int64_t limit, int64_t line) {
  return size <= limit ? size : std::min(limit, round_up(ceil_div(size, ceil_div(size, limit)), line));
}

void launch_rows(Queue& queue, const Plan& plan, const void* from, void* to) {
  static KernelSite site("elementwise/permute.cl", "permute_rows");
  Device& device = queue.device();
  const PermuteGeometry& g = plan.geometry;
  Kernel& kernel = site.get(device, plan.element_bytes, [&] {
    return Defines().add("E", static_cast<int64_t>(plan.element_bytes)).add("FOR_CPU", true);
  });
  const int64_t rows = g.size1 * plan.batches;
  const int64_t share = ceil_div(rows, cpu_tasks(device, rows * g.size0));
  launch(queue, kernel, Range(ceil_div(rows, share)), Range(1), from, to, g, share, rows, int32_t{plan.reversed()});
}

void launch_plan(Queue& queue, const Plan& plan, const void* from, void* to) {
  static KernelSite cpu_site("elementwise/permute.cl", "permute_cpu"),
      gpu_site("elementwise/permute.cl", "permute_gpu");
  Device& device = queue.device();
  const bool cpu = device.cpu_style();
  Kernel& kernel = (cpu ? cpu_site : gpu_site).get(device, plan.element_bytes, [&] {
    return Defines().add("E", static_cast<int64_t>(plan.element_bytes)).add("FOR_CPU", cpu);
  });
  const PermuteGeometry& g = plan.geometry;
  if (!cpu) {
    // tiles of 32 x 32 by 32 x 8 work-items
    launch(queue, kernel, Range(round_up(g.size0, 32), ceil_div(g.size1, 32) * 8, plan.batches), Range(32, 8, 1), from,
           to, g);
    return;
  }
  // Blocks of 64 lines or so on both sides: their pages stay in the first-level TLB.
  const int64_t line = std::max<int64_t>(1, 64 / static_cast<int64_t>(plan.element_bytes));
  const int64_t block0 =
      even_block(g.size0, std::max<int64_t>(64, 4096 / std::min<int64_t>(g.size1, 4096)), std::max<int64_t>(line, 16));
  const int64_t block1 = even_block(g.size1, std::max<int64_t>(64, 4096 / block0), std::max<int64_t>(line, 16));
  const int64_t blocks = ceil_div(g.size0, block0) * ceil_div(g.size1, block1);
  const int64_t share = std::max<int64_t>(
      1, std::min(4096 / (block0 * block1), blocks * plan.batches / (4 * device.capabilities().compute_units)));
  launch(queue, kernel, Range(ceil_div(g.size0, block0), ceil_div(g.size1, block1), ceil_div(plan.batches, share)),
         Range(1, 1, 1), from, to, g, block0, block1, share, plan.batches);
}

}  // namespace

bool permute(Queue& queue, size_t element_bytes, const void* from, void* to,
             std::span<const PermuteDimension> dimensions) {
  Plan plan;
  if (!make_plan(element_bytes, from, to, dimensions, plan)) return false;
  // Few long runs are copied by the strided elementwise kernel, which cuts them.
  if (plan.rows && (!queue.device().cpu_style() ||
                    plan.geometry.size1 * plan.batches < 4 * queue.device().capabilities().compute_units))
    return false;
  if (plan.rows)
    launch_rows(queue, plan, from, to);
  else
    launch_plan(queue, plan, from, to);
  return true;
}

void transpose_planes(Queue& queue, size_t element_bytes, int64_t batch, int64_t rows, int64_t columns, const void* x,
                      void* y) {
  if (batch * rows * columns == 0) return;
  const PermuteDimension dimensions[] = {
      {rows, columns, 1}, {columns, 1, rows}, {batch, rows * columns, rows * columns}};
  if (rows == 1 || columns == 1)
    return copy_bytes(queue, y, x, static_cast<size_t>(batch * rows * columns) * element_bytes);
  permute(queue, element_bytes, x, y, dimensions);
}

}  // namespace ocl::ops
