// The algorithm that takes everything: integers, booleans, complex, any strides (kernels_cl/gemm/reference.cl).
#include "ops/gemm/algorithms.h"

namespace ocl::ops::gemm_detail {
namespace {

template <class Scalar>
void launch_with(Queue& queue, Kernel& kernel, const GemmProblem& p, const GemmOperands& o, Scalar alpha, Scalar beta) {
  launch(queue, kernel, Range(p.n, p.m, p.batch), Range(), o.a, o.b, o.c, o.d ? o.d : o.c, gemm_arguments(p), alpha,
         beta);
}

template <class Real>
std::array<Real, 2> pair(const std::complex<double>& value) {
  return {static_cast<Real>(value.real()), static_cast<Real>(value.imag())};
}

void run(Queue& queue, const GemmProblem& p, const GemmOperands& o, void*) {
  static KernelSite site("gemm/reference.cl", "gemm_reference");
  Kernel& kernel = site.get(queue.device(), Variant().add(p.dtype), [&] {
    Defines defines;
    dtype(defines, "DTYPE", p.dtype);
    return defines.add("IS_FLOAT64", p.dtype == DType::float64);
  });
  if (p.dtype == DType::complex64) return launch_with(queue, kernel, p, o, pair<float>(p.alpha), pair<float>(p.beta));
  if (p.dtype == DType::complex128)
    return launch_with(queue, kernel, p, o, pair<double>(p.alpha), pair<double>(p.beta));
  const double alpha = p.alpha.real(), beta = p.beta.real();
  if (p.dtype == DType::float64) return launch_with(queue, kernel, p, o, alpha, beta);
  if (is_floating(p.dtype))
    return launch_with(queue, kernel, p, o, static_cast<float>(alpha), static_cast<float>(beta));
  launch_with(queue, kernel, p, o, static_cast<int64_t>(alpha), static_cast<int64_t>(beta));
}

}  // namespace

const GemmAlgorithm reference{"reference",
                              [](const GemmProblem&, const PlanTarget&) { return GemmPlan{nullptr, nullptr, 0, run}; }};

}  // namespace ocl::ops::gemm_detail
