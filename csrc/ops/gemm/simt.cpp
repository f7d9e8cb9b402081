// Register-blocked tiles with double-buffered local memory for GPUs (kernels_cl/gemm/simt.gpu.cl).
#include "ops/gemm/slices.h"

#include <algorithm>

namespace ocl::ops::gemm_detail {
namespace {

// Bytes of local memory: two buffers of 16 steps of k for each operand, rows padded by 4.
uint64_t local_bytes(int tile, DType dtype) { return uint64_t{2} * 2 * 16 * (tile + 4) * size_of(compute_type(dtype)); }

// Small tiles while large ones would leave units without work, for doubles and devices with few registers (a large one
// has 64 sums in them), and where local memory is small.
int tile_of(const GemmProblem& p, const PlanTarget& target) {
  if (p.dtype == DType::float64 || p.m <= 64 || p.n <= 64 || local_bytes(128, p.dtype) > target.local_memory) return 64;
  const bool enough = p.batch * ceil_div(p.m, 128) * ceil_div(p.n, 128) >= 2 * target.compute_units;
  return enough && !target.few_registers() ? 128 : 64;
}

const char* refuses(const GemmProblem& p, const PlanTarget& target) {
  if (!is_real_floating(p.dtype)) return "real floating types only";
  if (local_bytes(64, p.dtype) > target.local_memory) return "too little local memory";
  if (target.max_work_group < 256) return "needs groups of 256 work-items";
  return nullptr;
}

const char* declines(const PlanTarget& target) {
  const bool has_panels = target.local_memory >= 32 << 10;  // gemm/panel.cpp
  return target.cpu_style && has_panels ? "CPU kernels are faster" : nullptr;
}

Kernel& kernel_of(KernelSite& site, Device& device, const GemmProblem& p, int tile) {
  return site.get(device, Variant().add(p.dtype).add(tile == 128, 1), [&] {
    Defines defines;
    dtype(defines, "DTYPE", p.dtype);
    return defines.add("WIDE", p.dtype == DType::float64).add("TILE", tile);
  });
}

GemmPlan plan_simt(const GemmProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  const int tile = tile_of(p, target);
  const SlicePlan slices = plan_slices(p, target, tile, tile);
  return {nullptr, declines(target), slices_workspace(p, slices),
          [tile, slices](Queue& queue, const GemmProblem& problem, const GemmOperands& o, void* partial) {
            static KernelSite site("gemm/simt.gpu.cl", "gemm_simt");
            run_slices(queue, kernel_of(site, queue.device(), problem, tile), problem, o, slices, tile, tile,
                       Range(16, 16, 1), partial);
          }};
}

template <class T>
void launch_gemm(Queue& queue, Kernel& kernel, const Range& grid, const Range& group, const GemmProblem& p,
                 const GemmOperands& o, const SlicePlan& plan, void* partial) {
  launch(queue, kernel, grid, group, o.a, o.b, o.c, o.d ? o.d : o.c, partial ? partial : o.c, gemm_arguments(p), plan,
         static_cast<T>(p.alpha.real()), static_cast<T>(p.beta.real()));
}

}  // namespace

SlicePlan plan_slices(const GemmProblem& p, const PlanTarget& target, int tile_m, int tile_n) {
  const int64_t tiles = p.batch * ceil_div(p.m, tile_m) * ceil_div(p.n, tile_n), wanted = 2 * target.compute_units;
  constexpr int64_t slab = 32, least_slice = 256;
  SlicePlan plan{std::max<int64_t>(p.k, 1), p.batch, std::max<int64_t>(p.batch, 1), 0, 0, 0, 1, p.a[1] == 1 ? 0 : 1,
                 p.b[2] == 1 ? 0 : 1,       1};
  if (tiles < wanted && p.k >= 2 * least_slice) {
    const int64_t slices = std::min({ceil_div(wanted, tiles), p.k / least_slice, int64_t{64}});
    plan.slice = round_up(ceil_div(p.k, slices), slab);
    plan.slices = static_cast<int32_t>(ceil_div(p.k, plan.slice));
  }
  return plan;
}

size_t slices_workspace(const GemmProblem& p, const SlicePlan& plan) {
  return plan.slices == 1 ? 0 : static_cast<size_t>(plan.slices * p.batch * p.m * p.n) * size_of(compute_type(p.dtype));
}

void run_slices(Queue& queue, Kernel& kernel, const GemmProblem& p, const GemmOperands& o, const SlicePlan& plan,
                int tile_m, int tile_n, const Range& local, void* partial) {
  static KernelSite finish_site("gemm/simt.gpu.cl", "gemm_simt_finish");
  const auto launch_typed = p.dtype == DType::float64 ? launch_gemm<double> : launch_gemm<float>;
  const Range tiles(local.size[0] * ceil_div(p.n, tile_n), local.size[1] * ceil_div(p.m, tile_m),
                    p.batch * plan.slices);
  launch_typed(queue, kernel, tiles, local, p, o, plan, partial);
  if (plan.slices > 1)
    launch_typed(queue, kernel_of(finish_site, queue.device(), p, 64), Range(p.n, p.m, p.batch), Range(), p, o, plan,
                 partial);
}

const GemmAlgorithm simt{"simt", plan_simt};

}  // namespace ocl::ops::gemm_detail
