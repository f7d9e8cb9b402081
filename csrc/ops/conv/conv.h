// Convolution in 1 to 3 dimensions: forward, gradient of the input, gradient of the weight. Grouped, depthwise and
// dilated; transposed convolutions are the same passes with the roles of input and output exchanged by the caller.
#pragma once

#include "ops/core/context.h"
#include "ops/core/plan_target.h"

#include <functional>
#include <limits>
#include <span>

namespace ocl::ops {

enum class ConvPass { forward, backward_data, backward_weight };

// Results of a forward pass are cut off at these: ReLU, ReLU6 and the like without a pass of their own. NaN stays.
struct ConvLimits {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  bool operator==(const ConvLimits&) const = default;
};

// Shapes are those of the forward pass. Spatial triples are (D, H, W); unused leading dimensions are 1 (padding 0).
struct ConvProblem {
  DType dtype = DType::float32;
  bool channels_last = false;  // memory order of x and y (and their gradients): N D H W C instead of N C D H W
  bool filters_last = false;   // memory order of w: O D H W C/groups instead of O C/groups D H W
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // totals over all groups
  std::array<int64_t, 3> input{1, 1, 1}, output{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
  ConvLimits limits;  // forward only

  int64_t in_per_group() const { return in_channels / groups; }
  int64_t out_per_group() const { return out_channels / groups; }
  int64_t in_pixels() const { return input[0] * input[1] * input[2]; }
  int64_t out_pixels() const { return output[0] * output[1] * output[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t x_numel() const { return batch * in_channels * in_pixels(); }
  int64_t y_numel() const { return batch * out_channels * out_pixels(); }
  int64_t w_numel() const { return out_channels * in_per_group() * taps(); }
  bool operator==(const ConvProblem&) const = default;

  bool limited() const { return limits != ConvLimits{}; }
  bool depthwise() const { return groups == in_channels && groups > 1; }
};

// Errors: InvalidArgument for inconsistent shapes or a dimension above 2^31 - 1.
void check_conv(const ConvProblem& problem);

// Operands by pass, all dense: x [N, C, D, H, W] (or channels_last), w [O, C/groups, KD, KH, KW] (or filters_last), y
// like x.
//   forward:         y = x * w + bias, within the limits    backward_data: x = dy * w^T    backward_weight: w = dy * x
// The member that the pass computes is written, the other two are read; bias (forward only, may be null) has O
// elements.
struct ConvOperands {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  const void* bias = nullptr;
};

// What an algorithm does with a problem on a device: made once for a problem, kept, and run by every launch.
struct ConvPlan {
  // nullptr when the algorithm can run the problem on the device, otherwise the reason why not: then nothing else is
  // set. An algorithm that refuses channels_last is tried again in the other order, the operands being transposed
  // through a workspace.
  const char* refusal = nullptr;
  // nullptr when it is also the better choice than the algorithms behind it; otherwise why it is passed over unless
  // forced or measured to be quicker.
  const char* declines = nullptr;
  size_t workspace = 0;  // bytes
  // Enqueues the pass; the problem is the one that was planned.
  std::function<void(Queue&, const ConvProblem&, const ConvOperands&, void* workspace)> run;
  // Whether run() cuts the results off at the problem's limits; otherwise it is done behind it.
  bool limits = false;
};

struct ConvAlgorithm {
  const char* name;  // for TORCH_OCL_CONV and the benchmark
  ConvPass pass;
  ConvPlan (*plan)(const ConvProblem&, const PlanTarget&);
  // Whether it takes w in the order filters_last too. For others w goes through a workspace.
  bool (*takes_filters_last)(const ConvProblem&) = [](const ConvProblem&) { return false; };
};

// All algorithms of a pass, best first; the last one, "reference", never refuses.
std::span<const ConvAlgorithm> conv_algorithms(ConvPass pass);

// How one algorithm computes a problem, the copies around it included: x and y in channels-first order where the
// algorithm takes no other, w where it does not take filters_last.
struct ConvRoute {
  const ConvAlgorithm* algorithm = nullptr;
  ConvProblem problem;  // as the caller has it
  ConvProblem inner;    // as the algorithm takes it
  ConvPlan plan;        // of `inner`; its refusal is the route's
};
ConvRoute conv_route(const ConvAlgorithm& algorithm, const ConvProblem& problem, const PlanTarget& target);
// Bytes of scratch memory that running it takes from the allocator: the plan's, and the copies around it.
size_t workspace_of(const ConvRoute& route);
// The route must not be refused.
void run_conv(const ConvRoute& route, Queue& queue, const ConvOperands& operands);

// The route that convolution() takes where nothing is forced or measured.
ConvRoute choose_conv(ConvPass pass, const ConvProblem& problem, const PlanTarget& target);

// Runs the algorithm forced by TORCH_OCL_CONV when it does not refuse, otherwise the one known to be quickest
// (ops/core/tuning.h), otherwise the first that neither refuses nor declines; which one, and its plan, is kept for the
// next launch of the problem (ops/core/plan_table.h). An empty output does nothing; an empty
// reduction gives zeros (plus bias). Errors: InvalidArgument for inconsistent shapes or a dimension above 2^31
// - 1.
void convolution(Queue& queue, ConvPass pass, const ConvProblem& problem, const ConvOperands& operands);

}  // namespace ocl::ops
