// Packed panels and a register tile (kernels_cl/gemm/panel.cpu.cl). The scheme is Goto and van de Geijn's, "Anatomy of
// high-performance matrix multiplication" (2008), with a tile of c per task instead of shared panels, so that tasks
// need no barriers.
#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/prefetch.h"
#include "ops/gemm/algorithms.h"
#include "ops/gemm/panel_plan.h"

#include <algorithm>
#include <limits>

namespace ocl::ops {

PanelTile panel_tile(uint64_t local_memory, DType dtype) {
  const bool wide = dtype == DType::float64;
  // Largest tiles whose packed operands fit, by classes of local memory (PoCL 1 MiB, Intel 256 KiB, the least OpenCL
  // asks for 32 KiB).
  if (local_memory >= (640 << 10)) return wide ? PanelTile{128, 256, 192} : PanelTile{176, 384, 256};
  if (local_memory >= (250 << 10)) return wide ? PanelTile{48, 96, 192} : PanelTile{96, 192, 192};
  return wide ? PanelTile{16, 32, 64} : PanelTile{32, 64, 64};
}

PanelSplit split_panels(const PanelTile& tile, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t units,
                        bool direct) {
  constexpr int64_t row_step = 16, column_step = 32;
  // Time of the busiest unit in multiply-adds per k: packing an element costs about as much as 8 of them, reading it
  // once more 1.
  constexpr int64_t packing = 8;
  const int64_t row_cost = direct ? 1 : packing;
  auto down = [](int64_t size, int64_t step) { return std::max(step, size / step * step); };
  // Slabs of equal depth, so that the last one is not a sliver; shallow ones leave room for more rows and columns.
  const int64_t slabs = std::max<int64_t>(1, ceil_div(k, tile.kc));
  const int64_t kc = std::min<int64_t>(tile.kc, std::max<int64_t>(16, round_up(ceil_div(k, slabs), 16)));
  // A panel of 8 rows or 32 columns has a cache line of padding: at most 4 steps of the rows' k, 1 of the columns'.
  const int64_t most_rows = down(int64_t{tile.mc} * (tile.kc + 4) / (kc + 4), row_step);
  const int64_t most_columns = down(int64_t{tile.nc} * (tile.kc + 1) / (kc + 1), column_step);
  PanelSplit best{};
  int64_t best_cost = std::numeric_limits<int64_t>::max();
  const int64_t gn0 = ceil_div(n, most_columns);
  // Only sizes that differ are tried, and for each number of columns only the most rows of tasks for a number of
  // rounds: the cost of a round falls with the size of its tasks. Many units offer more than that is worth.
  constexpr int most_tried = 12;
  int tried_columns = 0;
  for (int64_t gn = gn0; gn <= gn0 + 2 * units && tried_columns < most_tried; ++tried_columns) {
    const int64_t nc = round_up(ceil_div(n, gn), column_step), across = batch * ceil_div(n, nc);
    const int64_t gm0 = slabs == 1 ? 1 : ceil_div(m, std::max(most_rows, down(tile.carried / nc, row_step)));
    const int64_t last_gm = std::max(gm0, std::min(gm0 + 2 * units, round_up(m, row_step) / row_step));
    int tried_rows = 0;
    for (int64_t gm = gm0; gm <= last_gm && tried_rows < most_tried; ++tried_rows) {
      const int64_t mc = round_up(ceil_div(m, gm), row_step);
      const int64_t tasks = across * ceil_div(m, mc);
      const int64_t cost = ceil_div(tasks, units) * (mc * nc + row_cost * mc + packing * nc);
      if (cost < best_cost) {
        best_cost = cost;
        const int64_t block = round_up(ceil_div(mc, ceil_div(mc, most_rows)), row_step);
        best = {static_cast<int32_t>(mc), static_cast<int32_t>(nc), static_cast<int32_t>(kc),
                static_cast<int32_t>(std::min(block, most_rows))};
      }
      if (mc == row_step) break;
      const int64_t smaller = ceil_div(m, mc - row_step);
      gm = std::max(smaller, std::min(last_gm, round_up(smaller * across, units) / across));
    }
    if (nc == column_step) break;
    gn = ceil_div(n, nc - column_step);
  }
  return best;
}

namespace gemm_detail {
namespace {

const char* refuses(const GemmProblem& p, const PlanTarget& target) {
  if (!target.cpu_style) return "needs CPU kernels";
  if (!is_real_floating(p.dtype)) return "real floating types only";
  if (target.local_memory < (32 << 10)) return "needs 32 KiB of local memory";
  return nullptr;
}

int32_t packing_mode(int64_t along_panel, int64_t along_k) { return along_panel == 1 ? 0 : (along_k == 1 ? 1 : 2); }

// Rows of a are read where they lie: nothing to convert, and the elements that a tile reads one after another are
// neighbours.
bool reads_rows(const GemmProblem& p) { return p.a[2] == 1 && !is_half(p.dtype); }

bool carries_in_c(const GemmProblem& p) { return p.c[2] == 1 && !is_half(p.dtype); }

Kernel& kernel_of(KernelSite& site, Device& device, DType type, const PanelTile& tile, bool pairs, bool deep) {
  return site.get(device, Variant().add(type).add(pairs, 1).add(deep, 1), [&] {
    Defines defines;
    dtype(defines, "DTYPE", type);
    defines.add("WIDE", type == DType::float64).add("PAIRS", pairs).add("DEEP", deep).add("DIRECT", !is_half(type));
    add_prefetch_define(defines, device);
    return defines.add("MC", tile.mc).add("NC", tile.nc).add("KC", tile.kc);
  });
}

PanelPlan plan_of(const GemmProblem& p, const PanelSplit& split, const void* carry) {
  const int64_t padded = round_up(p.n, 32);
  return {carry ? p.m * padded : p.c[0],
          carry ? padded : p.c[1],
          split.mc,
          split.nc,
          split.kc,
          split.block,
          packing_mode(p.a[1], p.a[2]),
          packing_mode(p.b[2], p.b[1]),
          p.c[2] == 1,
          static_cast<int32_t>(p.batch),
          reads_rows(p),
          0};
}

PanelSplit split_of(const GemmProblem& p, const PlanTarget& target, const PanelTile& tile) {
  return split_panels(tile, p.batch, p.m, p.n, p.k, target.compute_units, reads_rows(p));
}

// Sums between slabs where c cannot carry them.
size_t carry_bytes(const GemmProblem& p) {
  return static_cast<size_t>(p.batch * p.m * round_up(p.n, 32)) * size_of(compute_type(p.dtype));
}

template <class T>
void run_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* carry, const PanelTile& tile,
            const PanelSplit& split, bool pairs) {
  static KernelSite site("gemm/panel.cpu.cl", "gemm_panel");
  Kernel& kernel = kernel_of(site, queue.device(), p.dtype, tile, pairs, false);
  const PanelPlan plan = plan_of(p, split, carry);
  const Range grid(ceil_div(p.m, plan.mc), ceil_div(p.n, plan.nc), p.batch);
  launch(queue, kernel, grid, Range(1, 1, 1), o.a, o.b, o.c, o.d ? o.d : o.c, carry ? carry : o.c, gemm_arguments(p),
         plan, static_cast<T>(p.alpha.real()), static_cast<T>(p.beta.real()));
}

GemmPlan plan_panels(const GemmProblem& p, const PlanTarget& target, const PanelTile& tile, bool pairs) {
  const bool carried_in_c = !pairs && carries_in_c(p);
  return {nullptr, nullptr, carried_in_c || p.k <= tile.kc ? 0 : carry_bytes(p),
          [tile, split = split_of(p, target, tile), pairs](Queue& queue, const GemmProblem& problem,
                                                           const GemmOperands& o, void* carry) {
            if (problem.dtype == DType::float64) return run_as<double>(queue, problem, o, carry, tile, split, pairs);
            run_as<float>(queue, problem, o, carry, tile, split, pairs);
          }};
}

GemmPlan plan_panel(const GemmProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  return plan_panels(p, target, panel_tile(target.local_memory, p.dtype), false);
}

// ---- deep panels in a workspace, for large products

// Slabs may be deeper than what local memory holds, so that there are fewer passes over c: panels of b come from the
// second-level cache while they are used first. A task's part of c may leave the caches between two slabs, its tiles
// are prefetched.
PanelTile deep_tile(DType dtype) {
  constexpr int64_t carried = 1 << 20;
  return dtype == DType::float64 ? PanelTile{128, 256, 256, carried} : PanelTile{128, 512, 512, carried};
}

int64_t deep_tasks(const GemmProblem& p, const PanelSplit& split) {
  return p.batch * ceil_div(p.m, split.mc) * ceil_div(p.n, split.nc);
}

// Work-items that run at the same time, each with panels of its own.
int64_t deep_parts(const GemmProblem& p, const PanelSplit& split, const PlanTarget& target) {
  return std::min({deep_tasks(p, split), target.compute_units, int64_t{Queue::counter_count} - 2});
}

// Elements of a work-item's panels: PART in gemm/panel.cpu.cl, or a little more.
int64_t deep_panels(const PanelSplit& split) {
  return int64_t{split.block} * (split.kc + 2) + int64_t{split.nc} * (split.kc + 1);
}

int64_t deep_carry(const GemmProblem& p, const PanelSplit& split) {
  return carries_in_c(p) || p.k <= split.kc ? 0 : p.batch * p.m * round_up(p.n, 32);
}

const char* deep_declines(const GemmProblem& p, const PlanTarget& target) {
  constexpr int64_t few_rows = 96;
  if (p.m < few_rows) return "panels of b are used by few rows";
  // A large c is not passed over twice.
  const bool large = std::min(p.m, p.n) >= (reads_rows(p) ? 512 : 768);
  return p.k > (large ? panel_tile(target.local_memory, p.dtype).kc : 576) ? nullptr : "few passes over c";
}

struct DeepPlan {
  PanelSplit split;
  int64_t parts, groups;
};

DeepPlan deep_plan(const GemmProblem& p, const PlanTarget& target) {
  const PanelSplit split = split_of(p, target, deep_tile(p.dtype));
  // Some more groups than compute units: a runtime that deals them out in advance may give one unit several and another
  // none.
  return {split, deep_parts(p, split, target), std::min(deep_tasks(p, split), 4 * target.compute_units)};
}

template <class T>
void run_deep_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* workspace, const DeepPlan& deep) {
  static KernelSite site("gemm/panel.cpu.cl", "gemm_panel");
  T* panels = static_cast<T*>(workspace);
  T* carry = deep_carry(p, deep.split) ? panels + deep.parts * deep_panels(deep.split) : nullptr;
  const PanelPlan plan = plan_of(p, deep.split, carry);
  launch(queue, kernel_of(site, queue.device(), p.dtype, deep_tile(p.dtype), false, true), Range(deep.groups), Range(1),
         o.a, o.b, o.c, o.d ? o.d : o.c, carry ? carry : o.c, gemm_arguments(p), plan, static_cast<T>(p.alpha.real()),
         static_cast<T>(p.beta.real()), panels, static_cast<int32_t>(deep.parts), queue.counters());
}

GemmPlan plan_deep(const GemmProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  const DeepPlan deep = deep_plan(p, target);
  const int64_t elements = deep_carry(p, deep.split) + deep.parts * deep_panels(deep.split);
  return {nullptr, deep_declines(p, target), static_cast<size_t>(elements) * size_of(compute_type(p.dtype)),
          [deep](Queue& queue, const GemmProblem& problem, const GemmOperands& o, void* workspace) {
            if (problem.dtype == DType::float64) return run_deep_as<double>(queue, problem, o, workspace, deep);
            run_deep_as<float>(queue, problem, o, workspace, deep);
          }};
}

// ---- pairs of bfloat16 by vdpbf16ps

// Sizes along k are elements: two in a word.
PanelTile pairs_tile(const PlanTarget& target) {
  return target.local_memory >= (640 << 10) ? PanelTile{256, 256, 384} : PanelTile{128, 160, 384};
}

const char* pairs_refuses(const GemmProblem& p, const PlanTarget& target) {
  if (p.dtype != DType::bfloat16) return "bfloat16 only";
  if (target.local_memory < (250 << 10)) return "needs 250 KiB of local memory";
  return target.bfloat16_pairs() ? nullptr : "no products of bfloat16 in kernels of this device";
}

const char* pairs_declines(const PlanTarget& target) {
  return target.prefers_bfloat16_pairs() ? nullptr : "float32 multiplies faster on this processor";
}

GemmPlan plan_pairs(const GemmProblem& p, const PlanTarget& target) {
  if (const char* reason = pairs_refuses(p, target)) return refused(reason);
  GemmPlan plan = plan_panels(p, target, pairs_tile(target), true);
  plan.declines = pairs_declines(target);
  return plan;
}

}  // namespace

bool multiplies_pairs(const GemmProblem& p, const PlanTarget& target) {
  return !pairs_refuses(p, target) && !pairs_declines(target);
}

UnpackedPanels plan_unpacked(const GemmProblem& p, const PlanTarget& target, int64_t unit) {
  const PanelTile tile = pairs_tile(target);
  // Slabs of whole units; as deep as the tile, so it holds as many rows and columns as split_panels says.
  PanelTile slab = tile;
  slab.kc = static_cast<int>(round_up(ceil_div(p.k, ceil_div(p.k, tile.kc / unit * unit)), unit));
  PanelSplit split = split_of(p, target, slab);
  split.kc = slab.kc;
  return {tile, split, p.k <= split.kc ? 0 : carry_bytes(p)};
}

PanelPlan panel_plan(const GemmProblem& p, const PanelSplit& split, const void* carry) {
  return plan_of(p, split, carry);
}

const GemmAlgorithm panel{"panel", plan_panel};
const GemmAlgorithm deep_panel{"deep_panel", plan_deep};
const GemmAlgorithm bfloat16_pairs{"bfloat16_pairs", plan_pairs};

}  // namespace gemm_detail
}  // namespace ocl::ops
