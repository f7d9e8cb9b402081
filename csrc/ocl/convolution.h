// Convolutions and products over views: shapes are checked, and a plan can be kept and asked for its workspace.
#pragma once

#include "ops/conv/conv.h"
#include "ops/gemm/gemm.h"

#include <array>
#include <vector>

namespace ocl {

// Depth, height, width; of fewer spatial dimensions the last ones count. As in PyTorch: output = floor((input + 2
// padding - dilation (kernel - 1) - 1) / stride) + 1.
struct ConvolutionOptions {
  std::array<int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  int64_t groups = 1;
};

// The problem that x [N, C, *] and w [O, C / groups, *] with one to three spatial dimensions pose; in the memory order
// channels_last when x is N * C. Errors: InvalidArgument for sizes, groups, element types or memory orders that do not
// fit each other.
ops::ConvProblem convolution_problem(const ops::TensorView& x, const ops::TensorView& w,
                                     const ConvolutionOptions& options = {});
// Sizes of y: [N, O, *] with 1 to 3 spatial dimensions.
std::vector<int64_t> output_sizes(const ops::ConvProblem& problem, int spatial);

// One pass of a convolution on one device: planned when it is made, run as often as is wanted, from any thread.
class Convolution {
 public:
  // Takes the algorithm that the library thinks quickest. Errors: InvalidArgument; Unsupported when the device lacks
  // the element type.
  Convolution(const Device& device, ops::ConvPass pass, const ops::ConvProblem& problem);
  // One by name (ops::conv_algorithms(pass)). Errors: also InvalidArgument when there is none of that name or it
  // cannot run the problem; the text says why.
  Convolution(const Device& device, ops::ConvPass pass, const ops::ConvProblem& problem, const char* algorithm);

  const char* algorithm() const { return route_.algorithm->name; }
  // Bytes of scratch memory that run() takes from the device's allocator and gives back.
  size_t workspace() const;
  // Enqueues the pass. What the operands are, and which one is written: ops::ConvOperands.
  void run(Queue& queue, const ops::ConvOperands& operands) const;

 private:
  ops::ConvPass pass_;
  ops::ConvRoute route_;
};

// y = x * w + bias; bias [O] may be absent. y is [N, O, *] in x's memory order. Plans are kept by the library.
// Errors, of all three: InvalidArgument for shapes, element types or memory orders that do not fit; Unsupported.
void convolution_forward(Queue& queue, const ops::TensorView& x, const ops::TensorView& w, const ops::TensorView& bias,
                         const ops::TensorView& y, const ConvolutionOptions& options = {});
// dx = the gradient of x, from dy [N, O, *] and w.
void convolution_backward_data(Queue& queue, const ops::TensorView& dy, const ops::TensorView& w,
                               const ops::TensorView& dx, const ConvolutionOptions& options = {});
// dw = the gradient of w, from dy and x.
void convolution_backward_weight(Queue& queue, const ops::TensorView& dy, const ops::TensorView& x,
                                 const ops::TensorView& dw, const ConvolutionOptions& options = {});

// A product on one device, planned when it is made: c = activation(alpha a b + beta d).
class Product {
 public:
  // Errors: InvalidArgument; Unsupported when the device lacks the element type.
  Product(const Device& device, const ops::GemmProblem& problem);
  const char* algorithm() const { return choice_.algorithm->name; }
  size_t workspace() const { return choice_.plan.workspace; }  // bytes
  void run(Queue& queue, const ops::GemmOperands& operands) const;

 private:
  ops::GemmProblem problem_;
  ops::GemmChoice choice_;
};

// c = a b for matrices [m, k], [k, n], [m, n] or batches of them [batch, ...], with any strides. Errors as above.
void product(Queue& queue, const ops::TensorView& a, const ops::TensorView& b, const ops::TensorView& c);

}  // namespace ocl
