#include "ops/conv/depthwise.h"

#include "ops/conv/plan.h"
#include "params/conv.h"

#include <algorithm>

namespace ocl::ops {
namespace {

constexpr int64_t image_floats = params::depthwise_image;
constexpr int64_t plane_pixels = params::depthwise_pixels, plane_results = params::depthwise_results;

// Local memory of a work-group in bytes: of the first, which takes more.
constexpr uint64_t local_bytes = (3 * image_floats + 1024) * sizeof(float);

using params::Sweep;

const char* refuses_common(const ConvProblem& p, const PlanTarget& target) {
  if (!p.depthwise() || p.out_channels != p.in_channels) return "one filter per channel only";
  if (p.input[0] != 1 || p.output[0] != 1 || p.kernel[0] != 1) return "two dimensions only";
  const int64_t height = p.kernel[1], width = p.kernel[2];
  if (p.stride[1] != p.stride[2] || p.stride[1] > 2) return "strides 1 and 2 only";
  if (p.stride[1] == 2 && (height != width || (height != 3 && height != 5 && height != 7)))
    return "kernel sizes 3, 5 and 7 only with stride 2";
  // Every tap is unrolled; a border of padding is one vector wide.
  if (height * width > 49 || std::max(height, width) > 16) return "at most 49 taps and 16 in a dimension";
  if (p.dilation[1] != 1 || p.dilation[2] != 1) return "no dilation";
  if (p.padding[1] >= p.kernel[1] || p.padding[2] >= p.kernel[2]) return "padding is not smaller than the kernel";
  if (p.channels_last) return "channels first only";
  if (p.dtype != DType::float32 && !is_half(p.dtype)) return "float32, float16 and bfloat16 only";
  if (!target.cpu_style) return "made for CPU runtimes";
  if (target.local_memory < local_bytes) return "needs 196 KiB of local memory";
  if (std::max(p.input[2], p.output[2]) * std::max<int64_t>(height, 2) > 10500) return "rows are too wide";
  return nullptr;
}

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// x -> y with this kernel (height, width) and stride; bands as high as the local image allows.
Sweep sweep(int64_t batch, int64_t channels, const int64_t* in, const int64_t* out, int64_t pad_h, int64_t pad_w,
            const int64_t* kernel, int64_t stride) {
  Sweep s{narrow(batch),
          narrow(channels),
          narrow(in[0]),
          narrow(in[1]),
          narrow(out[0]),
          narrow(out[1]),
          narrow(pad_h),
          narrow(pad_w),
          0,
          0};
  s.pitch = narrow(out[1] + (kernel[1] - 1) / stride);
  // stride^2 phases of (band + (height - 1) / stride) rows and 48 floats each
  s.band =
      narrow(std::max<int64_t>(1, (image_floats / (stride * stride) - 48) / s.pitch - ceil_div(kernel[0] - 1, stride)));
  s.band = std::min(s.band, s.out_h);
  return s;
}

Kernel& specialise(KernelSite& site, Device& device, const ConvProblem& p, int64_t stride) {
  return site.get(device, Variant().add(p.dtype).add(p.kernel[1], 5).add(p.kernel[2], 5).add(stride, 2), [&] {
    return Defines().add("DTYPE", name_of(p.dtype)).add("KH", p.kernel[1]).add("K", p.kernel[2]).add("STRIDE", stride);
  });
}

// Images of few columns are swept 16 channels at a time, when they have this many rows and columns with their borders.
struct Border {
  int64_t rows, columns;
};

bool small_planes(const Sweep& s, const Border& image, int most_columns = 15) {
  return s.out_w <= most_columns && s.channels >= 8 && image.rows * image.columns <= plane_pixels &&
         int64_t{s.out_h} * s.out_w <= plane_results;
}

// `s` for that, and the grid: 16 channels by parts of the batch, where it is divided.
Range planes_range(Sweep& s, const Border& image, int64_t units, bool divided) {
  s.pitch = narrow(image.columns);
  s.band = narrow(image.rows);
  const int64_t blocks = ceil_div(s.channels, 16), tasks = 8 * units;
  return Range(blocks, divided ? std::clamp<int64_t>(ceil_div(tasks, blocks), 1, s.batch) : 1);
}

Border border_of(const Sweep& s, const ConvProblem& p, int64_t stride) {
  return {std::max<int64_t>(s.pad_h + s.in_h, (s.out_h - 1) * stride + p.kernel[1]),
          std::max<int64_t>(s.pad_w + s.in_w, (s.out_w - 1) * stride + p.kernel[2])};
}

// The sweep x -> y with this filter, or with the filter turned around.
void gather(Queue& queue, const ConvProblem& p, Sweep s, int64_t stride, const void* x, const void* filter,
            const void* bias, void* y, bool flip, int64_t units, const ConvLimits& limits = {}) {
  static KernelSite rows("conv/depthwise.cpu.cl", "conv_depthwise_gather"),
      planes("conv/depthwise_planes.cpu.cl", "conv_depthwise_planes");
  const Border image = border_of(s, p, stride);
  const bool small = small_planes(s, image);
  const Range range = small ? planes_range(s, image, units, true) : Range(p.in_channels);
  launch(queue, specialise(small ? planes : rows, queue.device(), p, stride), range, small ? Range(1, 1) : Range(1), x,
         filter, bias, y, s, int32_t{bias != nullptr}, int32_t{flip}, passed(limits));
}

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, int64_t units) {
  const Sweep s =
      sweep(p.batch, p.in_channels, &p.input[1], &p.output[1], p.padding[1], p.padding[2], &p.kernel[1], p.stride[1]);
  gather(queue, p, s, p.stride[1], t.x, t.w, t.bias, t.y, false, units, p.limits);
}

// Stride 1 is the forward sweep over dy with the filter turned around; stride 2 has a kernel of its own.
void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, int64_t units) {
  static KernelSite scatter_site("conv/depthwise.cpu.cl", "conv_depthwise_scatter"),
      planes("conv/depthwise_planes.cpu.cl", "conv_depthwise_planes_scatter");
  const int64_t k = p.kernel[1];
  if (p.stride[1] == 1) {
    const Sweep s = sweep(p.batch, p.in_channels, &p.output[1], &p.input[1], k - 1 - p.padding[1],
                          p.kernel[2] - 1 - p.padding[2], &p.kernel[1], 1);
    gather(queue, p, s, 1, t.y, t.w, nullptr, t.x, true, units);
    return;
  }
  Sweep s = sweep(p.batch, p.in_channels, &p.output[1], &p.input[1], p.padding[1], p.padding[2], &p.kernel[1], 1);
  const auto bordered = [&](int64_t pad, int64_t dy, int64_t dx) {
    return (k - 1) / 2 + std::max(dy, (dx - 1 + pad) / 2 + 1);
  };
  const Border image{bordered(s.pad_h, s.in_h, s.out_h), bordered(s.pad_w, s.in_w, s.out_w)};
  if (small_planes(s, image, 31)) {
    const Range range = planes_range(s, image, units, true);
    launch(queue, specialise(planes, queue.device(), p, 1), range, Range(1, 1), t.y, t.w, t.x, s);
    return;
  }
  s.pitch = narrow((k - 1) / 2 + std::max(p.output[2], (p.input[2] + p.padding[2] + 1) / 2));
  // A band of dx takes half as many rows of dy, and (K - 1) / 2 + 1 more.
  s.band = narrow(
      std::min<int64_t>(p.input[1], std::max<int64_t>(1, 2 * ((image_floats - 48) / s.pitch - (k - 1) / 2 - 2))));
  launch(queue, specialise(scatter_site, queue.device(), p, 1), Range(p.in_channels), Range(1), t.y, t.w, t.x, s);
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, int64_t units) {
  static KernelSite site("conv/depthwise.cpu.cl", "conv_depthwise_weight"),
      planes("conv/depthwise_planes.cpu.cl", "conv_depthwise_planes_weight");
  Sweep s =
      sweep(p.batch, p.in_channels, &p.input[1], &p.output[1], p.padding[1], p.padding[2], &p.kernel[1], p.stride[1]);
  const Border image = border_of(s, p, p.stride[1]);
  if (small_planes(s, image) && ceil_div(p.in_channels, 16) >= 2 * units) {
    const Range range = planes_range(s, image, units, false);
    launch(queue, specialise(planes, queue.device(), p, p.stride[1]), range, Range(1, 1), t.x, t.y, t.w, s);
    return;
  }
  launch(queue, specialise(site, queue.device(), p, p.stride[1]), Range(p.in_channels), Range(1), t.x, t.y, t.w, s);
}

template <auto run, bool limits = false>
ConvPlan plan(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  return {nullptr, nullptr, 0,
          [units = target.compute_units](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void*) {
            run(queue, problem, t, units);
          },
          limits};
}

}  // namespace

std::span<const ConvAlgorithm> depthwise_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"depthwise", ConvPass::forward, plan<forward, true>},
      {"depthwise", ConvPass::backward_data, plan<backward_data>},
      {"depthwise", ConvPass::backward_weight, plan<backward_weight>},
  };
  return algorithms;
}

}  // namespace ocl::ops
