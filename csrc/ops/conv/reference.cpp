#include "ops/conv/reference.h"

#include "ops/conv/plan.h"
#include "ops/conv/shape.h"

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

// Grid-stride range: enough items for any GPU, work-groups of 64.
Range items(int64_t count) { return Range(round_up(std::min<int64_t>(count, 1 << 20), 64)); }

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/reference.cl", "conv_reference_forward");
  launch(queue, specialise(site, queue.device(), p.dtype), items(p.y_numel()), Range(64), t.x, t.w, t.bias, t.y,
         conv_shape(p), int32_t{t.bias != nullptr}, int32_t{p.channels_last}, p.y_numel());
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/reference.cl", "conv_reference_backward_data");
  launch(queue, specialise(site, queue.device(), p.dtype), items(p.x_numel()), Range(64), t.x, t.w, t.y, conv_shape(p),
         int32_t{p.channels_last}, p.x_numel());
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/reference.cl", "conv_reference_backward_weight");
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
