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

PanelSplit split_panels(const PanelTile& tile, int64_t batch, int64_t m, int64_t n, int64_t k, int units, bool direct) {
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
  for (int64_t gn = gn0; gn <= gn0 + 2 * units && (gn == gn0 || gn * column_step <= round_up(n, column_step)); ++gn) {
    const int64_t nc = round_up(ceil_div(n, gn), column_step);
    const int64_t gm0 = slabs == 1 ? 1 : ceil_div(m, std::max(most_rows, down(tile.carried / nc, row_step)));
    for (int64_t gm = gm0; gm <= gm0 + 2 * units && (gm == gm0 || gm * row_step <= round_up(m, row_step)); ++gm) {
      const int64_t mc = round_up(ceil_div(m, gm), row_step);
      const int64_t tasks = batch * ceil_div(m, mc) * ceil_div(n, nc);
      const int64_t cost = ceil_div(tasks, units) * (mc * nc + row_cost * mc + packing * nc);
      if (cost >= best_cost) continue;
      best_cost = cost;
      const int64_t block = round_up(ceil_div(mc, ceil_div(mc, most_rows)), row_step);
      best = {static_cast<int32_t>(mc), static_cast<int32_t>(nc), static_cast<int32_t>(kc),
              static_cast<int32_t>(std::min(block, most_rows))};
    }
  }
  return best;
}

namespace gemm_detail {
namespace {

// Mirrors panel_plan in kernels_cl/gemm/panel.cpu.cl.
struct PanelPlan {
  int64_t carry_batch, carry_row;
  int32_t mc, nc, kc, block, a_mode, b_mode, dense, batch, direct;
};

const char* refuses(const GemmProblem& p, const Device& device) {
  if (!device.cpu_style()) return "needs CPU kernels";
  if (!is_real_floating(p.dtype)) return "real floating types only";
  if (device.capabilities().local_memory < (32 << 10)) return "needs 32 KiB of local memory";
  return nullptr;
}

int32_t packing_mode(int64_t along_panel, int64_t along_k) { return along_panel == 1 ? 0 : (along_k == 1 ? 1 : 2); }

// Rows of a are read where they lie: nothing to convert, and the elements that a tile reads one after another are
// neighbours.
bool reads_rows(const GemmProblem& p) { return p.a[2] == 1 && !is_half(p.dtype); }

bool carries_in_c(const GemmProblem& p) { return p.c[2] == 1 && !is_half(p.dtype); }

size_t workspace(const GemmProblem& p, const Device& device) {
  if (carries_in_c(p) || p.k <= panel_tile(device.capabilities().local_memory, p.dtype).kc) return 0;
  return static_cast<size_t>(p.batch * p.m * round_up(p.n, 32)) * size_of(compute_type(p.dtype));
}

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
          reads_rows(p)};
}

PanelSplit split_of(const GemmProblem& p, const Device& device, const PanelTile& tile) {
  return split_panels(tile, p.batch, p.m, p.n, p.k, static_cast<int>(device.capabilities().compute_units),
                      reads_rows(p));
}

template <class T>
void run_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* carry, const PanelTile& tile, bool pairs) {
  static KernelSite site("gemm/panel.cpu.cl", "gemm_panel");
  Kernel& kernel = kernel_of(site, queue.device(), p.dtype, tile, pairs, false);
  const PanelPlan plan = plan_of(p, split_of(p, queue.device(), tile), carry);
  const Range grid(ceil_div(p.m, plan.mc), ceil_div(p.n, plan.nc), p.batch);
  launch(queue, kernel, grid, Range(1, 1, 1), o.a, o.b, o.c, o.d ? o.d : o.c, carry ? carry : o.c, GemmArguments(p),
         plan, static_cast<T>(p.alpha.real()), static_cast<T>(p.beta.real()));
}

void run(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* workspace) {
  const PanelTile tile = panel_tile(queue.device().capabilities().local_memory, p.dtype);
  if (p.dtype == DType::float64) return run_as<double>(queue, p, o, workspace, tile, false);
  run_as<float>(queue, p, o, workspace, tile, false);
}

// ---- deep panels in a workspace, for large products

// Slabs may be deeper than what local memory holds, so that there are fewer passes over c: panels of b come from the
// second-level cache while they are used first. A task's part of c may leave the caches between two slabs, its tiles
// are prefetched.
PanelTile deep_tile(DType dtype) {
  constexpr int64_t carried = 1 << 20;
  return dtype == DType::float64 ? PanelTile{128, 256, 256, carried} : PanelTile{128, 512, 512, carried};
}

PanelSplit deep_split(const GemmProblem& p, const Device& device) { return split_of(p, device, deep_tile(p.dtype)); }

int64_t deep_tasks(const GemmProblem& p, const PanelSplit& split) {
  return p.batch * ceil_div(p.m, split.mc) * ceil_div(p.n, split.nc);
}

// Work-items that run at the same time, each with panels of its own.
int64_t deep_parts(const GemmProblem& p, const PanelSplit& split, const Device& device) {
  return std::min(
      {deep_tasks(p, split), int64_t{device.capabilities().compute_units}, int64_t{Queue::counter_count} - 2});
}

// Elements of a work-item's panels: PART in gemm/panel.cpu.cl, or a little more.
int64_t deep_panels(const PanelSplit& split) {
  return int64_t{split.block} * (split.kc + 2) + int64_t{split.nc} * (split.kc + 1);
}

int64_t deep_carry(const GemmProblem& p, const PanelSplit& split) {
  return carries_in_c(p) || p.k <= split.kc ? 0 : p.batch * p.m * round_up(p.n, 32);
}

size_t deep_workspace(const GemmProblem& p, const Device& device) {
  const PanelSplit split = deep_split(p, device);
  return static_cast<size_t>(deep_carry(p, split) + deep_parts(p, split, device) * deep_panels(split)) *
         size_of(compute_type(p.dtype));
}

const char* deep_declines(const GemmProblem& p, const Device& device) {
  constexpr int64_t few_rows = 96;
  if (p.m < few_rows) return "panels of b are used by few rows";
  // A large c is not passed over twice.
  const bool large = std::min(p.m, p.n) >= (reads_rows(p) ? 512 : 768);
  return p.k > (large ? panel_tile(device.capabilities().local_memory, p.dtype).kc : 576) ? nullptr
                                                                                          : "few passes over c";
}

template <class T>
void run_deep_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* workspace) {
  static KernelSite site("gemm/panel.cpu.cl", "gemm_panel");
  Device& device = queue.device();
  const PanelSplit split = deep_split(p, device);
  T* panels = static_cast<T*>(workspace);
  const int64_t parts = deep_parts(p, split, device);
  T* carry = deep_carry(p, split) ? panels + parts * deep_panels(split) : nullptr;
  const PanelPlan plan = plan_of(p, split, carry);
  // Some more groups than compute units: a runtime that deals them out in advance may give one unit several and another
  // none.
  const int64_t groups = std::min(deep_tasks(p, split), 4 * int64_t{device.capabilities().compute_units});
  launch(queue, kernel_of(site, device, p.dtype, deep_tile(p.dtype), false, true), Range(groups), Range(1), o.a, o.b,
         o.c, o.d ? o.d : o.c, carry ? carry : o.c, GemmArguments(p), plan, static_cast<T>(p.alpha.real()),
         static_cast<T>(p.beta.real()), panels, static_cast<int32_t>(parts), queue.counters());
}

void run_deep(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* workspace) {
  if (p.dtype == DType::float64) return run_deep_as<double>(queue, p, o, workspace);
  run_deep_as<float>(queue, p, o, workspace);
}

// ---- pairs of bfloat16 by vdpbf16ps

// Sizes along k are elements: two in a word.
PanelTile pairs_tile(const Device& device) {
  return device.capabilities().local_memory >= (640 << 10) ? PanelTile{256, 256, 384} : PanelTile{128, 160, 384};
}

const char* pairs_refuses(const GemmProblem& p, const Device& device) {
  if (p.dtype != DType::bfloat16) return "bfloat16 only";
  if (device.capabilities().local_memory < (250 << 10)) return "needs 250 KiB of local memory";
  return has_bfloat16_pairs(device) ? nullptr : "no products of bfloat16 in kernels of this device";
}

const char* pairs_declines(const GemmProblem&, const Device& device) {
  return prefers_bfloat16_pairs(device) ? nullptr : "float32 multiplies faster on this processor";
}

size_t pairs_workspace(const GemmProblem& p, const Device& device) {
  return p.k <= pairs_tile(device).kc ? 0 : static_cast<size_t>(p.batch * p.m * round_up(p.n, 32)) * sizeof(float);
}

void pairs_run(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* workspace) {
  run_as<float>(queue, p, o, workspace, pairs_tile(queue.device()), true);
}

}  // namespace

const GemmAlgorithm panel{"panel", refuses, never, workspace, run};
const GemmAlgorithm deep_panel{"deep_panel", refuses, deep_declines, deep_workspace, run_deep};
const GemmAlgorithm bfloat16_pairs{"bfloat16_pairs", pairs_refuses, pairs_declines, pairs_workspace, pairs_run};

}  // namespace gemm_detail
}  // namespace ocl::ops
