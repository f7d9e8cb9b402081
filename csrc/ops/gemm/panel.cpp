// Packed panels and a register tile (kernels_cl/gemm_panel.cl). The scheme is Goto and van de Geijn's, "Anatomy of high-performance
// matrix multiplication" (2008), with a tile of c per task instead of shared panels, so that tasks need no barriers.
#include "opencl/bfloat16_pairs.h"
#include "opencl/prefetch.h"
#include "ops/gemm/algorithms.h"
#include "ops/gemm/panel_plan.h"

#include <algorithm>
#include <limits>

namespace ocl::ops {

PanelTile panel_tile(uint64_t local_memory, DType dtype) {
  const bool wide = dtype == DType::float64;
  // Largest tiles whose packed operands fit, by classes of local memory (PoCL 1 MiB, Intel 256 KiB, the least OpenCL asks for 32 KiB).
  if (local_memory >= (640 << 10)) return wide ? PanelTile{128, 256, 192} : PanelTile{240, 512, 192};
  if (local_memory >= (250 << 10)) return wide ? PanelTile{48, 96, 192} : PanelTile{96, 192, 192};
  return wide ? PanelTile{16, 32, 64} : PanelTile{32, 64, 64};
}

PanelSplit split_panels(const PanelTile& tile, int64_t batch, int64_t m, int64_t n, int64_t k, int units) {
  constexpr int64_t row_step = 16, column_step = 32;
  // Time of the busiest unit in multiply-adds per k: packing an element costs about as much as 8 of them.
  constexpr int64_t packing = 8;
  // Elements of c that a task keeps in the cache from slab to slab.
  constexpr int64_t carried = 128 << 10;
  auto down = [](int64_t size, int64_t step) { return std::max(step, size / step * step); };
  // Slabs of equal depth, so that the last one is not a sliver; shallow ones leave room for more rows and columns.
  const int64_t slabs = std::max<int64_t>(1, ceil_div(k, tile.kc));
  const int64_t kc = std::min<int64_t>(tile.kc, std::max<int64_t>(16, round_up(ceil_div(k, slabs), 16)));
  const int64_t most_rows = down(int64_t{tile.mc} * tile.kc / kc, row_step), most_columns = down(int64_t{tile.nc} * tile.kc / kc, column_step);
  PanelSplit best{};
  int64_t best_cost = std::numeric_limits<int64_t>::max();
  const int64_t gn0 = ceil_div(n, most_columns);
  for (int64_t gn = gn0; gn <= gn0 + 2 * units && (gn == gn0 || gn * column_step <= round_up(n, column_step)); ++gn) {
    const int64_t nc = round_up(ceil_div(n, gn), column_step);
    const int64_t gm0 = slabs == 1 ? 1 : ceil_div(m, std::max(most_rows, down(carried / nc, row_step)));
    for (int64_t gm = gm0; gm <= gm0 + 2 * units && (gm == gm0 || gm * row_step <= round_up(m, row_step)); ++gm) {
      const int64_t mc = round_up(ceil_div(m, gm), row_step);
      const int64_t tasks = batch * ceil_div(m, mc) * ceil_div(n, nc);
      const int64_t cost = ceil_div(tasks, units) * (mc * nc + packing * (mc + nc));
      if (cost >= best_cost) continue;
      best_cost = cost;
      const int64_t block = round_up(ceil_div(mc, ceil_div(mc, most_rows)), row_step);
      best = {static_cast<int32_t>(mc), static_cast<int32_t>(nc), static_cast<int32_t>(kc), static_cast<int32_t>(std::min(block, most_rows))};
    }
  }
  return best;
}

namespace gemm_detail {
namespace {

// Mirrors panel_plan in kernels_cl/gemm_panel.cl.
struct PanelPlan {
  int64_t carry_batch, carry_row;
  int32_t mc, nc, kc, block, a_mode, b_mode, dense, batch, direct;
};

const char* refuses(const GemmProblem& p, const Device& device) {
  if (!device.fat()) return "needs fat kernels";
  if (!is_real_floating(p.dtype)) return "real floating types only";
  if (device.capabilities().local_memory < (32 << 10)) return "needs 32 KiB of local memory";
  return nullptr;
}

int32_t packing_mode(int64_t along_panel, int64_t along_k) { return along_panel == 1 ? 0 : (along_k == 1 ? 1 : 2); }

// Rows of a are read where they lie: nothing to convert, and the elements that a tile reads one after another are neighbours.
bool reads_rows(const GemmProblem& p) { return p.a[2] == 1 && !is_half(p.dtype); }

bool carries_in_c(const GemmProblem& p) { return p.c[2] == 1 && !is_half(p.dtype); }

size_t workspace(const GemmProblem& p, const Device& device) {
  if (carries_in_c(p) || p.k <= panel_tile(device.capabilities().local_memory, p.dtype).kc) return 0;
  return static_cast<size_t>(p.batch * p.m * round_up(p.n, 32)) * size_of(compute_type(p.dtype));
}

Kernel& kernel_of(KernelSite& site, Device& device, DType type, const PanelTile& tile, bool pairs, bool prepacked) {
  return site.get(device, Variant().add(type).add(pairs, 1).add(prepacked, 1), [&] {
    Defines defines;
    dtype(defines, "DTYPE", type);
    defines.add("WIDE", type == DType::float64).add("PAIRS", pairs).add("PREPACKED", prepacked).add("DIRECT", !is_half(type));
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
  return split_panels(tile, p.batch, p.m, p.n, p.k, static_cast<int>(device.capabilities().compute_units));
}

template <class T>
void run_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* carry, const PanelTile& tile, bool pairs) {
  static KernelSite site("gemm_panel.cl", "gemm_panel");
  Kernel& kernel = kernel_of(site, queue.device(), p.dtype, tile, pairs, false);
  const PanelPlan plan = plan_of(p, split_of(p, queue.device(), tile), carry);
  const Range grid(ceil_div(p.m, plan.mc), ceil_div(p.n, plan.nc), p.batch);
  launch(queue, kernel, grid, Range(1, 1, 1), o.a, o.b, o.c, o.d ? o.d : o.c, carry ? carry : o.c, GemmArguments(p), plan,
         static_cast<T>(p.alpha.real()), static_cast<T>(p.beta.real()));
}

void run(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* workspace) {
  const PanelTile tile = panel_tile(queue.device().capabilities().local_memory, p.dtype);
  if (p.dtype == DType::float64) return run_as<double>(queue, p, o, workspace, tile, false);
  run_as<float>(queue, p, o, workspace, tile, false);
}

// ---- operands packed once, for all tasks

// Panels of b come from the second-level cache while they are used first, so slabs may be deep: fewer passes over c. Tiles of c that
// stay in that cache, and enough of them that a core which others slow down costs little.
PanelTile prepacked_tile(DType dtype) { return dtype == DType::float64 ? PanelTile{128, 256, 256} : PanelTile{128, 512, 512}; }

// Elements of the packed operands.
int64_t packed_a(const GemmProblem& p) { return reads_rows(p) ? 0 : p.batch * round_up(p.m, 16) * p.k; }
int64_t packed_b(const GemmProblem& p) { return p.batch * round_up(p.n, 32) * p.k; }

const char* prepacked_refuses(const GemmProblem& p, const Device& device) {
  constexpr int64_t most_bytes = int64_t{128} << 20;
  if (const char* reason = refuses(p, device)) return reason;
  if (p.k < 1) return "nothing to pack";
  return (packed_a(p) + packed_b(p)) * static_cast<int64_t>(size_of(compute_type(p.dtype))) <= most_bytes ? nullptr : "operands are too large for a copy";
}

// Tasks that pack for themselves pack a once per column of tiles and b once per row of them.
const char* prepacked_declines(const GemmProblem& p, const Device& device) {
  constexpr int64_t worthwhile = 200'000;  // elements: 30 us and more, a further launch costs less
  const PanelSplit split = split_of(p, device, panel_tile(device.capabilities().local_memory, p.dtype));
  const int64_t again = (ceil_div(p.n, split.nc) - 1) * packed_a(p) + (ceil_div(p.m, split.mc) - 1) * packed_b(p);
  return again >= worthwhile ? nullptr : "few panels are packed twice";
}

int64_t carried(const GemmProblem& p) {
  return carries_in_c(p) || p.k <= prepacked_tile(p.dtype).kc ? 0 : p.batch * p.m * round_up(p.n, 32);
}

size_t prepacked_workspace(const GemmProblem& p, const Device&) {
  return static_cast<size_t>(packed_a(p) + packed_b(p) + carried(p) + 1) * size_of(compute_type(p.dtype));
}

template <class T>
void run_prepacked_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, T* a) {
  static KernelSite pack_site("gemm_panel.cl", "gemm_pack"), site("gemm_panel.cl", "gemm_panel");
  Device& device = queue.device();
  const PanelTile tile = prepacked_tile(p.dtype);
  const PanelSplit split = split_of(p, device, tile);
  T* b = a + packed_a(p);
  T* behind = b + packed_b(p);
  T* carry = carried(p) ? behind : nullptr;
  T* turn = behind + carried(p);  // the next tile to be claimed
  const PanelPlan plan = plan_of(p, split, carry);
  constexpr int64_t extent = 128;  // PACK_EXTENT in gemm_panel.cl
  const Range parts((plan.direct ? 0 : ceil_div(p.m, extent)) + ceil_div(p.n, extent), ceil_div(p.k, plan.kc), p.batch);
  launch(queue, kernel_of(pack_site, device, p.dtype, tile, false, true), parts, Range(1, 1, 1), o.a, o.b, a, b, GemmArguments(p), plan, turn);
  // Some more groups than compute units: a runtime that deals them out in advance may give one unit several and another none.
  const int64_t tiles = p.batch * ceil_div(p.m, plan.mc) * ceil_div(p.n, plan.nc), groups = 4 * int64_t{device.capabilities().compute_units};
  launch(queue, kernel_of(site, device, p.dtype, tile, false, true), Range(std::min(tiles, groups)), Range(1), a, o.a, b, o.c, o.d ? o.d : o.c,
         carry ? carry : o.c, GemmArguments(p), plan, static_cast<T>(p.alpha.real()), static_cast<T>(p.beta.real()), turn);
}

void run_prepacked(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* workspace) {
  if (p.dtype == DType::float64) return run_prepacked_as(queue, p, o, static_cast<double*>(workspace));
  run_prepacked_as(queue, p, o, static_cast<float*>(workspace));
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
const GemmAlgorithm prepacked{"prepacked", prepacked_refuses, prepacked_declines, prepacked_workspace, run_prepacked};
const GemmAlgorithm bfloat16_pairs{"bfloat16_pairs", pairs_refuses, pairs_declines, pairs_workspace, pairs_run};

}  // namespace gemm_detail
}  // namespace ocl::ops
