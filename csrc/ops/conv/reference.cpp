#include "ops/conv/reference.h"

#include "ops/conv/plan.h"
#include "base/warning.h"
#include "ops/conv/shape.h"

#include <atomic>
#include <string>

namespace ocl::ops {
namespace {

Kernel& specialise(KernelSite& site, Device& device, DType type) {
  return site.get(device, static_cast<uint64_t>(type), [&] {
    Defines defines;
    dtype(defines, "DTYPE", type);
    dtype(defines, "ACCUMULATE", accumulate_type(type));
    return defines;
  });
}

// Nobody should wonder for long why a network is slow on a device that every other algorithm refuses.
void warn_of_large(ConvPass pass, const ConvProblem& p, const Device& device) {
  constexpr double large = 1 << 28;  // multiply-adds, about a second
  static std::atomic<bool> warned{false};
  const double work = static_cast<double>(p.y_numel()) * static_cast<double>(p.in_per_group() * p.taps());
  if (work < large || !is_floating(p.dtype) || warned.exchange(true)) return;
  const PlanTarget target(device);
  std::string reasons;
  for (const ConvAlgorithm& algorithm : conv_algorithms(pass))
    if (const char* reason = conv_route(algorithm, p, target).plan.refusal)
      reasons += std::string(reasons.empty() ? "" : "; ") + algorithm.name + ": " + reason;
  warn("a large convolution runs the slow reference kernel on " + device.capabilities().name +
       ", because others refuse it (" + reasons + "). This is said once.");
}

// Grid-stride range: enough items for any GPU, work-groups of 64.
Range items(int64_t count) { return Range(round_up(std::min<int64_t>(count, 1 << 20), 64)); }

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/reference.cl", "conv_reference_forward");
  warn_of_large(ConvPass::forward, p, queue.device());
  launch(queue, specialise(site, queue.device(), p.dtype), items(p.y_numel()), Range(64), t.x, t.w, t.bias, t.y,
         conv_shape(p), int32_t{t.bias != nullptr}, int32_t{p.channels_last}, p.y_numel());
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/reference.cl", "conv_reference_backward_data");
  warn_of_large(ConvPass::backward_data, p, queue.device());
  launch(queue, specialise(site, queue.device(), p.dtype), items(p.x_numel()), Range(64), t.x, t.w, t.y, conv_shape(p),
         int32_t{p.channels_last}, p.x_numel());
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/reference.cl", "conv_reference_backward_weight");
  warn_of_large(ConvPass::backward_weight, p, queue.device());
  launch(queue, specialise(site, queue.device(), p.dtype), items(p.w_numel()), Range(64), t.x, t.w, t.y, conv_shape(p),
         p.w_numel());
}

const char* refuses(const ConvProblem&, const PlanTarget&) { return nullptr; }

}  // namespace

std::span<const ConvAlgorithm> reference_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"reference", ConvPass::forward, plain_plan<refuses, forward>},
      {"reference", ConvPass::backward_data, plain_plan<refuses, backward_data>},
      {"reference", ConvPass::backward_weight, plain_plan<refuses, backward_weight>},
  };
  return algorithms;
}

}  // namespace ocl::ops
