#include "ops/conv/depthwise.h"
#include "ops/conv/plan.h"
#include "ops/conv/simt.h"
#include "params/conv.h"

#include <algorithm>

namespace ocl::ops {
namespace {

using params::Depthwise;

Depthwise shape(const ConvProblem& p) {
  auto n = [](int64_t value) { return static_cast<int32_t>(value); };
  return {n(p.batch),      n(p.in_channels), n(p.input[1]),   n(p.input[2]),  n(p.output[1]),
          n(p.output[2]),  n(p.kernel[1]),   n(p.stride[1]),  n(p.stride[2]), n(p.padding[1]),
          n(p.padding[2]), n(p.dilation[1]), n(p.dilation[2])};
}

const char* refuses(const ConvProblem& p, const PlanTarget& target) {
  if (target.cpu_style) return "made for GPUs";
  if (!p.depthwise() || p.out_channels != p.in_channels) return "one filter per channel only";
  if (p.input[0] != 1 || p.output[0] != 1 || p.kernel[0] != 1) return "two dimensions only";
  if (p.kernel[2] > 15) return "kernel rows of at most 15";
  if (!is_floating(p.dtype)) return "floating types only";
  constexpr int64_t limit = 1 << 30;
  const int64_t together = p.channels_last ? p.in_channels : 1;
  if (p.in_pixels() * together > limit || p.out_pixels() * together > limit || p.batch * p.output[1] > limit)
    return "planes are too large";
  return nullptr;
}

// Intel's CPU compiler (2026) gives wrong sums for one tap per row; it is right for more.
const char* refuses_weight(const ConvProblem& p, const PlanTarget& target) {
  return p.kernel[2] == 1 ? "kernel rows of at least 2" : refuses(p, target);
}

Kernel& specialise(KernelSite& site, Device& device, const ConvProblem& p) {
  const auto known = [](int64_t stride) { return stride <= 2 ? stride : 0; };
  const int64_t rows = known(p.stride[1]), columns = known(p.stride[2]);
  return site.get(device,
                  Variant().add(p.dtype).add(p.kernel[2], 4).add(p.channels_last, 1).add(rows, 2).add(columns, 2), [&] {
                    Defines defines;
                    defines.add("DTYPE", name_of(p.dtype))
                        .add("ACCUMULATE", name_of(accumulate_type(p.dtype)))
                        .add("KW", p.kernel[2]);
                    return defines.add("CHANNELS_LAST", p.channels_last).add("STRIDE_H", rows).add("STRIDE_W", columns);
                  });
}

Range range_of(const ConvProblem& p, int64_t pixels) {
  return p.channels_last ? Range(round_up(pixels * p.in_channels, 64), 1, p.batch)
                         : Range(round_up(pixels, 64), p.in_channels, p.batch);
}

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/depthwise_simt.gpu.cl", "conv_depthwise_simt_forward");
  launch(queue, specialise(site, queue.device(), p), range_of(p, p.out_pixels()), Range(64, 1, 1), t.x, t.w, t.bias,
         t.y, shape(p), int32_t{t.bias != nullptr});
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv/depthwise_simt.gpu.cl", "conv_depthwise_simt_backward_data");
  launch(queue, specialise(site, queue.device(), p), range_of(p, p.in_pixels()), Range(64, 1, 1), t.x, t.w, t.y,
         shape(p));
}

// Groups over the channels, and shares of the images or their rows, so that every unit has work.
struct WeightCut {
  int64_t channel_groups;
  simt_detail::Shares shares;
};

WeightCut cut(const ConvProblem& p, const PlanTarget& target) {
  const int64_t groups = p.channels_last ? ceil_div(p.in_channels, 32) : p.in_channels,
                most = p.channels_last ? ceil_div(p.batch * p.output[1], 8) : p.batch;
  const int64_t parts = std::clamp<int64_t>(8 * target.compute_units / (groups * p.kernel[1]), 1, most);
  return {groups, {parts, 0}};
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* workspace,
                     const WeightCut& weight_cut) {
  static KernelSite site("conv/depthwise_simt.gpu.cl", "conv_depthwise_simt_weight");
  const auto& [groups, shares] = weight_cut;
  launch(queue, specialise(site, queue.device(), p), Range(p.kernel[1] * 256, groups, shares.parts), Range(256, 1, 1),
         t.x, workspace, t.y, shape(p), static_cast<int32_t>(shares.parts));
  simt_detail::sum_shares(queue, p, shares, workspace, t.w);
}

// Always through sums in the accumulation type.
ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_weight(p, target)) return refused(reason);
  const WeightCut weight_cut = cut(p, target);
  return {nullptr, nullptr,
          static_cast<size_t>(weight_cut.shares.parts * p.w_numel()) * size_of(accumulate_type(p.dtype)),
          [weight_cut](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_weight(queue, problem, t, workspace, weight_cut);
          }};
}

}  // namespace

std::span<const ConvAlgorithm> depthwise_simt_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"depthwise_simt", ConvPass::forward, plain_plan<refuses, forward>},
      {"depthwise_simt", ConvPass::backward_data, plain_plan<refuses, backward_data>},
      {"depthwise_simt", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
