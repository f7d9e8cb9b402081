// Depthwise separable convolutions of inference in one launch or three, channels last: [1x1 convolution] -> depthwise
// K x K -> [squeeze and excite] -> 1x1 convolution [+ x]. MobileNet's and EfficientNet's blocks are made of them. A
// launch goes through the channels between the 1x1 convolutions in chunks of 32, so that these wide tensors stay in the
// caches (Howard et al. 2017, Sandler et al. 2018; tile by tile as in TensorFlow Lite's delegates).
#pragma once

#include "ops/core/context.h"
#include "ops/core/plan_target.h"

#include <limits>

namespace ocl::ops {

// What a convolution does with its results: cuts them off at low and high (NaN stays), or a function.
struct ConvActivation {
  enum class Kind : int32_t { limits, hardswish, silu, hardsigmoid, sigmoid };  // as in params/separable.h
  Kind kind = Kind::limits;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

// float32, CPU runtimes. The residual x is added behind the last activation.
struct SeparableProblem {
  int64_t batch = 1, sources = 1, width = 1, results = 1;  // channels of x, between the 1x1 convolutions, of y
  int64_t hidden = 0;                                      // channels of squeeze and excite; 0: there is none
  int64_t in_h = 1, in_w = 1, out_h = 1, out_w = 1, kernel = 3, stride = 1, pad_h = 1, pad_w = 1;
  bool expand = true, residual = false;
  ConvActivation expanded, filtered, projected, squeezed, gate;
};

constexpr int64_t separable_panel = 32;

// Packed weights: element [panel][k][lane] is w[32 panel + lane][k], 0 where there is no such row.
//   expand     of [width, sources]; null: none (sources == width)   depthwise  [panel][tap][lane] of [width, K K]
//   project    of [results, width], without squeeze and excite k filled up with zeros to a multiple of 32
//   squeeze    [hidden, width] as it is; null: none                 excite     [hidden][width], transposed
// Biases have zeros up to a multiple of 32 elements, and 32 more elements may be read. x: [N, in_h, in_w, sources], y
// likewise.
struct SeparableOperands {
  const void *x, *expand, *expand_bias, *depthwise, *depthwise_bias, *squeeze, *squeeze_bias, *excite, *excite_bias,
      *project, *project_bias;
  void* y;
};

// nullptr, or why the device or the problem needs the convolutions one by one.
const char* separable_refuses(const SeparableProblem& problem, const PlanTarget& target);
// Errors: InvalidArgument for a problem that is refused.
void separable_convolution(Queue& queue, const SeparableProblem& problem, const SeparableOperands& operands);

// y = activation(x w + bias) + residual of `pixels` rows of x in each of `images`; with scale [images][sources] each
// row is multiplied by its image's first. Weights packed as project.
struct PointwiseProblem {
  int64_t images = 1, pixels = 1, sources = 1, results = 1;
  ConvActivation activation;
};
struct PointwiseOperands {
  const void *x, *weights, *bias, *scale, *residual;  // the last two may be null
  void* y;
};
void packed_pointwise(Queue& queue, const PointwiseProblem& problem, const PointwiseOperands& operands);

}  // namespace ocl::ops
