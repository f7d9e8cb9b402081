#include "ops/conv/depthwise.h"

namespace ocl::ops {
namespace {

// The same struct as in kernels_cl/conv_depthwise_simt.cl.
struct Depthwise {
  int32_t batch, channels, in_h, in_w, out_h, out_w, kh, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

Depthwise shape(const ConvProblem& p) {
  auto n = [](int64_t value) { return static_cast<int32_t>(value); };
  return {n(p.batch),     n(p.in_channels), n(p.input[1]),  n(p.input[2]),   n(p.output[1]),   n(p.output[2]),  n(p.kernel[1]),
          n(p.stride[1]), n(p.stride[2]),   n(p.padding[1]), n(p.padding[2]), n(p.dilation[1]), n(p.dilation[2])};
}

const char* refuses(const ConvProblem& p, const Device& device) {
  if (device.fat()) return "made for GPUs";
  if (!p.depthwise() || p.out_channels != p.in_channels) return "one filter per channel only";
  if (p.input[0] != 1 || p.output[0] != 1 || p.kernel[0] != 1) return "two dimensions only";
  if (p.kernel[2] > 15) return "kernel rows of at most 15";
  if (p.channels_last) return "channels first only";
  if (!is_floating(p.dtype)) return "floating types only";
  if (p.in_pixels() > 1 << 30 || p.out_pixels() > 1 << 30) return "planes are too large";
  return nullptr;
}

// Intel's CPU compiler (2026) gives wrong sums for one tap per row; it is right for more.
const char* refuses_weight(const ConvProblem& p, const Device& device) { return p.kernel[2] == 1 ? "kernel rows of at least 2" : refuses(p, device); }

Kernel& specialise(KernelSite& site, Device& device, const ConvProblem& p) {
  return site.get(device, Variant().add(p.dtype).add(p.kernel[2], 4), [&] {
    return Defines().add("DTYPE", name_of(p.dtype)).add("ACCUMULATE", name_of(accumulate_type(p.dtype))).add("KW", p.kernel[2]);
  });
}

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv_depthwise_simt.cl", "conv_depthwise_simt_forward");
  launch(queue, specialise(site, queue.device(), p), Range(round_up(p.out_pixels(), 64), p.in_channels, p.batch), Range(64, 1, 1), t.x, t.w, t.bias, t.y, shape(p),
         int32_t{t.bias != nullptr});
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv_depthwise_simt.cl", "conv_depthwise_simt_backward_data");
  launch(queue, specialise(site, queue.device(), p), Range(round_up(p.in_pixels(), 64), p.in_channels, p.batch), Range(64, 1, 1), t.x, t.w, t.y, shape(p));
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  static KernelSite site("conv_depthwise_simt.cl", "conv_depthwise_simt_weight");
  launch(queue, specialise(site, queue.device(), p), Range(p.kernel[1] * 256, p.in_channels), Range(256, 1), t.x, t.w, t.y, shape(p));
}

size_t workspace(const ConvProblem&, const Device&) { return 0; }

}  // namespace

std::span<const ConvAlgorithm> depthwise_simt_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"depthwise_simt", ConvPass::forward, refuses, workspace, forward},
      {"depthwise_simt", ConvPass::backward_data, refuses, workspace, backward_data},
      {"depthwise_simt", ConvPass::backward_weight, refuses_weight, workspace, backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
