// General matrix multiplication, batched: c = activation(alpha * a @ b + beta * d), all operands with arbitrary
// strides. d is what is added: c itself (BLAS), another tensor (addmm), or a bias (zero strides broadcast a row or a
// column).
#pragma once

#include "ops/core/context.h"
#include "ops/core/precision.h"

#include <complex>
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

struct GemmAlgorithm {
  const char* name;  // for TORCH_OCL_GEMM and the benchmark
  // nullptr when the algorithm can run the problem on the device, otherwise the reason why not.
  const char* (*refuses)(const GemmProblem&, const Device&);
  // nullptr when it is also the better choice than the algorithms behind it; otherwise why it is passed over unless
  // forced.
  const char* (*declines)(const GemmProblem&, const Device&);
  size_t (*workspace)(const GemmProblem&, const Device&);  // bytes
  void (*run)(Queue&, const GemmProblem&, const GemmOperands&, void* workspace);
};

// All algorithms, best first; the last one, "reference", takes every type and stride.
std::span<const GemmAlgorithm> gemm_algorithms();

// What gemm() would run where nothing was measured; the problem as gemm() passes it on (canonical).
const GemmAlgorithm& choose_gemm(const GemmProblem& problem, const Device& device);

// Problem and operands with c's columns contiguous where possible (c^T = b^T a^T otherwise) and the strides of
// dimensions of size 1 made harmless. Algorithms may rely on it.
void canonicalize(GemmProblem& problem, GemmOperands& operands);

// Runs the algorithm forced by TORCH_OCL_GEMM when it does not refuse, otherwise the one known to be quickest
// (ops/core/tuning.h), otherwise the first that neither refuses nor declines. An empty c does nothing; k == 0 gives
// activation(beta * d). Errors: std::invalid_argument for negative sizes or an activation of a type that has none;
// std::runtime_error when the device lacks the type.
void gemm(Queue& queue, const GemmProblem& problem, const GemmOperands& operands);

}  // namespace ocl::ops
