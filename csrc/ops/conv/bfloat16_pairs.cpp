#include "ops/conv/implicit_gemm.h"

#include "opencl/capabilities/bfloat16_pairs.h"
#include "ops/conv/combine.h"
#include "ops/conv/gather.h"
#include "ops/conv/plan.h"

#include <utility>
#include <vector>

namespace ocl::ops {
namespace {

constexpr int64_t max_pixels = 384,
                  max_words =
                      256;  // MAX_PIXELS and the words along a slab that MAX_DEPTH allows in conv_gather_pairs.clh
constexpr int64_t static_local_bytes =
    30 << 10;  // pieces (408 of 32 bytes), taps (512 of 32) and edge tile (512 bytes) of conv_multiply

// Words along a sum of `length` steps: two of them in each (csrc/opencl/capabilities/bfloat16_pairs.h).
int64_t words(int64_t length) { return ceil_div(length, 2); }

// Pixels and channels of one task, rows of one slab, bytes of local memory.
struct Tiles {
  int64_t pixels, channels, depth, pixel_tasks, channel_tasks;
  size_t local_bytes;
};

// A slab of 32 pixels should stay in a 32 KiB L1 cache: at most max_words; slabs of equal depth, even for pairs. Sums
// between slabs are kept in local memory, which bounds channels. Short of tasks, channels are split before pixels:
// pixels would be gathered no less often.
Tiles choose_tiles(const Gather& g, const PlanTarget& target) {
  const int64_t cores = target.compute_units;
  const int64_t budget =
      (static_cast<int64_t>(std::min<uint64_t>(target.local_memory, 768 << 10)) - static_local_bytes) / 4;
  const bool roomy = budget > 100'000;
  Tiles t{};
  const int64_t size = words(g.depth()), slabs = ceil_div(size, size <= max_words || roomy ? max_words : 128),
                depth = ceil_div(size, slabs);
  t.depth = 2 * depth;
  const int64_t total = g.shape.batch * g.plane();
  t.pixels = std::min<int64_t>(slabs > 1 ? 224 : max_pixels, budget / depth / 32 * 32);
  t.pixel_tasks = ceil_div(total, t.pixels);
  t.pixels = std::min(t.pixels, round_up(ceil_div(total, t.pixel_tasks), 32));
  t.pixel_tasks = ceil_div(total, t.pixels);
  int64_t limit = round_up(g.shape.out_channels, 8);
  if (slabs > 1) limit = std::min(limit, (budget - t.pixels * depth) / (t.pixels * 8) * 8);
  t.channel_tasks = balanced_shares(t.pixel_tasks * g.groups, cores, ceil_div(g.shape.out_channels, limit),
                                    ceil_div(g.shape.out_channels, 8));
  t.channels = round_up(ceil_div(g.shape.out_channels, t.channel_tasks), 8);
  t.channel_tasks = ceil_div(g.shape.out_channels, t.channels);
  t.local_bytes = 4 * (t.pixels * depth + (slabs > 1 ? t.pixels * t.channels : 0));
  return t;
}

Defines gather_defines(DType type, int stride, bool volume) {
  return Defines().add("DTYPE", name_of(type)).add("STRIDE", stride).add("VOLUME", volume);
}

Kernel& specialise(KernelSite& site, Device& device, DType type, int stride, bool volume) {
  return site.get(device, Variant().add(type).add(stride, 3).add(volume, 1),
                  [&] { return gather_defines(type, stride, volume); });
}

int64_t packed_words(const Gather& g) { return g.groups * round_up(g.shape.out_channels, 8) * words(g.depth()); }

struct Product {
  Gather gather;
  Tiles tiles;
};

Product product_of(const Gather& g, const PlanTarget& target) { return {g, choose_tiles(g, target)}; }

// y [batch, groups * out_channels, output]; packed: room for packed_words.
void multiply(Queue& queue, DType type, const Product& product, const void* x, const void* w, const void* bias, void* y,
              uint32_t* packed) {
  static KernelSite pack_site("conv/bfloat16_pairs.cpu.cl", "conv_pack_weights"),
      multiply_site("conv/bfloat16_pairs.cpu.cl", "conv_multiply");
  const auto& [g, t] = product;
  Device& device = queue.device();
  const int stride = stride_class(g.shape);
  const bool volume = is_volume(g.shape);
  launch(queue, specialise(pack_site, device, type, stride, volume),
         Range(ceil_div(g.shape.out_channels, 8), ceil_div(g.depth(), 512), g.groups), Range(1, 1, 1), w, packed,
         g.shape, g.weights);
  launch(queue, specialise(multiply_site, device, type, stride, volume),
         Range(t.pixel_tasks, t.channel_tasks, g.groups), Range(1, 1, 1), x, packed, bias, y, g.shape,
         int32_t{bias != nullptr}, static_cast<int32_t>(t.channels), static_cast<int32_t>(t.pixels),
         static_cast<int32_t>(t.depth), LocalMemory{t.local_bytes});
}

const char* refuses_common(const ConvProblem& p, const PlanTarget& target) {
  if ((p.dtype != DType::bfloat16 || !target.bfloat16_pairs()))
    return "needs bfloat16 and a processor that multiplies it";
  if (p.depthwise()) return "depthwise kernels are faster";
  if (!target.cpu_style) return "made for CPU runtimes";
  if (p.channels_last) return "channels first only";
  if (p.dtype != DType::float32 && !is_half(p.dtype)) return "float32, float16 and bfloat16 only";
  if (target.local_memory < 192 << 10) return "needs 192 KiB of local memory";
  if (p.taps() * std::max(p.in_per_group(), p.out_per_group()) >= 1 << 30) return "sums are too long";
  return nullptr;
}

const char* declines(const PlanTarget& target) {
  return target.prefers_bfloat16_pairs() ? nullptr : "float32 multiplies faster on this processor";
}

// ---- forward

ConvPlan plan_forward(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  const Product product = product_of(flatten_pointwise(forward_gather(p)), target);
  return {nullptr, declines(target), static_cast<size_t>(4 * packed_words(product.gather)),
          [product](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            multiply(queue, problem.dtype, product, t.x, t.w, t.bias, t.y, static_cast<uint32_t*>(workspace));
          }};
}

// ---- backward-data: one sub-grid of dx per residue of the stride, each a stride-1 product, then interleaved.

// All residues together have every tap once; pairs may add half a word to each.
int64_t packed_bytes(const ConvProblem& p) {
  return 4 * p.groups * round_up(p.in_per_group(), 8) * (words(p.out_per_group() * p.taps()) + residues(p)) + 512;
}

struct SubGrids {
  std::vector<std::pair<int, Product>> products;  // by residue
  uint64_t present = 0;
};

SubGrids sub_grids(const ConvProblem& p, const PlanTarget& target) {
  SubGrids grids;
  if (residues(p) == 1)
    grids.products.emplace_back(0, product_of(flatten_pointwise(backward_data_gather(p, {0, 0, 0})), target));
  else
    grids.present = each_sub_grid(
        p, [&](const Gather& g, int residue) { grids.products.emplace_back(residue, product_of(g, target)); });
  return grids;
}

void backward_data(Queue& queue, const SubGrids& grids, const ConvProblem& p, const ConvOperands& t, void* workspace) {
  auto* packed = static_cast<uint32_t*>(workspace);
  if (residues(p) == 1) return multiply(queue, p.dtype, grids.products[0].second, t.y, t.w, nullptr, t.x, packed);
  char* parts = static_cast<char*>(workspace) + round_up(packed_bytes(p), 64) + 256;
  for (const auto& [residue, product] : grids.products) {
    multiply(queue, p.dtype, product, t.y, t.w, nullptr, parts + residue * slot_bytes(p), packed);
    packed += packed_words(product.gather);
  }
  interleave(queue, p, parts, grids.present, t.x);
}

ConvPlan plan_backward_data(const ConvProblem& p, const PlanTarget& target) {
  if (residues(p) > 64) return refused("strides are too large");
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  return {nullptr, declines(target),
          static_cast<size_t>(packed_bytes(p) + (residues(p) > 1 ? 256 + residues(p) * slot_bytes(p) : 0)),
          [grids = sub_grids(p, target)](Queue& queue, const ConvProblem& problem, const ConvOperands& t,
                                         void* workspace) { backward_data(queue, grids, problem, t, workspace); }};
}

// ---- backward-weight: shares of the pixels give partial sums, added by a second kernel.

void backward_weight(Queue& queue, const Gather& g, const WeightTiles& tiles, const ConvProblem& p,
                     const ConvOperands& t, void* workspace) {
  static KernelSite site("conv/bfloat16_pairs_backward_weight.cpu.cl", "conv_backward_weight");
  Device& device = queue.device();
  const int stride = stride_class(g.shape);
  const bool volume = is_volume(g.shape);
  const DType result = tiles.parts > 1 ? DType::float32 : p.dtype;
  Kernel& kernel = site.get(device, Variant().add(p.dtype).add(result).add(stride, 3).add(volume, 1),
                            [&] { return gather_defines(p.dtype, stride, volume).add("RESULT", name_of(result)); });
  launch(
      queue, kernel,
      Range(ceil_div(g.shape.out_channels, tiles.channels), ceil_div(g.depth(), tiles.columns), g.groups * tiles.parts),
      Range(1, 1, 1), t.x, t.y, tiles.parts > 1 ? workspace : t.w, g.shape, static_cast<int32_t>(g.groups),
      static_cast<int32_t>(tiles.channels), static_cast<int32_t>(tiles.columns), static_cast<int32_t>(tiles.share),
      LocalMemory{tiles.local_bytes});
  if (tiles.parts > 1) sum_shares(queue, p, static_cast<const float*>(workspace), tiles.parts, t.w);
}

ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (p.batch * p.out_pixels() > 1 << 30) return refused("too many pixels");
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  const Gather g = flatten_pointwise(forward_gather(p));
  const WeightTiles tiles = choose_weight_tiles(g, target, 2);
  return {nullptr, declines(target), tiles.parts > 1 ? static_cast<size_t>(4 * tiles.parts * p.w_numel()) : 0,
          [g, tiles](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_weight(queue, g, tiles, problem, t, workspace);
          }};
}

}  // namespace

std::span<const ConvAlgorithm> bfloat16_pairs_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"bfloat16_pairs", ConvPass::forward, plan_forward},
      {"bfloat16_pairs", ConvPass::backward_data, plan_backward_data},
      {"bfloat16_pairs", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
