// Tiles on the tensor cores of NVIDIA's GPUs (kernels_cl/gemm_tensor_cores.cl): float32 by three products of TF32, or one where that precision is
// allowed (ops/core/precision.h), the half types by one.
#include "opencl/tensor_cores.h"
#include "ops/core/precision.h"
#include "ops/gemm/slices.h"

#include <algorithm>

namespace ocl::ops::gemm_detail {
namespace {

struct Tile {
  int m, n;
};

// Large tiles need fewer bytes for a product; smaller ones while large ones would leave units without work.
Tile tile_of(const GemmProblem& p, const Device& device) {
  const auto count = [&](int m, int n) { return p.batch * ceil_div(p.m, m) * ceil_div(p.n, n); };
  const int64_t units = device.capabilities().compute_units;
  if (p.m > 64 && p.n > 64 && count(128, 128) >= units) return {128, 128};
  if (p.n > 64 && count(64, 128) >= units) return {64, 128};
  return {64, 64};
}

// How the kernel reads an operand: whether neighbours along k are neighbours in memory, and whether it comes in aligned quads of units.
struct Access {
  bool along_k, vectors;
};

Access access_of(const void* address, const GemmProblem& p, int64_t batch_stride, int64_t panel_stride, int64_t k_stride, int64_t panel) {
  const int64_t size = static_cast<int64_t>(size_of(p.dtype)), wide = 16 / size;  // elements of a vector along k
  Access a{panel_stride != 1 || k_stride == 1, false};
  const auto aligned = [&](int64_t elements, int64_t to) { return elements % to == 0; };
  const auto byte = reinterpret_cast<uintptr_t>(address);
  if (a.along_k)
    a.vectors = k_stride == 1 && byte % 16 == 0 && aligned(panel_stride, wide) && aligned(batch_stride, wide) && aligned(p.k, wide);
  else  // four elements of the panel, of one or two steps of k
    a.vectors = byte % (4 * size) == 0 && aligned(k_stride, 4) && aligned(batch_stride, 4) && aligned(panel, 4) && (size == 4 || p.k % 2 == 0);
  return a;
}

const char* refuses(const GemmProblem& p, const Device& device) {
  if (p.dtype != DType::float32 && p.dtype != DType::bfloat16 && p.dtype != DType::float16) return "float32 and the half types only";
  if (!has_tensor_cores(device)) return "no tensor cores";
  return nullptr;
}

const char* declines(const GemmProblem& p, const Device&) {
  return p.m <= 16 || p.n <= 16 ? "most of a tile would be empty" : nullptr;
}

SlicePlan plan_of(const GemmProblem& p, const Device& device) {
  const Tile tile = tile_of(p, device);
  return plan_slices(p, device, tile.m, tile.n);
}

size_t workspace(const GemmProblem& p, const Device& device) { return slices_workspace(p, plan_of(p, device)); }

void run(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* partial) {
  static KernelSite site("gemm_tensor_cores.cl", "gemm_tensor_cores");
  const Tile tile = tile_of(p, queue.device());
  const Access a = access_of(o.a, p, p.a[0], p.a[1], p.a[2], p.m), b = access_of(o.b, p, p.b[0], p.b[2], p.b[1], p.n);
  const bool exact = !allows_tf32(Tf32::gemm);
  const Variant variant = Variant().add(p.dtype).add(exact, 1).add(tile.m == 128, 1).add(tile.n == 128, 1).add(a.along_k, 1).add(a.vectors, 1).add(b.along_k, 1).add(b.vectors, 1);
  Kernel& kernel = site.get(queue.device(), variant, [&] {
    Defines defines;
    dtype(defines, "DTYPE", p.dtype);
    add_tensor_core_defines(defines);
    defines.add("EXACT", exact).add("TILE_M", tile.m).add("TILE_N", tile.n);
    return defines.add("A_ALONG_K", a.along_k).add("A_VECTORS", a.vectors).add("B_ALONG_K", b.along_k).add("B_VECTORS", b.vectors);
  });
  run_slices(queue, kernel, p, o, plan_of(p, queue.device()), tile.m, tile.n, Range(256, 1, 1), partial);
}

}  // namespace

const GemmAlgorithm tensor_cores{"tensor_cores", refuses, declines, workspace, run};

}  // namespace ocl::ops::gemm_detail
