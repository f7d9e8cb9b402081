// General matrix multiplication, batched: c = activation(alpha * a @ b + beta * d), all operands with arbitrary
// strides. d is what is added: c itself (BLAS), another tensor (addmm), or a bias (zero strides broadcast a row or a
// column).
#pragma once

#include "ops/core/context.h"
#include "ops/core/plan_target.h"
#include "ops/core/precision.h"

#include <complex>
#include <functional>
#include <span>

namespace ocl::ops {

enum class Activation : int32_t { none, relu, gelu };  // gelu is the exact one (erf)

// Strides of (batch, row, column) in elements; zero broadcasts.
using MatrixStrides = std::array<int64_t, 3>;

struct GemmProblem {
  DType dtype = DType::float32;  // of all operands
  int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixStrides a{}, b{}, c{}, d{};  // a: m x k, b: k x n, c and d: m x n; rows and columns of c must not overlap
  std::complex<double> alpha{1},
      beta{0};  // integers: truncated to int64; beta == 0 does not read d (NaN there is ignored)
  Activation activation = Activation::none;  // real floating types only
  Tf32 rounding = Tf32::gemm;  // whose setting says whether TF32 may be used: a convolution may be a product

  // (batch, rows, columns) row-major strides.
  static MatrixStrides row_major(int64_t rows, int64_t columns) { return {rows * columns, columns, 1}; }
  // Strides of a row-major matrix of `rows` x `columns` read as its transpose.
  static MatrixStrides transposed(int64_t rows, int64_t columns) { return {rows * columns, 1, columns}; }
};

struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* d = nullptr;  // may be c (with c's strides); may be null when beta == 0
};

// What an algorithm does with a problem on a device: made once for a problem, kept, and run by every launch.
struct GemmPlan {
  // nullptr when the algorithm can run the problem on the device, otherwise the reason why not: then nothing else is
  // set.
  const char* refusal = nullptr;
  // nullptr when it is also the better choice than the algorithms behind it; otherwise why it is passed over unless
  // forced.
  const char* declines = nullptr;
  size_t workspace = 0;  // bytes
  // Enqueues the product; the problem is the one that was planned, but for the strides of d and the values of alpha and
  // beta (a beta of zero stays one).
  std::function<void(Queue&, const GemmProblem&, const GemmOperands&, void* workspace)> run;
};

struct GemmAlgorithm {
  const char* name;  // for TORCH_OCL_GEMM and the benchmark
  GemmPlan (*plan)(const GemmProblem&, const PlanTarget&);
};

// All algorithms, best first; the last one, "reference", takes every type and stride.
std::span<const GemmAlgorithm> gemm_algorithms();

// The algorithm that gemm() takes where nothing is forced or measured, and its plan; the problem as gemm() passes it on
// (canonical).
struct GemmChoice {
  const GemmAlgorithm* algorithm = nullptr;
  GemmPlan plan;
};
GemmChoice choose_gemm(const GemmProblem& problem, const PlanTarget& target);

// Problem and operands with c's columns contiguous where possible (c^T = b^T a^T otherwise) and the strides of
// dimensions of size 1 made harmless. Algorithms may rely on it.
void canonicalize(GemmProblem& problem, GemmOperands& operands);

// Runs the algorithm forced by TORCH_OCL_GEMM when it does not refuse, otherwise the one known to be quickest
// (ops/core/tuning.h), otherwise the first that neither refuses nor declines; which one, and its plan, is kept for the
// next launch of the problem (ops/core/plan_table.h). An empty c does nothing; k == 0 gives
// activation(beta * d). Errors: InvalidArgument for negative sizes or an activation of a type that has none;
// Unsupported when the device lacks the type.
void gemm(Queue& queue, const GemmProblem& problem, const GemmOperands& operands);

}  // namespace ocl::ops
