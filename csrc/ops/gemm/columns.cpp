// About 32 rows times a matrix that is larger than the caches, both contiguous along k
// (kernels_cl/gemm/columns.cpu.cl): fully connected layers.
#include "opencl/capabilities/prefetch.h"
#include "ops/gemm/algorithms.h"

namespace ocl::ops::gemm_detail {
namespace {

constexpr int64_t rows = 32;  // at most: two vectors
constexpr int64_t columns_of_task = params::columns_of_task, pack_depth = params::columns_packed;

// The problem with few rows in a.
GemmProblem flipped(const GemmProblem& p) { return has_few_columns(p, rows) ? transpose(p) : p; }

const char* refuses(const GemmProblem& problem, const PlanTarget& target) {
  if (!target.cpu_style) return "needs CPU kernels";
  if (!is_real_floating(problem.dtype) || problem.dtype == DType::float64)
    return "real floating types up to 32 bits only";
  const GemmProblem p = flipped(problem);
  if (p.m > rows || p.a[2] != 1 || p.b[1] != 1) return "needs few rows, and both operands contiguous along k";
  return nullptr;
}

const char* declines(const GemmProblem& problem, const PlanTarget& target) {
  const GemmProblem p = flipped(problem);
  if (multiplies_pairs(p, target)) return "pairs of bfloat16 multiply faster";
  if (p.m <= 24) return "too many lanes would be idle";
  if (p.k < 512 || p.n * p.k * static_cast<int64_t>(size_of(p.dtype)) < (int64_t{2} << 20))
    return "b stays in the caches";
  return nullptr;
}

size_t workspace(const GemmProblem& problem) {
  const GemmProblem p = flipped(problem);
  return static_cast<size_t>(p.batch * p.k * rows) * sizeof(float);
}

void run(Queue& queue, const GemmProblem& problem, const GemmOperands& operands, void* packed) {
  static KernelSite pack("gemm/columns.cpu.cl", "gemm_columns_pack"), multiply("gemm/columns.cpu.cl", "gemm_columns");
  GemmProblem p = problem;
  GemmOperands o = operands;
  if (has_few_columns(p, rows)) {
    p = transpose(p);
    std::swap(o.a, o.b);
  }
  auto kernel_of = [&](KernelSite& site) -> Kernel& {
    return site.get(queue.device(), Variant().add(p.dtype), [&] {
      Defines defines;
      dtype(defines, "DTYPE", p.dtype);
      add_prefetch_define(defines, queue.device());
      return defines.add("WIDE", 0);
    });
  };
  const GemmArguments arguments = gemm_arguments(p);
  launch(queue, kernel_of(pack), Range(ceil_div(p.k, pack_depth), p.batch), Range(1, 1), o.a, packed, arguments);
  launch(queue, kernel_of(multiply), Range(ceil_div(p.n, columns_of_task), p.batch), Range(1, 1), packed, o.b, o.c,
         o.d ? o.d : o.c, arguments, static_cast<float>(p.alpha.real()), static_cast<float>(p.beta.real()));
}

}  // namespace

const GemmAlgorithm columns{"columns", [](const GemmProblem& p, const PlanTarget& target) {
                              if (const char* reason = refuses(p, target)) return refused(reason);
                              return GemmPlan{nullptr, declines(p, target), workspace(p), run};
                            }};

}  // namespace ocl::ops::gemm_detail
