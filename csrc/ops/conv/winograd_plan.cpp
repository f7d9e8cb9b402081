#include "ops/conv/winograd.h"

#include <algorithm>

namespace ocl::ops {

namespace {

// Transformed images of one part: small enough to come back from the last-level cache, large enough for many tasks.
constexpr int64_t part_bytes = int64_t{48} << 20;

// Floats of `channels` channels at all points of `tiles` tiles; 8 more tiles because the multiplication reads whole groups of 8.
int64_t point_floats(int64_t points, int64_t channels, int64_t tiles) {
  return points * points * (round_up(channels, 16) * tiles + 16) + 8 * 16;
}

size_t aligned_bytes(int64_t floats) { return static_cast<size_t>(round_up(floats * 4, 512)); }

int choose_tile_block(const WinogradPlan& plan, uint64_t local_memory) {
  const int64_t planes = plan.points() * plan.points();
  const int64_t weights = plan.transform_weight ? planes * 16 * 32 * 4 + int64_t{16} * plan.taps * plan.taps * 16 * 4 : 0;
  for (int block : {64, 32, 16})
    if (planes * block * 32 * 4 + weights + 1024 <= static_cast<int64_t>(local_memory)) return block;
  return 0;
}

}  // namespace

WinogradPlan winograd_plan(ConvPass pass, const ConvProblem& problem, int tile, int taps, uint64_t local_memory) {
  WinogradPlan plan;
  plan.tile = tile;
  plan.taps = taps;
  plan.batch = problem.batch;
  plan.source_channels = problem.in_channels;
  plan.result_channels = problem.out_channels;
  plan.source_height = problem.input[1];
  plan.source_width = problem.input[2];
  plan.result_height = problem.output[1];
  plan.result_width = problem.output[2];
  plan.pad_h = problem.padding[1];
  plan.pad_w = problem.padding[2];
  if (pass == ConvPass::backward_data) {  // a forward pass with flipped filters
    std::swap(plan.source_channels, plan.result_channels);
    std::swap(plan.source_height, plan.result_height);
    std::swap(plan.source_width, plan.result_width);
    plan.pad_h = taps - 1 - plan.pad_h;
    plan.pad_w = taps - 1 - plan.pad_w;
  }
  plan.tiles_h = ceil_div(plan.result_height, tile);
  plan.tiles_w = ceil_div(plan.result_width, tile);

  const bool weights = pass == ConvPass::backward_weight;
  const int64_t image_tiles = plan.tiles_h * plan.tiles_w;
  const int64_t transformed = plan.source_channels + (weights ? plan.result_channels : 0);
  const int64_t image_bytes = std::max<int64_t>(1, point_floats(plan.points(), transformed, image_tiles) * 4);
  const int64_t parts = ceil_div(plan.batch, std::clamp<int64_t>(part_bytes / image_bytes, 1, std::max<int64_t>(1, plan.batch)));
  plan.images = parts ? ceil_div(plan.batch, parts) : 0;

  plan.v_bytes = aligned_bytes(point_floats(plan.points(), plan.source_channels, plan.tiles()));
  const int64_t filters = round_up(plan.source_channels, 16) * round_up(plan.result_channels, 32);
  if (weights) {
    const int64_t planes = plan.points() * plan.points();
    plan.out_block = planes * 32 * 32 * 4 + 1024 <= static_cast<int64_t>(local_memory) ? 32 : 16;
    plan.other_bytes = aligned_bytes(point_floats(plan.points(), plan.result_channels, plan.tiles()));
    plan.partial_bytes = parts > 1 ? aligned_bytes(problem.w_numel()) : 0;
  } else {
    plan.transform_weight = plan.source_channels >= 256 && parts * plan.tiles() <= 256;
    plan.tile_block = choose_tile_block(plan, local_memory);
    plan.other_bytes = plan.transform_weight ? 0 : aligned_bytes(plan.points() * plan.points() * filters);
  }
  return plan;
}

}  // namespace ocl::ops
