// Channels last (kernels_cl/conv/tensor_cores_last.gpu.cl): operands of the other order go through copies, where there
// is enough to compute for that.
#include "opencl/capabilities/tensor_cores.h"
#include "ops/conv/plan.h"
#include "ops/conv/simt.h"
#include "ops/conv/tensor_cores.h"
#include "ops/core/precision.h"
#include "ops/elementwise/permute.h"
#include "ops/gemm/tensor_cores.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace ocl::ops {

using namespace simt_detail;

namespace {

bool is_exact(DType type) { return type == DType::float32 && !allows_tf32(Tf32::conv); }

enum class Program { gather, gradient };

bool uses_warpgroups(const Device& device, DType type, Program program) {
  return (type != DType::float32 || (program == Program::gather && !is_exact(type))) && has_warpgroups(device);
}
// Along n. Two read less of local memory but leave half as many warps to a unit: on an H100 the gather of single
// products was quicker for it, the gradient was not.
int warps_n(DType type, Program program) { return program == Program::gather && !is_exact(type) ? 2 : 4; }
size_t group_items(const Device& device, DType type, Program program) {
  return uses_warpgroups(device, type, program) ? 256 : static_cast<size_t>(warps_n(type, program)) * 64;
}

Kernel& specialise(KernelSite& site, Device& device, DType type, ProductTile tile, Program program) {
  const bool exact = is_exact(type), gradient = program == Program::gradient;
  return site.get(device,
                  Variant().add(type).add(exact, 1).add(tile.m == 128, 1).add(tile.n == 128, 1).add(gradient, 1), [&] {
                    Defines defines;
                    add_tensor_core_defines(defines.add("DTYPE", name_of(type)).add("EXACT", exact),
                                            uses_warpgroups(device, type, program));
                    // two groups of eight warps to a unit; the gradient of float32 needs more registers
                    if (gradient != exact) defines.add("MOST_REGISTERS", 128);
                    return defines.add("TILE_M", tile.m)
                        .add("TILE_N", tile.n)
                        .add("WARPS_N", warps_n(type, program))
                        .add("GRADIENT", gradient);
                  });
}

int64_t chunk_of(DType type) { return 16 / static_cast<int64_t>(size_of(type)); }

// `summed`: channels of a group that are summed over, or that both operands of the gradient have; they are copied in
// chunks.
const char* refuses_channels(const ConvProblem& p, const PlanTarget& target, std::initializer_list<int64_t> summed) {
  if (p.dtype != DType::float32 && p.dtype != DType::bfloat16 && p.dtype != DType::float16)
    return "float32 and the half types only";
  for (const int64_t channels : summed)
    if (channels % chunk_of(p.dtype) != 0) return "channels are not whole chunks of 16 bytes";
  constexpr int64_t limit = std::numeric_limits<int32_t>::max() / 2;
  if (p.batch * p.out_pixels() > limit || p.batch * p.in_pixels() > limit ||
      p.taps() * std::max(p.in_per_group(), p.out_per_group()) > limit / 2)
    return "places are too many for 32 bits";
  if (!target.tensor_cores()) return "no tensor cores";
  return nullptr;
}

// Two copies of x and y cost as much as some ninety operations per byte save, by what an H100 was seen to do.
const char* declines(const ConvProblem& p) {
  if (p.in_per_group() <= 8 || p.out_per_group() <= 8) return "most of a tile would be empty";
  if (p.channels_last) return nullptr;
  const int64_t operations = 2 * p.y_numel() * p.in_per_group() * p.taps(),
                bytes = (p.x_numel() + p.y_numel()) * static_cast<int64_t>(size_of(p.dtype));
  return operations < 90 * bytes ? "the copies into the other order would cost more than they gain" : nullptr;
}

// An operand in the order N D H W C.
class ChannelsLast {
 public:
  ChannelsLast(Queue& queue, const ConvProblem& p, void* data, int64_t channels, int64_t pixels, bool is_result)
      : queue_(queue),
        data_(data),
        bytes_(size_of(p.dtype)),
        batch_(p.batch),
        channels_(channels),
        pixels_(pixels),
        is_result_(is_result) {
    if (p.channels_last || channels == 1 || pixels == 1) return;
    copy_.emplace(queue, static_cast<size_t>(batch_ * channels * pixels) * bytes_);
    if (!is_result) transpose_planes(queue, bytes_, batch_, channels, pixels, data, copy_->data());
  }
  void* data() { return copy_ ? copy_->data() : data_; }
  // To be called when the result has been written.
  void finish() {
    if (copy_ && is_result_) transpose_planes(queue_, bytes_, batch_, pixels_, channels_, copy_->data(), data_);
  }

 private:
  Queue& queue_;
  void* data_;
  size_t bytes_;
  int64_t batch_, channels_, pixels_;
  bool is_result_;
  std::optional<Workspace> copy_;
};

struct Tiled {
  Part part;
  ProductTile tile;
};

Tiled tiled(const Part& part, const PlanTarget& target) {
  const Gather& g = part.gather;
  return {part, choose_product_tile(g.shape.batch * g.plane(), g.shape.out_channels, g.groups, target, {128, 64})};
}

void gather(Queue& queue, const ConvProblem& p, const Tiled& tiled, const void* x, const void* w, const void* bias,
            void* y) {
  static KernelSite site("conv/tensor_cores_last.gpu.cl", "conv_last_gather"),
      pack_site("conv/tensor_cores_last.gpu.cl", "conv_last_weights");
  const auto& [part, tile] = tiled;
  const auto& [g, target] = part;
  const int64_t pixels = g.shape.batch * g.plane();
  Workspace packed(queue, static_cast<size_t>(g.groups * g.shape.out_channels * g.depth()) * size_of(p.dtype));
  if (g.depth() > 0)
    launch(queue, specialise(pack_site, queue.device(), p.dtype, tile, Program::gather),
           Range(g.depth(), g.shape.out_channels, g.groups), Range(), w, packed.data(), g.shape, g.weights);
  bool in_place = true;
  for (int d = 0; d < 3; ++d)
    in_place = in_place && target.first[d] == 0 && target.step[d] == 1 && target.size[d] == g.shape.output[d];
  launch(queue, specialise(site, queue.device(), p.dtype, tile, Program::gather),
         Range(ceil_div(g.shape.out_channels, tile.n) * group_items(queue.device(), p.dtype, Program::gather),
               ceil_div(pixels, tile.m), g.groups),
         Range(group_items(queue.device(), p.dtype, Program::gather), 1, 1), x, packed.data(), bias, y, g.shape, target,
         static_cast<int32_t>(g.groups), int32_t{bias != nullptr}, int32_t{in_place});
}

void forward(Queue& queue, const Tiled& part, const ConvProblem& p, const ConvOperands& t) {
  ChannelsLast x(queue, p, t.x, p.in_channels, p.in_pixels(), false),
      y(queue, p, t.y, p.out_channels, p.out_pixels(), true);
  gather(queue, p, part, x.data(), t.w, t.bias, y.data());
  y.finish();
}

ConvPlan plan_forward(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_channels(p, target, {p.in_per_group()})) return refused(reason);
  return {nullptr, declines(p), 0,
          [part = tiled(forward_part(p), target)](Queue& queue, const ConvProblem& problem, const ConvOperands& t,
                                                  void*) { forward(queue, part, problem, t); }};
}

void backward_data(Queue& queue, const std::vector<Tiled>& parts, const ConvProblem& p, const ConvOperands& t) {
  ChannelsLast x(queue, p, t.x, p.in_channels, p.in_pixels(), true),
      y(queue, p, t.y, p.out_channels, p.out_pixels(), false);
  for (const Tiled& part : parts) gather(queue, p, part, y.data(), t.w, nullptr, x.data());
  x.finish();
}

ConvPlan plan_backward_data(const ConvProblem& p, const PlanTarget& target) {
  if (p.stride[0] * p.stride[1] * p.stride[2] > 64) return refused("strides are too large");
  if (const char* reason = refuses_channels(p, target, {p.out_per_group()})) return refused(reason);
  std::vector<Tiled> parts;
  for (const Part& part : backward_data_parts(p)) parts.push_back(tiled(part, target));
  return {nullptr, declines(p), 0,
          [parts = std::move(parts)](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void*) {
            backward_data(queue, parts, problem, t);
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
                                               g.groups * ceil_div(g.shape.batch * g.plane(), 1024), target, {128, 64});
  return {g, tile, share_pixels(g, target, tile.m, tile.n)};
}

void backward_weight(Queue& queue, const WeightPlan& plan, const ConvProblem& p, const ConvOperands& t) {
  static KernelSite site("conv/tensor_cores_last.gpu.cl", "conv_last_gradient"),
      finish_site("conv/tensor_cores_last.gpu.cl", "conv_last_finish");
  Device& device = queue.device();
  const auto& [g, tile, s] = plan;
  ChannelsLast x(queue, p, t.x, p.in_channels, p.in_pixels(), false),
      y(queue, p, t.y, p.out_channels, p.out_pixels(), false);
  Workspace sums(queue, static_cast<size_t>(s.parts * p.w_numel()) * sizeof(float));
  launch(queue, specialise(site, device, p.dtype, tile, Program::gradient),
         Range(ceil_div(g.depth(), tile.n) * group_items(device, p.dtype, Program::gradient),
               ceil_div(g.shape.out_channels, tile.m), g.groups * s.parts),
         Range(group_items(device, p.dtype, Program::gradient), 1, 1), x.data(), y.data(), sums.data(), g.shape,
         static_cast<int32_t>(g.groups), static_cast<int32_t>(s.pixels));
  launch(queue, specialise(finish_site, device, p.dtype, tile, Program::gradient), Range(round_up(p.w_numel(), 64)),
         Range(64), sums.data(), t.w, p.w_numel(), static_cast<int32_t>(p.in_per_group()),
         static_cast<int32_t>(p.taps()), static_cast<int32_t>(s.parts));
}

ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_channels(p, target, {p.in_per_group(), p.out_per_group()})) return refused(reason);
  return {nullptr, declines(p), 0,
          [plan = plan_weight(p, target)](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void*) {
            backward_weight(queue, plan, problem, t);
          }};
}

}  // namespace

std::span<const ConvAlgorithm> tensor_core_last_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"tensor_cores_last", ConvPass::forward, plan_forward},
      {"tensor_cores_last", ConvPass::backward_data, plan_backward_data},
      {"tensor_cores_last", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
