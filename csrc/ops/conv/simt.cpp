#include "ops/conv/simt.h"

#include "ops/conv/plan.h"

#include <utility>
#include <vector>

namespace ocl::ops {

using namespace simt_detail;

namespace {

// Results per work-item and direction: large tiles only where they fill the device and fit its local memory (two
// operands, 16 steps, and the columns of conv_simt_weight).
int choose_tile(DType dtype, int64_t rows, int64_t columns, int64_t layers, const PlanTarget& target) {
  if (2 * 16 * 129 * size_of(accumulate_type(dtype)) + 128 * 32 > target.local_memory) return 4;
  const int64_t groups = ceil_div(rows, 128) * ceil_div(columns, 128) * layers;
  return rows >= 128 && groups >= 2 * target.compute_units && !target.few_registers() ? 8 : 4;
}

Kernel& specialise(KernelSite& site, Device& device, DType type, DType result, int tile) {
  return site.get(device, Variant().add(type).add(result).add(tile, 4), [&] {
    return Defines()
        .add("DTYPE", name_of(type))
        .add("ACCUMULATE", name_of(accumulate_type(type)))
        .add("RESULT", name_of(result))
        .add("TILE", tile);
  });
}

struct Tiled {
  Part part;
  int tile;
};

Tiled tiled(DType type, const Part& part, const PlanTarget& target) {
  const Gather& g = part.gather;
  return {part, choose_tile(type, g.shape.out_channels, g.shape.batch * g.plane(), g.groups, target)};
}

void gather(Queue& queue, DType type, const Tiled& tiled, int64_t result_channels, const void* x, const void* w,
            const void* bias, void* y) {
  static KernelSite site("conv/simt.gpu.cl", "conv_simt_gather");
  const auto& [part, tile] = tiled;
  const auto& [g, target] = part;
  const int64_t pixels = g.shape.batch * g.plane();
  const int64_t edge = 16 * tile;
  launch(queue, specialise(site, queue.device(), type, type, tile),
         Range(ceil_div(pixels, edge) * 16, ceil_div(g.shape.out_channels, edge) * 16, g.groups), Range(16, 16, 1), x,
         w, bias, y, g.shape, g.weights, target, int32_t{bias != nullptr}, result_channels * plane_of(target));
}

// What the kernels keep in local memory with the small tile: conv_simt_weight's operands and columns.
uint64_t least_local_bytes(DType dtype) { return 2 * 16 * 65 * size_of(accumulate_type(dtype)) + 64 * 32; }

const char* refuses(const ConvProblem& p, const PlanTarget& target) {
  // The kernels of CPU devices want at least so much local memory; below it these are what there is.
  if (target.cpu_style && target.local_memory >= 192 << 10) return "made for GPUs";
  if (target.max_work_group < 256) return "needs groups of 256 work-items";
  if (p.channels_last) return "channels first only";
  if (!is_floating(p.dtype)) return "floating types only";
  if (least_local_bytes(p.dtype) > target.local_memory) return "too little local memory";
  if (p.taps() * std::max(p.in_per_group(), p.out_per_group()) >= 1 << 30) return "sums are too long";
  return nullptr;
}

ConvPlan plan_forward(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  return {nullptr, nullptr, 0,
          [part = tiled(p.dtype, forward_part(p), target)](Queue& queue, const ConvProblem& problem,
                                                           const ConvOperands& t, void*) {
            gather(queue, problem.dtype, part, problem.out_channels, t.x, t.w, t.bias, t.y);
          }};
}

ConvPlan plan_backward_data(const ConvProblem& p, const PlanTarget& target) {
  if (p.stride[0] * p.stride[1] * p.stride[2] > 64) return refused("strides are too large");
  if (const char* reason = refuses(p, target)) return refused(reason);
  std::vector<Tiled> parts;
  for (const Part& part : backward_data_parts(p)) parts.push_back(tiled(p.dtype, part, target));
  return {nullptr, nullptr, 0,
          [parts = std::move(parts)](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void*) {
            for (const Tiled& part : parts)
              gather(queue, problem.dtype, part, problem.in_channels, t.y, t.w, nullptr, t.x);
          }};
}

struct WeightPlan {
  Gather gather;
  int tile;
  Shares shares;
};

WeightPlan plan_weight(const ConvProblem& p, const PlanTarget& target) {
  const Gather g = forward_gather(p);
  const int tile = choose_tile(p.dtype, g.shape.out_channels, g.depth(),
                               g.groups * ceil_div(g.shape.batch * g.plane(), 1024), target);
  return {g, tile, share_pixels(g, target, 16 * tile, 16 * tile)};
}

void backward_weight(Queue& queue, const WeightPlan& plan, const ConvProblem& p, const ConvOperands& t,
                     void* workspace) {
  static KernelSite site("conv/simt.gpu.cl", "conv_simt_weight");
  const auto& [g, tile, s] = plan;
  const DType result = s.parts > 1 ? accumulate_type(p.dtype) : p.dtype;
  const int64_t edge = 16 * tile;
  launch(queue, specialise(site, queue.device(), p.dtype, result, tile),
         Range(ceil_div(g.depth(), edge) * 16, ceil_div(g.shape.out_channels, edge) * 16, g.groups * s.parts),
         Range(16, 16, 1), t.x, t.y, s.parts > 1 ? workspace : t.w, g.shape, g.weights, static_cast<int32_t>(g.groups),
         s.pixels);
  if (s.parts > 1) sum_shares(queue, p, s, workspace, t.w);
}

ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  const WeightPlan plan = plan_weight(p, target);
  return {nullptr, nullptr, shares_workspace(p, plan.shares),
          [plan](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_weight(queue, plan, problem, t, workspace);
          }};
}

}  // namespace

namespace simt_detail {

Part forward_part(const ConvProblem& p) {
  Part part{forward_gather(p), {}};
  for (int d = 0; d < 3; ++d) part.target.size[d] = part.gather.shape.output[d], part.target.step[d] = 1;
  return part;
}

std::vector<Part> backward_data_parts(const ConvProblem& p) {
  std::vector<Part> parts;
  for (int64_t z = 0; z < p.stride[0]; ++z)
    for (int64_t y = 0; y < p.stride[1]; ++y)
      for (int64_t x = 0; x < p.stride[2]; ++x) {
        const std::array<int64_t, 3> residue{z, y, x};
        Part part{backward_data_gather(p, residue), {}};
        if (part.gather.plane() == 0) continue;
        for (int d = 0; d < 3; ++d) {
          part.target.size[d] = static_cast<int32_t>(p.input[d]);
          part.target.first[d] = static_cast<int32_t>(residue[d]);
          part.target.step[d] = static_cast<int32_t>(p.stride[d]);
        }
        parts.push_back(part);
      }
  return parts;
}

Shares share_pixels(const Gather& g, const PlanTarget& target, int64_t tile_rows, int64_t tile_columns) {
  const int64_t pixels = g.shape.batch * g.plane(),
                groups = ceil_div(g.shape.out_channels, tile_rows) * ceil_div(g.depth(), tile_columns) * g.groups;
  const int64_t wanted = std::max<int64_t>(1, 4 * target.compute_units / groups);
  Shares s{};
  s.pixels = round_up(ceil_div(pixels, std::min(wanted, ceil_div(pixels, 256))), 32);
  s.parts = ceil_div(pixels, s.pixels);
  return s;
}

size_t shares_workspace(const ConvProblem& p, const Shares& s) {
  return s.parts > 1 ? s.parts * p.w_numel() * size_of(accumulate_type(p.dtype)) : 0;
}

void sum_shares(Queue& queue, const ConvProblem& p, const Shares& s, const void* gradients, void* w) {
  static KernelSite site("conv/simt.gpu.cl", "conv_simt_sum");
  launch(queue, specialise(site, queue.device(), p.dtype, p.dtype, 4), Range(round_up(p.w_numel(), 64)), Range(64),
         gradients, w, p.w_numel(), static_cast<int32_t>(s.parts));
}

}  // namespace simt_detail

std::span<const ConvAlgorithm> simt_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"simt", ConvPass::forward, plan_forward},
      {"simt", ConvPass::backward_data, plan_backward_data},
      {"simt", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
