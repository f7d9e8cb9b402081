#include "ops/conv/depthwise.h"
#include "ops/conv/plan.h"
#include "params/conv.h"

#include <algorithm>

namespace ocl::ops {
namespace {

using params::ChannelSweep;

const char* refuses(const ConvProblem& p, const PlanTarget& target) {
  if (!p.depthwise() || p.out_channels != p.in_channels) return "one filter per channel only";
  if (!p.channels_last) return "channels last only";
  if (p.input[0] != 1 || p.output[0] != 1 || p.kernel[0] != 1) return "two dimensions only";
  if (p.kernel[1] != p.kernel[2] || (p.kernel[1] != 3 && p.kernel[1] != 5 && p.kernel[1] != 7))
    return "kernel sizes 3, 5 and 7 only";
  if (p.stride[1] != p.stride[2] || p.stride[1] > 2) return "strides 1 and 2 only";
  if (p.dtype != DType::float32 && !is_half(p.dtype)) return "float32, float16 and bfloat16 only";
  if (!target.cpu_style) return "made for CPU runtimes";
  if (p.in_channels < 8) return "too few channels for the lanes";
  return nullptr;
}

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

ChannelSweep sweep(const ConvProblem& p, const std::array<int64_t, 3>& in, const std::array<int64_t, 3>& out) {
  return {narrow(p.batch), narrow(p.in_channels), narrow(in[1]),        narrow(in[2]),         narrow(out[1]),
          narrow(out[2]),  narrow(p.padding[1]),  narrow(p.padding[2]), narrow(p.dilation[1]), narrow(p.dilation[2])};
}

Kernel& specialise(KernelSite& site, Device& device, const ConvProblem& p, bool transposed) {
  return site.get(device, Variant().add(p.dtype).add(p.kernel[1], 3).add(p.stride[1], 2).add(transposed, 1), [&] {
    return Defines()
        .add("DTYPE", name_of(p.dtype))
        .add("K", p.kernel[1])
        .add("STRIDE", p.stride[1])
        .add("TRANSPOSED", transposed);
  });
}

void gather(Queue& queue, const ConvProblem& p, bool transposed, const void* source, const void* w, const void* bias,
            void* result, const ChannelSweep& s) {
  static KernelSite site("conv/depthwise_channels.cpu.cl", "conv_depthwise_channels_gather");
  const int64_t tasks = std::min(cpu_tasks(queue.device(), p.x_numel() + p.y_numel()), int64_t{s.batch} * s.out_h);
  launch(queue, specialise(site, queue.device(), p, transposed), Range(tasks), Range(1), source, w, bias, result, s,
         int32_t{bias != nullptr});
}

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  gather(queue, p, false, t.x, t.w, t.bias, t.y, sweep(p, p.input, p.output));
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  gather(queue, p, true, t.y, t.w, nullptr, t.x, sweep(p, p.output, p.input));
}

int64_t parts_of(const ConvProblem& p, const PlanTarget& target) {
  const int64_t blocks = ceil_div(p.in_channels, 16);
  return std::clamp<int64_t>(ceil_div(4 * target.compute_units, blocks), 1, p.batch * p.output[1]);
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* workspace, int64_t parts) {
  static KernelSite weight("conv/depthwise_channels.cpu.cl", "conv_depthwise_channels_weight"),
      sum("conv/depthwise_channels.cpu.cl", "conv_depthwise_channels_sum");
  Device& device = queue.device();
  launch(queue, specialise(weight, device, p, false), Range(ceil_div(p.in_channels, 16), parts), Range(1, 1), t.x, t.y,
         workspace, sweep(p, p.input, p.output));
  launch(queue, specialise(sum, device, p, false), Range(ceil_div(p.w_numel(), 4096)), Range(1), workspace, t.w,
         narrow(p.in_channels), narrow(parts));
}

ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  const int64_t parts = parts_of(p, target);
  return {nullptr, nullptr, parts * p.taps() * round_up(p.in_channels, 16) * sizeof(float),
          [parts](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_weight(queue, problem, t, workspace, parts);
          }};
}

}  // namespace

std::span<const ConvAlgorithm> depthwise_channels_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"depthwise_channels", ConvPass::forward, plain_plan<refuses, forward>},
      {"depthwise_channels", ConvPass::backward_data, plain_plan<refuses, backward_data>},
      {"depthwise_channels", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
