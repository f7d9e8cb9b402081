// Sampling an image at the points of a grid, in two and three dimensions (torch.nn.functional.grid_sample).
// input [N, C, (D,) H, W] and output [N, C, P...] contiguous, grid [N, P..., dims] with (x, y(, z)) in [-1, 1].
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

enum class GridInterpolation { bilinear = 0, nearest = 1, bicubic = 2 };  // bicubic in two dimensions only
enum class GridPadding { zeros = 0, border = 1, reflection = 2 };

struct GridSample {
  DType dtype = DType::float32;  // of every operand
  int dims = 2;
  int64_t batch = 1, channels = 1, points = 1;
  std::array<int64_t, 3> image{1, 1, 1};  // (W, H, D): in the order of the grid's coordinates
  GridInterpolation interpolation = GridInterpolation::bilinear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
};

void grid_sample(Queue& queue, const GridSample& problem, void* output, const void* input, const void* grid);
// grad_input (starts as zeros; may be null) += gradient; grad_grid (may be null) = gradient. CPU devices never use
// atomics.
void grid_sample_backward(Queue& queue, const GridSample& problem, void* grad_input, void* grad_grid,
                          const void* grad_output, const void* input, const void* grid, bool deterministic);

}  // namespace ocl::ops
