// What the rows share: broadcasting, elementwise calls, axes, windows.
#pragma once

#include "onnxruntime/operator.h"
#include "ops/elementwise/elementwise.h"

#include <array>

namespace ocl::ort {

// The sizes that tensors of these sizes broadcast to. Errors: InvalidArgument when they do not fit.
Sizes broadcast_sizes(std::span<const Sizes> all);
// The view seen with these sizes, stride 0 where it is repeated. Errors: InvalidArgument.
TensorView broadcast(const TensorView& view, const Sizes& sizes);
// Dimensions in another order.
TensorView permuted(const TensorView& view, std::span<const int> order);
// The same elements of a row-major tensor with other sizes.
TensorView reshaped(const TensorView& dense, const Sizes& sizes);

// y = row(inputs...), broadcast, in a new output of type `result`; computed in `compute` (the types that kernels
// compute in: ops::compute_type is applied).
void elementwise_output(Run& run, int output, const char* row, DType compute, DType result,
                        std::initializer_list<int> inputs, std::initializer_list<ops::ElementwiseScalar> scalars = {});

// Axes from the front; none given: all. Errors: InvalidArgument.
std::vector<int> axes_of(std::span<const int64_t> axes, int rank);

// Windows of convolutions and pools over 1 to 3 spatial dimensions.
struct WindowAttributes {
  std::string auto_pad;
  Sizes kernel, stride, padding, dilation;  // padding: begins, then ends; empty: default
};
WindowAttributes window_attributes(const Node& node);

// The same for one input, in triples (D, H, W) whose unused leading dimensions are 1.
struct Window {
  using Triple = std::array<int64_t, 3>;
  int spatial = 0;
  Triple input{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, before{0, 0, 0}, after{0, 0, 0};
  bool symmetric() const { return before == after; }
  // Sizes of the output without ceil_mode.
  Triple output() const;
};
// `kernel`: spatial sizes of the window. Errors: InvalidArgument.
Window place_window(const WindowAttributes& attributes, const Sizes& input, const Sizes& kernel);
// The output of auto_pad SAME_*, VALID or explicit padding with ceil_mode, as ONNX Runtime computes it.
Window::Triple pooled_output(const Window& window, bool ceil_mode);

// A row-major copy of x [N, C, *] with `value` around it; also cropped where paddings are negative.
TensorView padded(Run& run, const TensorView& x, const Sizes& before, const Sizes& after, double value);

}  // namespace ocl::ort
