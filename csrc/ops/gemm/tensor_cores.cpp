// Tiles on the tensor cores of NVIDIA's GPUs (kernels_cl/gemm/tensor_cores.gpu.cl): float32 by three products of TF32,
// or one where that precision is allowed (ops/core/precision.h), the half types by one.
#include "opencl/capabilities/tensor_cores.h"
#include "ops/gemm/slices.h"
#include "ops/gemm/tensor_cores.h"

#include <algorithm>
#include <array>

namespace ocl::ops {

using namespace gemm_detail;

namespace {

ProductTile tile_of(const GemmProblem& p, const PlanTarget& target) {
  return choose_product_tile(p.m, p.n, p.batch, target, {64, 128});
}

// How the kernel reads an operand: whether neighbours along k are neighbours in memory, and whether it comes in whole
// aligned chunks of 16 bytes.
struct Access {
  bool along_k, chunks;
};

Access access_of(const void* address, const GemmProblem& p, std::array<int64_t, 2> batch_strides, int64_t panel_stride,
                 int64_t k_stride, int64_t panel) {
  const int64_t chunk = 16 / static_cast<int64_t>(size_of(p.dtype));
  const bool along_k = panel_stride != 1 || k_stride == 1;
  const int64_t inner = along_k ? k_stride : panel_stride, outer = along_k ? panel_stride : k_stride,
                length = along_k ? p.k : panel;
  const bool whole =
      outer % chunk == 0 && length % chunk == 0 && batch_strides[0] % chunk == 0 && batch_strides[1] % chunk == 0;
  return {along_k, inner == 1 && whole && reinterpret_cast<uintptr_t>(address) % 16 == 0};
}

const char* refuses(const GemmProblem& p, const PlanTarget& target) {
  if (p.dtype != DType::float32 && p.dtype != DType::bfloat16 && p.dtype != DType::float16)
    return "float32 and the half types only";
  if (!target.tensor_cores()) return "no tensor cores";
  return nullptr;
}

const char* declines(const GemmProblem& p) {
  return p.m <= 16 || p.n <= 16 ? "most of a tile would be empty" : nullptr;
}

// Four warps along n: two read less of local memory, but leave half as many warps to a unit, and took 1.3 times as long
// for the half types on an H100.
constexpr int warps = 4;
constexpr size_t group_items = warps * 64;

void run_planned(Queue& queue, const GemmProblem& p, const GemmOperands& o, const SlicePlan& plan, ProductTile tile,
                 DType out, void* partial) {
  static KernelSite site("gemm/tensor_cores.gpu.cl", "gemm_tensor_cores");
  const Access a = access_of(o.a, p, {p.a[0], plan.a_outer}, p.a[1], p.a[2], p.m),
               b = access_of(o.b, p, {p.b[0], plan.b_outer}, p.b[2], p.b[1], p.n);
  const bool exact = p.dtype == DType::float32 && !allows_tf32(p.rounding), chunks = a.chunks && b.chunks;
  const bool warpgroups =
      chunks && !exact && (p.dtype != DType::float32 || (a.along_k && b.along_k)) && has_warpgroups(queue.device());
  const Variant variant = Variant()
                              .add(p.dtype)
                              .add(out)
                              .add(exact, 1)
                              .add(tile.m == 128, 1)
                              .add(tile.n == 128, 1)
                              .add(a.along_k, 1)
                              .add(b.along_k, 1)
                              .add(chunks, 1);
  Kernel& kernel = site.get(queue.device(), variant, [&] {
    Defines defines;
    dtype(defines, "DTYPE", p.dtype);
    dtype(defines, "OUT_DTYPE", out);
    add_tensor_core_defines(defines, warpgroups);
    if (chunks && !exact)
      defines.add("MOST_REGISTERS",
                  128);  // two groups to a unit; three products have enough to do with one, and no registers to spare
    defines.add("EXACT", exact).add("TILE_M", tile.m).add("TILE_N", tile.n).add("WARPS_N", warps);
    return defines.add("A_ALONG_K", a.along_k).add("B_ALONG_K", b.along_k).add("CHUNKS", chunks);
  });
  run_slices(queue, kernel, p, o, plan, tile.m, tile.n, Range(group_items, 1, 1), partial);
}

GemmPlan plan_tensor_cores(const GemmProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  const ProductTile tile = tile_of(p, target);
  const SlicePlan slices = plan_slices(p, target, tile.m, tile.n);
  return {nullptr, declines(p), slices_workspace(p, slices),
          [tile, slices](Queue& queue, const GemmProblem& problem, const GemmOperands& o, void* partial) {
            run_planned(queue, problem, o, slices, tile, problem.dtype, partial);
          }};
}

}  // namespace

ProductTile choose_product_tile(int64_t rows, int64_t columns, int64_t layers, const PlanTarget& target,
                                ProductTile medium) {
  // most units: the larger tile of two that differ by a factor of two in number reads less, and takes less than twice
  // as long
  const auto fills = [&](ProductTile t) {
    return layers * ceil_div(rows, t.m) * ceil_div(columns, t.n) * 8 >= target.compute_units * 7;
  };
  if (rows > 64 && columns > 64 && fills({128, 128})) return {128, 128};
  return (medium.m == 64 || rows > 64) && (medium.n == 64 || columns > 64) && fills(medium) ? medium
                                                                                            : ProductTile{64, 64};
}

void multiply_rows_of_matrices(Queue& queue, const GemmProblem& p, const GemmOperands& o, const MatrixRows& rows,
                               DType out) {
  const ProductTile tile = tile_of(p, PlanTarget(queue.device()));
  SlicePlan plan{
      std::max<int64_t>(p.k, 1),         p.batch, rows.inner, rows.a_outer, rows.b_outer, rows.c_outer, 1, 0, 0,
      static_cast<int32_t>(rows.b_group)};
  run_planned(queue, p, o, plan, tile, out, nullptr);
}

const GemmAlgorithm gemm_detail::tensor_cores{"tensor_cores", plan_tensor_cores};

}  // namespace ocl::ops
