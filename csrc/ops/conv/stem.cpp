#include "ops/conv/stem.h"

#include "opencl/capabilities/prefetch.h"
#include "ops/conv/plan.h"
#include "params/conv.h"

#include <algorithm>

namespace ocl::ops {

namespace {

// As in kernels_cl/conv/stem.cpu.cl.
using Geometry = params::StemGeometry;

constexpr int64_t out_block = 32, largest_band = 14;

struct Plan {
  Geometry geometry;
  int64_t bands = 0, parts = 0, bands_per_part = 0;  // of the whole batch
  size_t local_bytes = 0;
  size_t workspace = 0;
};

Geometry geometry_of(const ConvProblem& p, int64_t band) {
  const int64_t stride = p.stride[2], reach = (p.kernel[2] - 1) / stride, pitch = p.output[2] + reach;
  const int64_t plane = (ceil_div((band + reach) * pitch + 32, 16) | 1) * 16;  // odd number of cache lines
  const int64_t line = round_up(std::max(p.padding[2] + p.input[2] + 16, round_up(pitch, 16) * stride), 16);
  // Whole vectors of each row, unless running on over the gaps between rows takes fewer.
  const int64_t width = p.output[2], row_chunks = width >= 16 && round_up(width, 16) <= pitch ? ceil_div(width, 16) : 0;
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  return {narrow(p.input[1]),   narrow(p.input[2]),   narrow(p.output[1]), narrow(p.output[2]),
          narrow(p.padding[1]), narrow(p.padding[2]), narrow(band),        narrow(pitch),
          narrow(plane),        narrow(line),         narrow(row_chunks)};
}

size_t local_bytes(ConvPass pass, const ConvProblem& p, const Geometry& g) {
  int64_t floats =
      g.line * (p.channels_last ? p.in_channels : 1) + p.in_channels * p.stride[1] * p.stride[2] * g.plane + 64;
  if (pass == ConvPass::backward_weight) floats += out_block * round_up(int64_t{g.band} * g.pitch, 16) + 16;
  return static_cast<size_t>(floats) * 4;
}

// Bands as high as local memory and an even load of the compute units allow.
Plan make_plan(ConvPass pass, const ConvProblem& p, const PlanTarget& target) {
  const int64_t units = target.compute_units;
  const uint64_t statics =
      pass == ConvPass::backward_weight ? (out_block + 2) * round_up(p.in_channels * p.taps(), 6) * 4 : 1024;
  const uint64_t local_memory = target.local_memory;
  const uint64_t budget = std::min<uint64_t>(local_memory - std::min(local_memory, statics + 8192), 400 << 10);
  Plan plan;
  int64_t band = std::min(largest_band, p.output[1]);
  if (pass == ConvPass::forward)  // several tasks per unit
    while (band > 4 && p.batch * ceil_div(p.output[1], band) < 4 * units) --band;
  for (; band > 1; --band)
    if (local_bytes(pass, p, geometry_of(p, band)) <= budget) break;
  if (band > 1) band = ceil_div(p.output[1], ceil_div(p.output[1], band));  // bands of about equal height
  plan.geometry = geometry_of(p, std::max<int64_t>(1, band));
  plan.local_bytes = local_bytes(pass, p, plan.geometry);
  if (plan.local_bytes > budget) plan.local_bytes = 0;
  plan.bands = p.batch * ceil_div(p.output[1], plan.geometry.band);
  if (pass == ConvPass::backward_weight) {
    const int64_t wanted = std::max<int64_t>(1, ceil_div(16 * units, ceil_div(p.out_channels, out_block)));
    plan.bands_per_part = std::max<int64_t>(1, ceil_div(plan.bands, wanted));
    plan.parts = ceil_div(plan.bands, plan.bands_per_part);
    plan.workspace = static_cast<size_t>(plan.parts * p.w_numel() * 4);
  } else if (p.dtype != DType::float32) {
    plan.workspace = static_cast<size_t>(p.w_numel() * 4);
  }
  return plan;
}

void run_forward(Queue& queue, const Plan& plan, const ConvProblem& p, const ConvOperands& operands, void* workspace) {
  static KernelSite site("conv/stem.cpu.cl", "stem_forward"), widen_site("conv/stem.cpu.cl", "stem_widen");
  const auto make_defines = [&] { return stem_defines(p, queue.device()); };
  const void* w = operands.w;
  if (p.dtype != DType::float32) {
    launch(queue, widen_site.get(queue.device(), stem_variant(p), make_defines), Range(ceil_div(p.w_numel(), 1024)),
           Range(1), w, workspace, static_cast<int32_t>(p.w_numel()));
    w = workspace;
  }
  launch(queue, site.get(queue.device(), stem_variant(p), make_defines),
         Range(p.batch, ceil_div(p.output[1], plan.geometry.band)), Range(1, 1), operands.x, w,
         operands.bias ? operands.bias : operands.y, operands.y, plan.geometry, static_cast<int32_t>(p.out_channels),
         int32_t{operands.bias != nullptr}, passed(p.limits), LocalMemory{plan.local_bytes});
}

void run_weight_gradient(Queue& queue, const Plan& plan, const ConvProblem& p, const ConvOperands& operands,
                         void* workspace) {
  static KernelSite site("conv/stem.cpu.cl", "stem_weight_gradient"), sum_site("conv/stem.cpu.cl", "stem_sum_partials");
  const auto make_defines = [&] { return stem_defines(p, queue.device()); };
  launch(queue, site.get(queue.device(), stem_variant(p), make_defines),
         Range(plan.parts, ceil_div(p.out_channels, out_block)), Range(1, 1), operands.x, operands.y, workspace,
         plan.geometry, static_cast<int32_t>(p.out_channels), static_cast<int32_t>(plan.bands_per_part),
         static_cast<int32_t>(plan.bands), LocalMemory{plan.local_bytes});
  launch(queue, sum_site.get(queue.device(), stem_variant(p), make_defines), Range(ceil_div(p.w_numel(), 1024)),
         Range(1), workspace, operands.w, static_cast<int32_t>(p.w_numel()), static_cast<int32_t>(plan.parts));
}

template <ConvPass pass>
ConvPlan plan_stem(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = stem_refusal(p, target)) return refused(reason);
  const Plan plan = make_plan(pass, p, target);
  if (!plan.local_bytes) return refused("rows too long for local memory");
  constexpr auto run = pass == ConvPass::forward ? run_forward : run_weight_gradient;
  return {nullptr, nullptr, plan.workspace,
          [plan](Queue& queue, const ConvProblem& problem, const ConvOperands& operands, void* workspace) {
            run(queue, plan, problem, operands, workspace);
          },
          pass == ConvPass::forward};
}

constexpr ConvAlgorithm algorithms[] = {
    {"stem", ConvPass::forward, plan_stem<ConvPass::forward>},
    {"stem", ConvPass::backward_weight, plan_stem<ConvPass::backward_weight>},
};

}  // namespace

const char* stem_refusal(const ConvProblem& p, const PlanTarget& target) {
  if (!target.cpu_style) return "written for CPU devices";
  if (p.dtype != DType::float32 && !is_half(p.dtype)) return "computes in float32";
  if (p.input[0] != 1 || p.kernel[0] != 1 || p.padding[0] != 0) return "two-dimensional only";
  if (p.groups != 1) return "needs one group";
  if (p.in_channels > 4) return "written for at most 4 input channels";
  if (p.out_channels < 8) return "needs at least 8 output channels";
  if (p.kernel[1] != p.kernel[2] || p.kernel[1] > 16 || p.kernel[1] < 2) return "needs a square kernel of 2 to 16";
  if (p.stride[1] != p.stride[2] || (p.stride[1] != 1 && p.stride[1] != 2 && p.stride[1] != 4))
    return "needs stride 1, 2 or 4";
  if (p.dilation[1] != 1 || p.dilation[2] != 1) return "needs dilation 1";
  if (p.in_pixels() > INT32_MAX / 16 || p.out_pixels() > INT32_MAX / 16) return "image too large";
  return nullptr;
}

Variant stem_variant(const ConvProblem& p) {
  return Variant().add(p.in_channels, 4).add(p.kernel[1], 8).add(p.stride[1], 4).add(p.channels_last, 1).add(p.dtype);
}

Defines stem_defines(const ConvProblem& p, const Device& device) {
  Defines result;
  add_prefetch_define(result, device);
  result.add("CHANNELS", p.in_channels)
      .add("KERNEL", p.kernel[1])
      .add("STRIDE", p.stride[1])
      .add("CHANNELS_LAST", p.channels_last);
  dtype(result, "DTYPE", p.dtype);
  return result;
}

std::span<const ConvAlgorithm> stem_algorithms() { return algorithms; }

}  // namespace ocl::ops
