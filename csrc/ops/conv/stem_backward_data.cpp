// Gradient of images with at most 4 channels (kernels_cl/conv/stem_backward_data.cpu.cl). CPU kernels.
#include "ops/conv/plan.h"
#include "ops/conv/stem.h"
#include "params/conv.h"

#include <algorithm>

namespace ocl::ops {

namespace {

using Geometry = params::StemBackwardGeometry;
int64_t rows_of(const Geometry& g) { return g.last_a - g.first_a + 1; }

constexpr int64_t largest_band = 8;

// Columns of a register tile there.
int64_t tile_columns(const ConvProblem& p, const PlanTarget& target) {
  const bool narrow = target.vector_floats < 16;
  return narrow ? (p.in_channels == 4 ? 16 : 32) : 64;
}

Geometry geometry_of(const ConvProblem& p, const PlanTarget& target, int64_t band) {
  const int64_t stride = p.stride[2], reach = (p.kernel[2] - 1) / stride, first_b = p.padding[2] / stride;
  const int64_t columns = round_up((p.padding[2] + p.input[2] - 1) / stride - first_b + 1, tile_columns(p, target));
  // Packing writes vectors of 16, the last one beyond the row.
  const int64_t pitch = round_up(reach + std::max(columns, p.output[2] + 16), 16);
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  return {.height = narrow(p.input[1]),
          .width = narrow(p.input[2]),
          .out_height = narrow(p.output[1]),
          .out_width = narrow(p.output[2]),
          .pad_h = narrow(p.padding[1]),
          .pad_w = narrow(p.padding[2]),
          .first_a = narrow(p.padding[1] / stride),
          .last_a = narrow((p.padding[1] + p.input[1] - 1) / stride),
          .first_b = narrow(first_b),
          .band = narrow(band),
          .columns = narrow(columns),
          .pitch = narrow(pitch),
          .plane = narrow(((band + reach) * pitch / 16 | 1) * 16)};  // an odd number of cache lines
}

size_t local_bytes(const ConvProblem& p, const Geometry& g) {
  return static_cast<size_t>(p.out_channels * g.plane + 2 * p.stride[2] * p.in_channels * g.columns + 64) *
         sizeof(float);
}

struct Plan {
  Geometry geometry;
  size_t local_bytes;  // 0: does not fit
};

// Bands as high as local memory and an even load of the compute units allow.
Plan make_plan(const ConvProblem& p, const PlanTarget& target) {
  const uint64_t local_memory = target.local_memory,
                 budget = std::min<uint64_t>(local_memory - std::min<uint64_t>(local_memory, 8192), 400 << 10);
  Geometry g = geometry_of(p, target, largest_band);
  const int64_t tasks = 4 * target.compute_units;
  for (int64_t band = std::min(largest_band, rows_of(g)); band > 1; --band) {
    g = geometry_of(p, target, band);
    if (local_bytes(p, g) <= budget && p.batch * ceil_div(rows_of(g), band) >= std::min(tasks, p.batch * rows_of(g)))
      return {g, local_bytes(p, g)};
  }
  g = geometry_of(p, target, 1);
  return {g, local_bytes(p, g) <= budget ? local_bytes(p, g) : 0};
}

void run(Queue& queue, const Plan& plan, const ConvProblem& p, const ConvOperands& operands, void* weights) {
  static KernelSite weights_site("conv/stem_backward_data.cpu.cl", "stem_phase_weights"),
      site("conv/stem_backward_data.cpu.cl", "stem_data_gradient");
  Device& device = queue.device();
  const auto kernel = [&](KernelSite& of) -> Kernel& {
    return of.get(device, stem_variant(p), [&] { return stem_defines(p, device); });
  };
  const auto& [geometry, bytes] = plan;
  const auto out_channels = static_cast<int32_t>(p.out_channels);
  launch(queue, kernel(weights_site), Range(p.stride[1] * p.stride[2]), Range(1), operands.w, weights, out_channels);
  launch(queue, kernel(site), Range(p.batch, ceil_div(rows_of(geometry), geometry.band)), Range(1, 1), operands.y,
         weights, operands.x, geometry, out_channels, LocalMemory{bytes});
}

ConvPlan plan_stem(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = stem_refusal(p, target)) return refused(reason);
  if (p.channels_last) return refused("needs the contiguous memory format");
  if (p.padding[1] >= p.kernel[1] || p.padding[2] >= p.kernel[2])
    return refused("needs a padding below the kernel's size");
  const Plan plan = make_plan(p, target);
  if (!plan.local_bytes) return refused("rows too long for local memory");
  return {nullptr, nullptr, static_cast<size_t>(p.w_numel()) * sizeof(float),
          [plan](Queue& queue, const ConvProblem& problem, const ConvOperands& operands, void* weights) {
            run(queue, plan, problem, operands, weights);
          }};
}

constexpr ConvAlgorithm algorithms[] = {{"stem", ConvPass::backward_data, plan_stem}};

}  // namespace

std::span<const ConvAlgorithm> stem_backward_data_algorithms() { return algorithms; }

}  // namespace ocl::ops
