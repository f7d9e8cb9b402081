// Register-blocked tiles with double-buffered local memory for GPUs (kernels_cl/gemm_simt.cl).
#include "ops/gemm/algorithms.h"

#include <algorithm>

namespace ocl::ops::gemm_detail {
namespace {

// Mirrors simt_plan in kernels_cl/gemm_simt.cl.
struct SimtPlan {
  int64_t slice, batch;
  int32_t slices, a_mode, b_mode, unused = 0;
};

// Bytes of local memory: two buffers of 16 steps of k for each operand, rows padded by 4.
uint64_t local_bytes(int tile, DType dtype) { return uint64_t{2} * 2 * 16 * (tile + 4) * size_of(compute_type(dtype)); }

// Small tiles while large ones would leave units without work, for doubles (registers) and where local memory is small.
int tile_of(const GemmProblem& p, const Device& device) {
  if (p.dtype == DType::float64 || p.m <= 64 || p.n <= 64 || local_bytes(128, p.dtype) > device.capabilities().local_memory) return 64;
  return p.batch * ceil_div(p.m, 128) * ceil_div(p.n, 128) >= 2 * device.capabilities().compute_units ? 128 : 64;
}

SimtPlan plan_of(const GemmProblem& p, const Device& device) {
  const int tile = tile_of(p, device);
  const int64_t tiles = p.batch * ceil_div(p.m, tile) * ceil_div(p.n, tile), wanted = 2 * device.capabilities().compute_units;
  constexpr int64_t slab = 16, least_slice = 256;
  SimtPlan plan{std::max<int64_t>(p.k, 1), p.batch, 1, p.a[1] == 1 ? 0 : 1, p.b[2] == 1 ? 0 : 1};
  if (tiles < wanted && p.k >= 2 * least_slice) {
    const int64_t slices = std::min({ceil_div(wanted, tiles), p.k / least_slice, int64_t{64}});
    plan.slice = round_up(ceil_div(p.k, slices), slab);
    plan.slices = static_cast<int32_t>(ceil_div(p.k, plan.slice));
  }
  return plan;
}

const char* refuses(const GemmProblem& p, const Device& device) {
  if (!is_real_floating(p.dtype)) return "real floating types only";
  if (local_bytes(64, p.dtype) > device.capabilities().local_memory) return "too little local memory";
  if (device.capabilities().max_work_group < 256) return "needs groups of 256 work-items";
  return nullptr;
}

const char* declines(const GemmProblem&, const Device& device) { return device.fat() ? "fat kernels are faster" : nullptr; }

size_t workspace(const GemmProblem& p, const Device& device) {
  const SimtPlan plan = plan_of(p, device);
  return plan.slices == 1 ? 0 : static_cast<size_t>(plan.slices * p.batch * p.m * p.n) * size_of(compute_type(p.dtype));
}

template <class T>
void run_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* partial) {
  static KernelSite main_site("gemm_simt.cl", "gemm_simt"), finish_site("gemm_simt.cl", "gemm_simt_finish");
  const int tile = tile_of(p, queue.device());
  const SimtPlan plan = plan_of(p, queue.device());
  auto launch_at = [&](KernelSite& site, const Range& grid, const Range& group) {
    Kernel& kernel = site.get(queue.device(), Variant().add(p.dtype).add(tile == 128, 1), [&] {
      Defines defines;
      dtype(defines, "DTYPE", p.dtype);
      return defines.add("WIDE", sizeof(T) == 8).add("TILE", tile);
    });
    launch(queue, kernel, grid, group, o.a, o.b, o.c, o.d ? o.d : o.c, partial ? partial : o.c, GemmArguments(p), plan,
           static_cast<T>(p.alpha.real()), static_cast<T>(p.beta.real()));
  };
  launch_at(main_site, Range(16 * ceil_div(p.n, tile), 16 * ceil_div(p.m, tile), p.batch * plan.slices), Range(16, 16, 1));
  if (plan.slices > 1) launch_at(finish_site, Range(p.n, p.m, p.batch), Range());
}

void run(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* partial) {
  if (p.dtype == DType::float64) return run_as<double>(queue, p, o, partial);
  run_as<float>(queue, p, o, partial);
}

}  // namespace

const GemmAlgorithm simt{"simt", refuses, declines, workspace, run};

}  // namespace ocl::ops::gemm_detail
