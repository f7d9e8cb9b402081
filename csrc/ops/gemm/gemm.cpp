#include "ops/gemm/gemm.h"

#include "opencl/environment.h"
#include "ops/gemm/algorithms.h"

#include <stdexcept>
#include <utility>

namespace ocl::ops {

std::span<const GemmAlgorithm> gemm_algorithms() {
  static const GemmAlgorithm table[] = {
      gemm_detail::skinny,
      gemm_detail::bfloat16_pairs,
      gemm_detail::panel,
#if TORCH_OCL_CLBLAST
      gemm_detail::clblast,
#endif
      gemm_detail::simt,
      gemm_detail::reference,
  };
  return table;
}

const GemmAlgorithm& choose_gemm(const GemmProblem& problem, const Device& device) {
  const auto algorithms = gemm_algorithms();
  if (const auto forced = environment::get("TORCH_OCL_GEMM"); forced && *forced != "auto")
    for (const GemmAlgorithm& algorithm : algorithms)
      if (*forced == algorithm.name && !algorithm.refuses(problem, device)) return algorithm;
  for (const GemmAlgorithm& algorithm : algorithms)
    if (!algorithm.refuses(problem, device) && !algorithm.declines(problem, device)) return algorithm;
  return algorithms.back();
}

void canonicalize(GemmProblem& p, GemmOperands& operands) {
  // Rows of c as long as possible: a column vector is a row vector of the transposed problem.
  const bool column_is_unit = p.c[2] == 1 || p.n == 1, row_is_unit = p.c[1] == 1 || p.m == 1;
  if ((!column_is_unit && row_is_unit) || (p.n == 1 && p.m > 1 && p.c[1] == 1)) {
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    std::swap(operands.a, operands.b);
    for (MatrixStrides* strides : {&p.a, &p.b, &p.c, &p.d}) std::swap((*strides)[1], (*strides)[2]);
  }
  if (p.n == 1) p.c[2] = 1;
  if (p.n == 1) p.d[2] = 1;
  // A dimension of size 1 takes the stride that makes the operand look contiguous along the other one.
  auto settle = [](MatrixStrides& s, int64_t rows, int64_t columns) {
    if (columns == 1) s[2] = s[1] == 1 ? rows : 1;
    if (rows == 1) s[1] = s[2] == 1 ? columns : 1;
  };
  settle(p.a, p.m, p.k);
  settle(p.b, p.k, p.n);
}

void gemm(Queue& queue, const GemmProblem& problem, const GemmOperands& operands) {
  if (problem.batch < 0 || problem.m < 0 || problem.n < 0 || problem.k < 0) throw std::invalid_argument("gemm: negative size");
  if (problem.activation != Activation::none && !gemm_detail::is_real_floating(problem.dtype))
    throw std::invalid_argument("gemm: an activation needs a real floating type");
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  require_dtype(queue.device(), problem.dtype, "gemm");
  GemmProblem p = problem;
  GemmOperands o = operands;
  canonicalize(p, o);
  const GemmAlgorithm& algorithm = choose_gemm(p, queue.device());
  Workspace workspace(queue, algorithm.workspace(p, queue.device()));
  algorithm.run(queue, p, o, workspace.data());
}

}  // namespace ocl::ops
