#include "ops/conv/tensor_cores.h"

#include "opencl/capabilities/tensor_cores.h"
#include "ops/conv/plan.h"
#include "ops/conv/simt.h"
#include "ops/core/precision.h"
#include "ops/gemm/tensor_cores.h"

#include <limits>
#include <utility>
#include <vector>

namespace ocl::ops {

using namespace simt_detail;

namespace {

Kernel& specialise(KernelSite& site, Device& device, DType type, DType result, ProductTile tile, bool gradient) {
  const bool exact = !allows_tf32(Tf32::conv);
  const Variant variant = Variant().add(type).add(result).add(exact, 1).add(tile.m == 128, 1).add(tile.n == 128, 1);
  return site.get(device, variant, [&] {
    Defines defines;
    add_tensor_core_defines(defines.add("DTYPE", name_of(type)).add("RESULT", name_of(result)).add("EXACT", exact));
    return defines.add("TILE_M", tile.m).add("TILE_N", tile.n).add("GRADIENT", gradient);
  });
}

// Elements of a row of filters, for whole vectors.
int64_t pitch_of(const Gather& g) { return round_up(g.depth(), 8); }

const char* refuses(const ConvProblem& p, const PlanTarget& target) {
  if (p.channels_last) return "channels first only";
  if (p.dtype != DType::float32 && p.dtype != DType::bfloat16 && p.dtype != DType::float16)
    return "float32 and the half types only";
  constexpr int64_t limit = std::numeric_limits<int32_t>::max() / 2;
  if (p.batch * p.out_pixels() > limit || p.batch * p.in_pixels() > limit || p.in_per_group() * p.in_pixels() > limit ||
      p.out_per_group() * p.out_pixels() > limit ||
      p.taps() * std::max(p.in_per_group(), p.out_per_group()) > limit / 2)
    return "places are too many for 32 bits";
  if (!target.tensor_cores()) return "no tensor cores";
  return nullptr;
}

const char* declines(const ConvProblem& p) {
  return p.out_per_group() <= 8 || p.in_per_group() <= 2 ? "most of a tile would be empty" : nullptr;
}
const char* gradient_declines(const ConvProblem& p) {
  return p.out_per_group() <= 8 ? "most of a tile would be empty" : nullptr;
}
const char* data_declines(const ConvProblem& p) {
  return p.in_per_group() <= 8 ? "most of a tile would be empty" : nullptr;
}

size_t packed_bytes(const Gather& g, DType type) {
  return g.groups * g.shape.out_channels * pitch_of(g) * size_of(type);
}

// Rows of filters as the kernel wants them: already so where nothing is to be padded or turned round.
bool packed_already(const ConvProblem& p, const Gather& g, const void* w) {
  return pitch_of(g) == g.depth() && g.weights.out == g.depth() && g.weights.in == p.taps() && g.weights.base == 0 &&
         reinterpret_cast<uintptr_t>(w) % 16 == 0;
}

struct Tiled {
  Part part;
  ProductTile tile;
};

Tiled tiled(const Part& part, const PlanTarget& target) {
  const Gather& g = part.gather;
  return {part, choose_product_tile(g.shape.out_channels, g.shape.batch * g.plane(), g.groups, target, {64, 128})};
}

void gather(Queue& queue, const ConvProblem& p, const Tiled& tiled, int64_t result_channels, const void* x,
            const void* w, const void* bias, void* y, void* workspace) {
  static KernelSite site("conv/tensor_cores.gpu.cl", "conv_tensor_cores_gather"),
      pack_site("conv/tensor_cores.gpu.cl", "conv_tensor_cores_weights");
  const auto& [part, tile] = tiled;
  const auto& [g, target] = part;
  const int64_t pixels = g.shape.batch * g.plane(), pitch = pitch_of(g);
  if (pitch > 0 && !packed_already(p, g, w)) {
    launch(queue, specialise(pack_site, queue.device(), p.dtype, p.dtype, tile, false),
           Range(pitch, g.shape.out_channels, g.groups), Range(), w, workspace, g.shape, g.weights,
           static_cast<int32_t>(pitch));
    w = workspace;
  }
  launch(queue, specialise(site, queue.device(), p.dtype, p.dtype, tile, false),
         Range(ceil_div(pixels, tile.n) * 256, ceil_div(g.shape.out_channels, tile.m), g.groups), Range(256, 1, 1), x,
         w, bias, y, g.shape, target, static_cast<int32_t>(pitch), int32_t{bias != nullptr},
         result_channels * plane_of(target));
}

ConvPlan plan_forward(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  const Tiled part = tiled(forward_part(p), target);
  return {nullptr, declines(p), packed_bytes(part.part.gather, p.dtype),
          [part](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            gather(queue, problem, part, problem.out_channels, t.x, t.w, t.bias, t.y, workspace);
          }};
}

void backward_data(Queue& queue, const std::vector<Tiled>& parts, const ConvProblem& p, const ConvOperands& t,
                   void* workspace) {
  auto* packed = static_cast<char*>(workspace);
  for (const Tiled& part : parts) {
    gather(queue, p, part, p.in_channels, t.y, t.w, nullptr, t.x, packed);
    packed += packed_bytes(part.part.gather, p.dtype);
  }
}

ConvPlan plan_backward_data(const ConvProblem& p, const PlanTarget& target) {
  if (p.stride[0] * p.stride[1] * p.stride[2] > 64) return refused("strides are too large");
  if (const char* reason = refuses(p, target)) return refused(reason);
  std::vector<Tiled> parts;
  size_t bytes = 0;  // the parts' filters one after the other
  for (const Part& part : backward_data_parts(p)) {
    parts.push_back(tiled(part, target));
    bytes += packed_bytes(part.gather, p.dtype);
  }
  return {nullptr, data_declines(p), bytes,
          [parts = std::move(parts)](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_data(queue, parts, problem, t, workspace);
          }};
}

struct WeightPlan {
  Gather gather;
  ProductTile tile;
  Shares shares;
};

WeightPlan plan_weight(const ConvProblem& p, const PlanTarget& target) {
  const Gather g = forward_gather(p);
  const ProductTile tile = choose_product_tile(g.shape.out_channels, g.depth(),
                                               g.groups * ceil_div(g.shape.batch * g.plane(), 1024), target, {64, 128});
  return {g, tile, share_pixels(g, target, tile.m, tile.n)};
}

void backward_weight(Queue& queue, const WeightPlan& plan, const ConvProblem& p, const ConvOperands& t,
                     void* workspace) {
  static KernelSite site("conv/tensor_cores.gpu.cl", "conv_tensor_cores_gradient");
  const auto& [g, tile, s] = plan;
  const DType result = s.parts > 1 ? DType::float32 : p.dtype;
  launch(queue, specialise(site, queue.device(), p.dtype, result, tile, true),
         Range(ceil_div(g.depth(), tile.n) * 256, ceil_div(g.shape.out_channels, tile.m), g.groups * s.parts),
         Range(256, 1, 1), t.x, t.y, s.parts > 1 ? workspace : t.w, g.shape, static_cast<int32_t>(g.groups),
         static_cast<int32_t>(s.pixels));
  if (s.parts > 1) sum_shares(queue, p, s, workspace, t.w);
}

ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  const WeightPlan plan = plan_weight(p, target);
  return {nullptr, gradient_declines(p), shares_workspace(p, plan.shares),
          [plan](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_weight(queue, plan, problem, t, workspace);
          }};
}

// 1x1 convolutions: one product per image, whose pixels come in whole chunks of 16 bytes.
const char* pointwise_refuses(const ConvProblem& p, const PlanTarget& target) {
  constexpr std::array<int64_t, 3> one{1, 1, 1}, none{0, 0, 0};
  if (p.channels_last || p.kernel != one || p.stride != one || p.padding != none || p.groups != 1)
    return "1x1 without stride, padding and groups only";
  if (p.dtype != DType::float32 && p.dtype != DType::bfloat16 && p.dtype != DType::float16)
    return "float32 and the half types only";
  return target.tensor_cores() ? nullptr : "no tensor cores";
}

const char* pointwise_declines(const ConvProblem& p) {
  if (p.in_channels <= 16 || p.out_channels <= 16) return "most of a tile would be empty";
  return p.in_pixels() < 128 || p.in_pixels() * static_cast<int64_t>(size_of(p.dtype)) % 16 != 0
             ? "pixels of an image are not whole chunks of 16 bytes"
             : nullptr;
}

// result [rows, pixels] = w [rows, depth] from [depth, pixels], for every image.
void multiply_images(Queue& queue, const ConvProblem& p, int64_t rows, int64_t depth, MatrixStrides w,
                     const GemmOperands& operands) {
  GemmProblem g;
  g.dtype = p.dtype;
  g.rounding = Tf32::conv;
  g.batch = p.batch, g.m = rows, g.n = p.in_pixels(), g.k = depth;
  g.a = w;
  g.b = GemmProblem::row_major(depth, g.n);
  g.c = GemmProblem::row_major(rows, g.n);
  g.d = {0, 1, 0};
  g.beta = operands.d ? 1 : 0;
  gemm(queue, g, operands);
}

void pointwise_forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  multiply_images(queue, p, p.out_channels, p.in_channels, {0, p.in_channels, 1}, {t.w, t.x, t.y, t.bias});
}

void pointwise_backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  multiply_images(queue, p, p.in_channels, p.out_channels, {0, 1, p.in_channels}, {t.w, t.y, t.x, nullptr});
}

}  // namespace

std::span<const ConvAlgorithm> tensor_core_pointwise_algorithms() {
  using conv_detail::no_bytes;
  static const ConvAlgorithm algorithms[] = {
      {"tensor_cores_pointwise", ConvPass::forward,
       plain_plan<pointwise_refuses, pointwise_forward, no_bytes, pointwise_declines>},
      {"tensor_cores_pointwise", ConvPass::backward_data,
       plain_plan<pointwise_refuses, pointwise_backward_data, no_bytes, pointwise_declines>},
  };
  return algorithms;
}

std::span<const ConvAlgorithm> tensor_core_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"tensor_cores", ConvPass::forward, plan_forward},
      {"tensor_cores", ConvPass::backward_data, plan_backward_data},
      {"tensor_cores", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
