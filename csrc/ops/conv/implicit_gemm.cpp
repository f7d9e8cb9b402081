#include "ops/conv/implicit_gemm.h"

#include "opencl/capabilities/prefetch.h"
#include "ops/conv/combine.h"
#include "ops/conv/gather.h"
#include "ops/conv/plan.h"
#include "ops/conv/splits.h"
#include "ops/elementwise/elementwise.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace ocl::ops {
namespace {

constexpr int64_t max_pixels = 384, max_depth = 384;  // as in kernels_cl/conv/gather.clh
constexpr int64_t max_phase_taps = params::most_phase_taps;
constexpr int64_t direct_pixels = 2048;           // up to which weights are not packed
constexpr int64_t static_local_bytes = 28 << 10;  // pieces, taps and edge tile of conv_multiply

// Pixels and channels of one task, rows of one slab, bytes of local memory.
struct Tiles {
  int64_t pixels, channels, depth, pixel_tasks, channel_tasks;
  int64_t phase_line, phase_at;  // floats of a phase (0: no phases), of local memory before them
  size_t local_bytes;
  bool channels_slow;  // tasks in order of channels, then pixels; otherwise the other way round
};

// Whether taps are read from phases of the image (conv_gather.clh) rather than piece by piece.
bool takes_phases(const Gather& g) {
  const GatherShape& s = g.shape;
  if (s.kernel_size[0] != 1 || s.input[0] != 1 || s.output[0] != 1 || s.padding[0] != 0) return false;
  if ((s.stride[2] != 1 && s.stride[2] != 2) || s.stride[1] != s.stride[2] || g.taps() < 4 || g.taps() > max_phase_taps)
    return false;
  for (int d : {1, 2})
    if (s.input[d] != s.output[d] * s.stride[d] || s.padding[d] < 0 ||
        s.dilation[d] * (s.kernel_size[d] - 1) - s.padding[d] < 0)
      return false;
  return s.padding[2] <= 8 &&
         s.dilation[2] * (s.kernel_size[2] - 1) <= 16;  // columns stay within the slack around the rows
}

// Rows of the result that the taps of `pixels` pixels reach, and space for vectors that reach over their end.
int64_t phase_line(const Gather& g, int64_t pixels) {
  const GatherShape& s = g.shape;
  const int64_t reach = (int64_t{s.dilation[1]} * (s.kernel_size[1] - 1)) / s.stride[1] + 1;
  return round_up(pixels + (reach + 3) * s.output[2] + 64, 16) + 16;
}

// Local memory of phases and masks in floats.
int64_t phase_floats(const Gather& g, int64_t pixels) {
  return pixels * g.taps() + g.shape.stride[1] * g.shape.stride[2] * phase_line(g, pixels);
}

// Gathering a vector takes as long as multiplying it with so many channels.
constexpr int64_t gathering = 10;

// For few cores: chooses channels of a task, at most `limit`, and the order of tasks for the earliest end.
void split_channels(Tiles& t, int64_t total, int64_t out_channels, int64_t limit, int64_t groups, int64_t cores) {
  int64_t best_end = std::numeric_limits<int64_t>::max();
  // Two tasks for each core at least, in case one starts late.
  const int64_t most = ceil_div(out_channels, 8),
                fewest = std::max(ceil_div(out_channels, limit),
                                  std::min(most, ceil_div(2 * cores, t.pixel_tasks * groups)));
  auto consider = [&](int64_t end, int64_t channels, bool channels_slow) {
    if (end < best_end) best_end = end, t.channels = channels, t.channels_slow = channels_slow;
  };
  const int64_t last_pixels = total - (t.pixel_tasks - 1) * t.pixels;
  for (int64_t parts = fewest; parts <= most;) {
    const int64_t channels = round_up(ceil_div(out_channels, parts), 8),
                  channel_tasks = ceil_div(out_channels, channels);
    if (t.pixel_tasks * channel_tasks * groups >= 16 * cores)  // even enough
      return consider(ceil_div(total, 16) * (round_up(out_channels, 8) + gathering * channel_tasks) * groups / cores,
                      channels, false);
    Tasks tasks{t.pixel_tasks, channel_tasks, groups, {}};
    for (int i = 0; i < 4; ++i) {
      const int64_t vectors = ceil_div(i / 2 ? last_pixels : t.pixels, 16),
                    width = i % 2 ? out_channels - (channel_tasks - 1) * channels : channels;
      tasks.cost[i / 2][i % 2] = vectors * (round_up(width, 8) + gathering);
    }
    consider(played_end(tasks, cores, false), channels, false);
    consider(played_end(tasks, cores, true), channels, true);
    // The next number of parts whose tasks have fewer channels.
    parts = channels > 8 ? ceil_div(out_channels, channels - 8) : most + 1;
  }
}

// The vectors that a task gathers for each row of a slab. Phases are read with the rows around the pixels, for all taps
// of a channel at once.
int64_t gathered_vectors(const Gather& g, bool phases, int64_t pixels) {
  const int64_t around = phases ? g.shape.stride[1] * g.shape.stride[2] * phase_line(g, pixels) / g.taps() : 0;
  return ceil_div(pixels + around, 16);
}

// For many cores: chooses pixels and channels of a task. Where pixels alone do not make enough tasks, each task of
// fewer channels gathers its pixels again, but tasks of fewer pixels gather only their seams again; too few of either
// would leave cores that gather more than they multiply. `limit`: the most channels beside so many pixels.
template <class Limit>
void split_tasks(Tiles& t, const Gather& g, bool phases, int64_t cores, const Limit& limit) {
  const int64_t out_channels = g.shape.out_channels, total = g.shape.batch * g.plane();
  struct Split {
    int64_t pixels, channels, end, work;
  };
  std::vector<Split> splits;
  const auto add = [&](int64_t pixels, int64_t channels) {
    const int64_t pixel_tasks = ceil_div(total, pixels), channel_tasks = ceil_div(out_channels, channels);
    Tasks tasks{pixel_tasks, channel_tasks, g.groups, {}};
    const int64_t heights[] = {pixels, total - (pixel_tasks - 1) * pixels},
                  widths[] = {channels, round_up(out_channels - (channel_tasks - 1) * channels, 8)};
    int64_t work = 0;
    for (int i = 0; i < 4; ++i) {
      tasks.cost[i / 2][i % 2] =
          ceil_div(heights[i / 2], 16) * widths[i % 2] + gathering * gathered_vectors(g, phases, heights[i / 2]);
      work += tasks.cost[i / 2][i % 2] * (i / 2 ? 1 : pixel_tasks - 1) * (i % 2 ? 1 : channel_tasks - 1);
    }
    // A core that starts late delays the end by a part of a task.
    splits.push_back({pixels, channels, estimated_end(tasks, cores) + tasks.cost_of(0, 0) / 4, work});
    return tasks.count();
  };
  for (int64_t pixels = t.pixels; pixels >= 32; pixels -= 32) {
    const int64_t most = ceil_div(out_channels, 8);
    for (int64_t parts = ceil_div(out_channels, limit(pixels)); parts <= most;
         parts = std::max(parts + 1, parts * 5 / 4))
      if (add(pixels, round_up(ceil_div(out_channels, parts), 8)) >= 16 * cores) break;  // even enough
    if (ceil_div(total, pixels) * g.groups >= 4 * cores) break;
  }
  const Split& best = thriftiest(splits);
  t.pixels = best.pixels;
  t.channels = best.channels;
}

// A slab of 32 pixels should stay in a 32 KiB L1 cache: depth <= 256; slabs of equal depth. Sums between slabs are kept
// in local memory, which bounds channels.
Tiles choose_tiles(const Gather& g, const PlanTarget& target) {
  const int64_t cores = target.compute_units;
  int64_t budget = (static_cast<int64_t>(std::min<uint64_t>(target.local_memory, 768 << 10)) - static_local_bytes) / 4;
  const bool roomy = budget > 100'000;
  Tiles t{};
  const bool phases =
      takes_phases(g) && phase_floats(g, max_pixels) <= budget / 2;  // rows of very wide images do not fit
  const int64_t unit = phases ? g.taps() : 1;                        // phases serve all taps of a channel
  const int64_t slabs = ceil_div(g.depth() / unit, (g.depth() <= 256 || roomy ? 256 : 128) / unit);
  t.depth = ceil_div(g.depth() / unit, slabs) * unit;
  if (phases) budget -= phase_floats(g, slabs > 1 ? 224 : max_pixels);
  const int64_t total = g.shape.batch * g.plane();
  t.pixels = std::min<int64_t>(slabs > 1 ? 224 : max_pixels, budget / t.depth / 32 * 32);
  auto channels_beside = [&](int64_t pixels) { return (budget - pixels * t.depth) / (pixels * 8) * 8; };
  // What is gathered should serve 128 channels.
  const int64_t worthwhile = std::min<int64_t>(round_up(g.shape.out_channels, 8), 128);
  while (slabs > 1 && t.pixels > 128 && channels_beside(t.pixels) < worthwhile) t.pixels -= 32;
  t.pixel_tasks = ceil_div(total, t.pixels);
  t.pixels = std::min(t.pixels, round_up(ceil_div(total, t.pixel_tasks), 32));
  t.pixel_tasks = ceil_div(total, t.pixels);
  const auto limit = [&](int64_t pixels) {
    const int64_t all = round_up(g.shape.out_channels, 8);
    return slabs > 1 ? std::min(all, channels_beside(pixels)) : all;
  };
  if (cores <= most_played_cores)
    split_channels(t, total, g.shape.out_channels, limit(t.pixels), g.groups, cores);
  else
    split_tasks(t, g, phases, cores, limit);
  t.pixel_tasks = ceil_div(total, t.pixels);
  t.channel_tasks = ceil_div(g.shape.out_channels, t.channels);
  t.local_bytes = 4 * (t.pixels * t.depth + (slabs > 1 ? t.pixels * t.channels : 0));
  t.phase_line = phases ? phase_line(g, t.pixels) : 0;
  t.phase_at = static_cast<int64_t>(t.local_bytes) / 4;
  if (phases) t.local_bytes += 4 * static_cast<size_t>(phase_floats(g, t.pixels));
  return t;
}

Defines gather_defines(DType type, int stride, bool volume) {
  return Defines().add("DTYPE", name_of(type)).add("STRIDE", stride).add("VOLUME", volume);
}

Kernel& specialise(KernelSite& site, Device& device, DType type, int stride, bool volume) {
  return site.get(device, Variant().add(type).add(stride, 3).add(volume, 1), [&] {
    Defines defines = gather_defines(type, stride, volume);
    return add_prefetch_define(defines, device);
  });
}

int64_t packed_floats(const Gather& g) { return g.groups * round_up(g.shape.out_channels, 8) * g.depth(); }

// Whether weights are multiplied where they are: packing them costs more than it saves when there are few pixels.
bool reads_weights(DType type, const Gather& g) {
  const GatherShape& s = g.shape;
  const WeightMap& m = g.weights;
  return type == DType::float32 && s.out_channels % 8 == 0 && m.base == 0 && m.tap[2] == 1 &&
         m.tap[1] == s.kernel_size[2] && m.tap[0] == s.kernel_size[1] * s.kernel_size[2] && m.in == g.taps() &&
         m.out == g.depth() && (g.groups == 1 || m.group == s.out_channels * g.depth()) &&
         s.batch * g.plane() <= direct_pixels;
}

struct Product {
  Gather gather;
  Tiles tiles;
};

Product product_of(const Gather& g, const PlanTarget& target) { return {g, choose_tiles(g, target)}; }

// y [batch, groups * out_channels, output]; packed: room for packed_floats.
void multiply(Queue& queue, DType type, const Product& product, const void* x, const void* w, const void* bias, void* y,
              float* packed, const ConvLimits& limits = {}) {
  static KernelSite pack_site("conv/implicit_gemm.cpu.cl", "conv_pack_weights"),
      multiply_site("conv/implicit_gemm.cpu.cl", "conv_multiply");
  const auto& [g, t] = product;
  Device& device = queue.device();
  const int stride = stride_class(g.shape);
  const bool volume = is_volume(g.shape);
  const bool direct = reads_weights(type, g);
  if (!direct)
    launch(queue, specialise(pack_site, device, type, stride, volume),
           Range(ceil_div(g.shape.out_channels, 8), ceil_div(g.depth(), 512), g.groups), Range(1, 1, 1), w, packed,
           g.shape, g.weights);
  const Range grid = t.channels_slow ? Range(t.pixel_tasks * t.channel_tasks, 1, g.groups)
                                     : Range(t.pixel_tasks, t.channel_tasks, g.groups);
  launch(queue, specialise(multiply_site, device, type, stride, volume), grid, Range(1, 1, 1), x, direct ? w : packed,
         bias, y, g.shape, int32_t{bias != nullptr}, static_cast<int32_t>(t.pixel_tasks),
         static_cast<int32_t>(t.channels), static_cast<int32_t>(t.pixels), static_cast<int32_t>(t.depth),
         static_cast<int32_t>(t.phase_line), static_cast<int32_t>(t.phase_at), direct ? g.depth() : int64_t{0},
         passed(limits), LocalMemory{t.local_bytes});
}

const char* refuses_common(const ConvProblem& p, const PlanTarget& target) {
  if (!target.cpu_style) return "made for CPU runtimes";
  if (p.channels_last) return "channels first only";
  if (p.dtype != DType::float32 && !is_half(p.dtype)) return "float32, float16 and bfloat16 only";
  if (target.local_memory < 192 << 10) return "needs 192 KiB of local memory";
  if (p.taps() * std::max(p.in_per_group(), p.out_per_group()) >= 1 << 30) return "sums are too long";
  return nullptr;
}

// ---- forward

// Kernels of one tap with a stride: the pixels under the taps are packed first, then it is a plain product.
bool skips_pixels(const ConvProblem& p) {
  return p.taps() == 1 && p.stride != std::array<int64_t, 3>{1, 1, 1} && p.padding == std::array<int64_t, 3>{0, 0, 0};
}

Gather forward_plan(const ConvProblem& p) {
  if (!skips_pixels(p)) return flatten_pointwise(forward_gather(p));
  ConvProblem packed = p;
  packed.input = p.output;
  packed.stride = {1, 1, 1};
  return flatten_pointwise(forward_gather(packed));
}

size_t skipped_bytes(const ConvProblem& p) {
  return skips_pixels(p)
             ? 256 + round_up(p.batch * p.in_channels * p.out_pixels() * static_cast<int64_t>(size_of(p.dtype)), 256)
             : 0;
}

// x as forward_plan reads it; `memory` has room for skipped_bytes.
const void* forward_source(Queue& queue, const ConvProblem& p, void* x, void* memory) {
  if (!skips_pixels(p)) return x;
  const int64_t sizes[] = {p.batch, p.in_channels, p.output[0], p.output[1], p.output[2]};
  const int64_t row = p.input[2], plane = p.input[1] * row,
                strides[] = {p.in_channels * p.in_pixels(), p.in_pixels(), p.stride[0] * plane, p.stride[1] * row,
                             p.stride[2]};
  copy(queue, TensorView::contiguous(memory, p.dtype, sizes), TensorView::strided(x, p.dtype, sizes, strides));
  return memory;
}

void forward(Queue& queue, const Product& product, const ConvProblem& p, const ConvOperands& t, void* workspace) {
  float* packed = static_cast<float*>(workspace);
  const void* x = forward_source(queue, p, t.x, packed + round_up(packed_floats(product.gather), 64) + 64);
  multiply(queue, p.dtype, product, x, t.w, t.bias, t.y, packed, p.limits);
}

ConvPlan plan_forward(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  const Product product = product_of(forward_plan(p), target);
  return {nullptr, nullptr, 4 * round_up(packed_floats(product.gather), 64) + 256 + skipped_bytes(p),
          [product](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            forward(queue, product, problem, t, workspace);
          },
          true};
}

// ---- backward-data: one sub-grid of dx per residue of the stride, each a stride-1 product, then interleaved.

int64_t packed_bytes(const ConvProblem& p) {
  return 4 * p.groups * round_up(p.in_per_group(), 8) * p.out_per_group() * p.taps() + 512;
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
  auto* packed = static_cast<float*>(workspace);
  if (residues(p) == 1) return multiply(queue, p.dtype, grids.products[0].second, t.y, t.w, nullptr, t.x, packed);
  char* parts = static_cast<char*>(workspace) + round_up(packed_bytes(p), 64) + 256;
  for (const auto& [residue, product] : grids.products) {
    multiply(queue, p.dtype, product, t.y, t.w, nullptr, parts + residue * slot_bytes(p), packed);
    packed += packed_floats(product.gather);
  }
  interleave(queue, p, parts, grids.present, t.x);
}

ConvPlan plan_backward_data(const ConvProblem& p, const PlanTarget& target) {
  if (residues(p) > 64) return refused("strides are too large");
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  return {nullptr, nullptr,
          static_cast<size_t>(packed_bytes(p) + (residues(p) > 1 ? 256 + residues(p) * slot_bytes(p) : 0)),
          [grids = sub_grids(p, target)](Queue& queue, const ConvProblem& problem, const ConvOperands& t,
                                         void* workspace) { backward_data(queue, grids, problem, t, workspace); }};
}

// ---- backward-weight: shares of the pixels give partial sums, added by a second kernel.

size_t partial_bytes(const ConvProblem& p, int64_t parts) {
  return parts > 1 ? static_cast<size_t>(round_up(4 * parts * p.w_numel(), 256)) : 0;
}

void backward_weight(Queue& queue, const Gather& g, const WeightTiles& tiles, const ConvProblem& p,
                     const ConvOperands& t, void* workspace) {
  static KernelSite site("conv/implicit_gemm_backward_weight.cpu.cl", "conv_backward_weight");
  Device& device = queue.device();
  const void* x = forward_source(queue, p, t.x, static_cast<char*>(workspace) + partial_bytes(p, tiles.parts) + 256);
  const int stride = stride_class(g.shape);
  const bool volume = is_volume(g.shape);
  const DType result = tiles.parts > 1 ? DType::float32 : p.dtype;
  Kernel& kernel = site.get(device, Variant().add(p.dtype).add(result).add(stride, 3).add(volume, 1),
                            [&] { return gather_defines(p.dtype, stride, volume).add("RESULT", name_of(result)); });
  launch(
      queue, kernel,
      Range(ceil_div(g.shape.out_channels, tiles.channels), ceil_div(g.depth(), tiles.columns), g.groups * tiles.parts),
      Range(1, 1, 1), x, t.y, tiles.parts > 1 ? workspace : t.w, g.shape, static_cast<int32_t>(g.groups),
      static_cast<int32_t>(tiles.channels), static_cast<int32_t>(tiles.columns), static_cast<int32_t>(tiles.share),
      LocalMemory{tiles.local_bytes});
  if (tiles.parts > 1) sum_shares(queue, p, static_cast<const float*>(workspace), tiles.parts, t.w);
}

ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (p.batch * p.out_pixels() > 1 << 30) return refused("too many pixels");
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  const Gather g = forward_plan(p);
  const WeightTiles tiles = choose_weight_tiles(g, target, 1);
  return {nullptr, nullptr, partial_bytes(p, tiles.parts) + 256 + skipped_bytes(p),
          [g, tiles](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_weight(queue, g, tiles, problem, t, workspace);
          }};
}

}  // namespace

std::span<const ConvAlgorithm> implicit_gemm_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"implicit_gemm", ConvPass::forward, plan_forward},
      {"implicit_gemm", ConvPass::backward_data, plan_backward_data},
      {"implicit_gemm", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
