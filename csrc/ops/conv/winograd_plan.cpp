#include "ops/conv/winograd.h"

#include <algorithm>
#include <utility>

namespace ocl::ops {

namespace {

// Transformed images of one part, per compute unit: small enough to come back from the caches, large enough for several
// tasks.
constexpr int64_t part_bytes = int64_t{4} << 20;
// Tiles of a part below which reading (forward) or writing (gradient) all filters again costs more than the caches
// save.
constexpr int64_t least_tiles = 96, least_gradient_tiles = 192;

// Floats of `channels` channels at all points of `tiles` tiles; 8 more tiles because the multiplication reads whole
// groups of 8.
int64_t point_floats(int64_t points, int64_t channels, int64_t tiles) {
  return points * points * (round_up(channels, 16) * tiles + 16) + 8 * 16;
}

size_t aligned_bytes(int64_t floats) { return static_cast<size_t>(round_up(floats * 4, 512)); }

int64_t planes_of(int tile, int taps) { return int64_t{tile + taps - 1} * (tile + taps - 1); }

}  // namespace

namespace {

// PLANE_PITCH in kernels_cl/conv/winograd_formulas.clh.
constexpr int64_t plane_pitch(int64_t numel) { return numel + 16; }

// Local memory of a multiplication task that transforms the filters of `slab` channels (0: none) itself.
int64_t task_bytes(int tile, int taps, int block, int slab) {
  const int64_t staged = slab ? int64_t{16} * taps * taps * 16 * 4 : 0;
  return planes_of(tile, taps) * (plane_pitch(block * 32) + plane_pitch(slab * 32)) * 4 + staged + 1024;
}

}  // namespace

int winograd_tile_block(int tile, int taps, bool transform_weight, const PlanTarget& target) {
  for (int block : {64, 32, 16})
    if (task_bytes(tile, taps, block, transform_weight ? 16 : 0) <= static_cast<int64_t>(target.local_memory))
      return block;
  return 0;
}

int winograd_slab(int tile, int taps, const PlanTarget& target) {
  const int block = winograd_tile_block(tile, taps, true, target);
  for (int slab : {64, 32})
    if (task_bytes(tile, taps, block, slab) <= static_cast<int64_t>(target.local_memory)) return slab;
  return 16;
}

int winograd_most_filters(int tile, int taps, const PlanTarget& target) {
  for (int filters : {64 * 64, 64 * 32, 32 * 32})
    if (planes_of(tile, taps) * plane_pitch(filters) * 4 + 1024 <= static_cast<int64_t>(target.local_memory))
      return filters;
  return 16 * 32;
}

namespace {

// The largest block of filters that leaves every compute unit several tasks.
void choose_gradient_block(WinogradPlan& plan, const PlanTarget& target) {
  const int most = winograd_most_filters(plan.tile, plan.taps, target);
  for (auto [outs, ins] : {std::pair{64, 64}, {64, 32}, {32, 32}, {16, 32}}) {
    plan.out_block = outs;
    plan.in_block = ins;
    if (outs * ins > most) continue;
    const int64_t tasks = ceil_div(plan.result_channels, outs) * ceil_div(plan.source_channels, ins);
    if (tasks >= 4 * target.compute_units || outs * ins <= 32 * 32) return;
  }
}

}  // namespace

int64_t WinogradPlan::filter_floats() const {
  return planes_of(tile, taps) * plane_pitch(round_up(source_channels, 16) * round_up(result_channels, 32));
}

WinogradPart winograd_part(const WinogradPlan& plan, int64_t index) {
  if (!plan.volume) {
    const int64_t first = index * plan.images, images = std::min(plan.images, plan.batch - first);
    if (plan.dilation > 1) return {0, 0, images, images, first, plan.batch, first};
    return {first * plan.source_channels * plan.source_pixels(),
            first * plan.result_channels * plan.result_pixels(),
            images,
            images,
            0,
            images,
            0};
  }
  const int64_t of_sample = ceil_div(plan.result_depth, plan.images), sample = index / of_sample,
                first = index % of_sample * plan.images;
  const int64_t images = std::min(plan.images, plan.result_depth - first);
  const int64_t slice = plan.result_pixels() * (plan.channels_last ? plan.result_channels : 1);
  return {sample * plan.source_channels * plan.source_depth * plan.source_pixels(),
          sample * plan.result_channels * plan.result_depth * plan.result_pixels() + first * slice,
          images,
          images + plan.depth_taps - 1,
          first - plan.pad_d,
          plan.source_depth,
          0};
}

WinogradPlan winograd_plan(ConvPass pass, const ConvProblem& problem, int tile, int taps, const PlanTarget& target) {
  WinogradPlan plan;
  plan.tile = tile;
  plan.taps = taps;
  plan.channels_last = problem.channels_last;
  plan.filters_last = problem.filters_last;
  plan.dilation = problem.dilation[1];
  plan.batch = problem.batch * plan.dilation * plan.dilation;
  plan.source_channels = problem.in_channels;
  plan.result_channels = problem.out_channels;
  plan.source_height = problem.input[1];
  plan.source_width = problem.input[2];
  plan.result_height = problem.output[1];
  plan.result_width = problem.output[2];
  plan.pad_h = problem.padding[1] / plan.dilation;
  plan.pad_w = problem.padding[2] / plan.dilation;
  plan.volume = problem.input[0] != 1 || problem.kernel[0] != 1 || problem.padding[0] != 0;
  plan.source_depth = problem.input[0];
  plan.result_depth = problem.output[0];
  plan.pad_d = problem.padding[0];
  plan.depth_taps = problem.kernel[0];
  if (pass == ConvPass::backward_data) {  // a forward pass with flipped filters
    std::swap(plan.source_channels, plan.result_channels);
    std::swap(plan.source_height, plan.result_height);
    std::swap(plan.source_width, plan.result_width);
    std::swap(plan.source_depth, plan.result_depth);
    plan.pad_d = plan.depth_taps - 1 - plan.pad_d;
    plan.pad_h = taps - 1 - plan.pad_h;
    plan.pad_w = taps - 1 - plan.pad_w;
  }
  plan.tiles_h = ceil_div(plan.result_height, plan.dilation * tile);
  plan.tiles_w = ceil_div(plan.result_width, plan.dilation * tile);

  const bool weights = pass == ConvPass::backward_weight;
  const int64_t image_tiles = plan.tiles_h * plan.tiles_w;
  const int64_t transformed = plan.source_channels + (weights ? plan.result_channels : 0);
  const int64_t image_bytes = std::max<int64_t>(1, point_floats(plan.points(), transformed, image_tiles) * 4);
  int64_t wanted = std::max(part_bytes * target.compute_units / image_bytes,
                            ceil_div(weights ? least_gradient_tiles : least_tiles, image_tiles + 1));
  wanted = std::max(wanted, 2 * (plan.depth_taps - 1));  // the slices at the seams are transformed twice
  const int64_t whole = plan.volume ? plan.result_depth : plan.batch;
  const int64_t parts = ceil_div(whole, std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, whole)));
  plan.images = parts ? ceil_div(whole, parts) : 0;

  plan.v_bytes = aligned_bytes(point_floats(plan.points(), plan.source_channels, plan.source_tiles()));
  if (plan.depth_taps > 1) plan.weight_bytes = aligned_bytes(problem.w_numel());
  if (weights) {
    choose_gradient_block(plan, target);
    plan.other_bytes = aligned_bytes(point_floats(plan.points(), plan.result_channels, plan.tiles()));
    plan.partial_bytes = plan.parts() > 1 ? aligned_bytes(problem.w_numel()) : 0;
  } else {
    plan.transform_weight = plan.source_channels >= 256 && plan.parts() * plan.tiles() <= 128;
    plan.tile_block = winograd_tile_block(tile, taps, plan.transform_weight, target);
    plan.other_bytes = plan.transform_weight ? 0 : aligned_bytes(plan.depth_taps * plan.filter_floats());
  }
  return plan;
}

}  // namespace ocl::ops
