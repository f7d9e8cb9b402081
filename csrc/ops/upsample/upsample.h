// Resampling in 1 to 3 dimensions: nearest, nearest-exact, linear (bilinear, trilinear) and cubic (bicubic), forward
// and backward, with PyTorch's source positions; and with filters widened by the scale against aliasing (linear, cubic,
// Lanczos), as Pillow does.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

enum class UpsampleMode : int32_t {
  nearest,
  nearest_exact,
  linear,
  cubic,
  linear_antialias,
  cubic_antialias,
  lanczos_antialias
};

// Dense [N, C, D, H, W], row-major or channels last. Floating types; uint8 for the nearest modes.
struct UpsampleProblem {
  UpsampleMode mode = UpsampleMode::nearest;
  DType dtype = DType::float32;
  bool align_corners = false, channels_last = false;
  int64_t batch = 1, channels = 1;
  std::array<int64_t, 3> input{1, 1, 1}, output{1, 1, 1};  // (D, H, W)
  std::array<bool, 3> resampled{false, false, true};       // axes that take part; the others must keep their size
  std::array<double, 3> scale_factor{0, 0, 0};             // given by the user; 0: from the sizes
};

void upsample_forward(Queue& queue, const UpsampleProblem& problem, const void* x, void* y);
void upsample_backward(Queue& queue, const UpsampleProblem& problem, const void* grad, void* dx);

}  // namespace ocl::ops
