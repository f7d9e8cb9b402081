#include "ops/grid_sample/grid_sample.h"

#include "torch/aten/common.h"

#include <ATen/Context.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {
namespace {

ops::GridSample problem_of(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation, int64_t padding,
                           bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  const int dims = static_cast<int>(input.dim()) - 2;
  if (dims == 2)
    at::native::check_grid_sampler_2d(input, grid);
  else
    at::native::check_grid_sampler_3d(input, grid, interpolation);
  TORCH_CHECK(input.scalar_type() == grid.scalar_type(),
              "grid_sampler(): expected input and grid to have the same dtype, but got ", input.scalar_type(), " and ",
              grid.scalar_type());
  if (!input.is_floating_point()) not_implemented_for("grid_sampler", input.scalar_type());
  ops::GridSample problem;
  problem.dtype = dtype_of(input.scalar_type());
  problem.dims = dims;
  problem.batch = input.size(0);
  problem.channels = input.size(1);
  problem.points = 1;
  for (int d = 0; d < dims; ++d) {
    problem.points *= grid.size(1 + d);
    problem.image[static_cast<size_t>(d)] = input.size(-1 - d);
  }
  problem.interpolation = static_cast<ops::GridInterpolation>(interpolation);
  problem.padding = static_cast<ops::GridPadding>(padding);
  problem.align_corners = align_corners;
  return problem;
}

at::Tensor grid_sampler(const at::Tensor& input_, const at::Tensor& grid_, int64_t interpolation, int64_t padding,
                        bool align_corners) {
  const c10::OptionalDeviceGuard guard(at::device_of(input_));
  const ops::GridSample problem = problem_of(input_, grid_, interpolation, padding, align_corners);
  const at::Tensor input = input_.contiguous(), grid = grid_.contiguous();
  at::DimVector sizes{input.size(0), input.size(1)};
  sizes.append(grid.sizes().begin() + 1, grid.sizes().end() - 1);
  at::Tensor output = at::empty(sizes, input.options());
  ops::grid_sample(queue_for(input), problem, address(output), address(input), address(grid));
  return output;
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_backward(const at::Tensor& grad_, const at::Tensor& input_,
                                                         const at::Tensor& grid_, int64_t interpolation,
                                                         int64_t padding, bool align_corners,
                                                         std::array<bool, 2> mask) {
  const c10::OptionalDeviceGuard guard(at::device_of(input_));
  const ops::GridSample problem = problem_of(input_, grid_, interpolation, padding, align_corners);
  const at::Tensor grad = grad_.contiguous(), input = input_.contiguous(), grid = grid_.contiguous();
  at::Tensor grad_input, grad_grid;
  if (mask[0]) grad_input = at::zeros(input.sizes(), input.options());
  grad_grid = at::empty(grid.sizes(), grid.options());
  if (mask[1] && problem.channels == 0) grad_grid.zero_();
  ops::grid_sample_backward(queue_for(input), problem, address(grad_input), mask[1] ? address(grad_grid) : nullptr,
                            address(grad), address(input), address(grid),
                            at::globalContext().deterministicAlgorithms());
  return {grad_input, grad_grid};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("grid_sampler_2d", grid_sampler);
  m.impl("grid_sampler_3d", grid_sampler);
  m.impl("grid_sampler_2d_backward", grid_sampler_backward);
  m.impl("grid_sampler_3d_backward", grid_sampler_backward);
}

}  // namespace
}  // namespace ocl::aten
