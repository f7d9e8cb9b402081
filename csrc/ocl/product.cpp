#include "ocl/convolution.h"

#include <string>

namespace ocl {

using ops::GemmOperands;
using ops::GemmProblem;
using ops::TensorView;

Product::Product(const Device& device, const GemmProblem& problem) : problem_(problem) {
  if (problem.batch < 0 || problem.m < 0 || problem.n < 0 || problem.k < 0)
    throw InvalidArgument("product: a negative size");
  ops::require_dtype(device, problem.dtype, "product");
  GemmProblem canonical = problem;
  GemmOperands none;
  ops::canonicalize(canonical, none);
  choice_ = ops::choose_gemm(canonical, ops::PlanTarget(device));
}

void Product::run(Queue& queue, const GemmOperands& operands) const {
  GemmProblem p = problem_;
  GemmOperands o = operands;
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  ops::canonicalize(p, o);
  const Workspace workspace(queue, choice_.plan.workspace);
  choice_.plan.run(queue, p, o, workspace.data());
}

void product(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& c) {
  const auto shapes = [&] { return a.shape_string() + ", " + b.shape_string() + " and " + c.shape_string(); };
  const int dims = a.dims;
  if ((dims != 2 && dims != 3) || b.dims != dims || c.dims != dims)
    throw InvalidArgument("product: " + shapes() + " are not three matrices or three batches of them");
  if (b.dtype != a.dtype || c.dtype != a.dtype) throw InvalidArgument("product: the element types differ");
  const auto strides = [&](const TensorView& x) {
    return ops::MatrixStrides{dims == 3 ? x.stride(0) : 0, x.stride(-2), x.stride(-1)};
  };
  GemmProblem p;
  p.dtype = a.dtype;
  p.batch = dims == 3 ? a.size(0) : 1;
  p.m = a.size(-2), p.k = a.size(-1), p.n = b.size(-1);
  p.a = strides(a), p.b = strides(b), p.c = strides(c);
  const bool same_batch = dims == 2 || (b.size(0) == p.batch && c.size(0) == p.batch);
  if (!same_batch || b.size(-2) != p.k || c.size(-2) != p.m || c.size(-1) != p.n)
    throw InvalidArgument("product: " + shapes() + " do not fit each other");
  ops::gemm(queue, p, {a.data, b.data, c.data, nullptr});
}

}  // namespace ocl
