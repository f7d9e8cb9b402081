#include "ops/reduce/engine.h"

#include <algorithm>

namespace ocl::ops {

void moments(Queue& queue, const TensorView& x, DimMask dims, double correction, bool square_root,
             const TensorView& spread, const TensorView& mean) {
  const ReduceEngine second(queue, square_root ? Reduction::deviation : Reduction::variance, x.dtype, spread.dtype);
  const DType accumulator = second.accumulator();
  const ReduceEngine first(queue, Reduction::mean, x.dtype, accumulator);
  const ReducePlan plan = second.plan(x, dims, spread, {});
  const double n = static_cast<double>(plan.shape.extent);

  // The means, dense in the plan's order of outputs.
  Workspace means(queue, plan.shape.outputs * size_of(accumulator));
  ReducePlan linear = plan;
  int64_t stride = 1;
  for (int d = plan.shape.kept - 1; d >= 0; --d) {
    linear.shape.kept_y[d] = stride;
    stride *= plan.shape.kept_size[d];
  }
  first.run(linear, {x.data, means.data(), nullptr, nullptr}, n);
  second.run(plan, {x.data, spread.data, nullptr, means.data()}, std::max(0.0, n - correction));
  if (!mean.data) return;
  const ReduceEngine copy(queue, Reduction::sum, accumulator, mean.dtype);
  ReducePlan scatter = copy.plan(
      TensorView::strided(x.data, x.dtype, {x.sizes.data(), size_t(x.dims)}, {x.strides.data(), size_t(x.dims)}), dims,
      mean, {});
  scatter.shape.splits = 1;
  // both plans order the outputs by x's strides; only the merging of dimensions can differ
  copy.finish(scatter, means.data(), nullptr, {nullptr, mean.data, nullptr, nullptr}, 0);
}

}  // namespace ocl::ops
