#include "ops/conv/rows.h"

#include "ops/conv/combine.h"
#include "ops/conv/gather.h"
#include "ops/conv/plan.h"
#include "ops/elementwise/elementwise.h"
#include "params/conv.h"

#include <algorithm>
#include <vector>

namespace ocl::ops {
namespace {

constexpr int64_t panel = params::rows_panel, source_block = params::rows_source_block;
constexpr int64_t few_channels = 16;          // below, a row of one tap is too short
constexpr int64_t heavy_weights = 128 << 10;  // 512 KiB
constexpr int64_t most_offsets = 16 << 10;    // of a task: 128 KiB of local memory

using params::RowsShape;

int64_t tap_count(const RowsShape& s) { return int64_t{1} * s.taps[0] * s.taps[1] * s.taps[2]; }
int64_t pixels_of(const RowsShape& s) { return int64_t{1} * s.batch * s.grid[0] * s.grid[1] * s.grid[2]; }

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// A gather whose result is image `image`, at the pixels first + q * step.
RowsShape shape_of(const Gather& g, int64_t x_channels, int64_t y_channels, const std::array<int64_t, 3>& image,
                   const std::array<int64_t, 3>& first, const std::array<int64_t, 3>& step) {
  RowsShape s{};
  s.x_pixel = x_channels, s.y_pixel = y_channels;
  s.batch = g.shape.batch, s.sources = g.shape.in_channels, s.results = g.shape.out_channels;
  for (int d = 0; d < 3; ++d) {
    s.input[d] = g.shape.input[d], s.grid[d] = g.shape.output[d], s.taps[d] = g.shape.kernel_size[d];
    s.stride[d] = g.shape.stride[d], s.padding[d] = g.shape.padding[d], s.dilation[d] = g.shape.dilation[d];
    s.image[d] = narrow(image[d]), s.first[d] = narrow(first[d]), s.step[d] = narrow(step[d]);
  }
  return s;
}

int64_t zero_floats(int64_t sources) { return round_up(sources, source_block); }
int64_t packed_floats(int64_t groups, int64_t results, int64_t sources, int64_t taps) {
  return groups * round_up(results, panel) * sources * taps;
}

Kernel& kernel(KernelSite& site, Queue& queue) {
  return site.get(queue.device(), 0, [] { return Defines(); });
}

void pack(Queue& queue, const RowsShape& s, const WeightMap& m, int64_t groups, int64_t raw_taps, const void* w,
          float* packed, float* zeros) {
  static KernelSite site("conv/rows.cpu.cl", "rows_pack");
  const Range blocks(ceil_div(s.results, panel), ceil_div(s.sources, source_block), groups);
  launch(queue, kernel(site, queue), blocks, Range(1, 1, 1), w, packed, zeros, s, m, narrow(raw_taps));
}

// How the pixels and panels of one shape are cut into tasks.
struct RowsCut {
  int64_t pixels, pixel_tasks, panels_per_task, panel_tasks;
};

RowsCut cut_of(const RowsShape& s, int64_t groups, const PlanTarget& target) {
  const int64_t units = target.compute_units, panels = ceil_div(s.results, panel);
  // Enough tasks for every unit. Weights are read again for every range of pixels: many weights want few ranges.
  const bool heavy = panels * panel * s.sources * tap_count(s) > heavy_weights;
  const int64_t taps = std::max<int64_t>(1, tap_count(s)),
                most_pixels = std::min<int64_t>(heavy ? 256 : 128, most_offsets / taps / 8 * 8);
  const int64_t ranges = std::max(ceil_div(pixels_of(s), most_pixels),
                                  heavy ? int64_t{1} : std::min(4 * units, ceil_div(pixels_of(s), 8)));
  const int64_t pixels = round_up(ceil_div(pixels_of(s), ranges), 8), pixel_tasks = ceil_div(pixels_of(s), pixels);
  const int64_t panel_tasks = std::clamp<int64_t>(ceil_div(4 * units, pixel_tasks * groups), 1, panels);
  const int64_t panels_per_task = ceil_div(panels, panel_tasks);
  return {pixels, pixel_tasks, panels_per_task, ceil_div(panels, panels_per_task)};
}

void multiply(Queue& queue, const RowsShape& s, const RowsCut& cut, int64_t groups, const void* x, const float* packed,
              const float* zeros, const void* bias, void* y) {
  static KernelSite site("conv/rows.cpu.cl", "rows_multiply");
  const int64_t taps = std::max<int64_t>(1, tap_count(s));
  const LocalMemory offsets{static_cast<size_t>(taps * cut.pixels * 8)}, targets{static_cast<size_t>(cut.pixels * 8)};
  launch(queue, kernel(site, queue), Range(cut.pixel_tasks, cut.panel_tasks, groups), Range(1, 1, 1), x, packed, zeros,
         bias ? bias : zeros, y, s, int32_t{bias != nullptr}, narrow(cut.pixels), narrow(cut.panels_per_task), offsets,
         targets);
}

const char* refuses(const ConvProblem& p, const PlanTarget& target) {
  if (!target.cpu_style) return "made for CPU runtimes";
  if (!p.channels_last) return "channels last only";
  if (p.dtype != DType::float32) return "float32 only";
  if (target.local_memory < 192 << 10 || p.taps() > 128) return "too many taps for local memory";
  return nullptr;
}

// ---- forward

bool merges_taps(const ConvProblem& p) { return p.in_channels < few_channels && p.groups == 1 && p.dilation[2] == 1; }

int64_t row_length(const ConvProblem& p) { return p.in_per_group() * (merges_taps(p) ? p.kernel[2] : 1); }

std::array<int64_t, 3> padded_size(const ConvProblem& p) {
  std::array<int64_t, 3> size{};
  for (int d = 0; d < 3; ++d) size[d] = p.input[d] + 2 * p.padding[d];
  return size;
}

int64_t padded_floats(const ConvProblem& p) {
  const auto size = padded_size(p);
  return merges_taps(p) ? p.batch * size[0] * size[1] * size[2] * p.in_channels + 64 : 0;
}

const char* forward_declines(const ConvProblem& p) {
  return row_length(p) < few_channels ? "rows are too short" : nullptr;
}

int64_t forward_packed_floats(const ConvProblem& p) {
  return packed_floats(p.groups, p.out_per_group(), p.in_per_group(), p.taps());
}

size_t forward_workspace(const ConvProblem& p) {
  return 4 *
         static_cast<size_t>(zero_floats(row_length(p)) + round_up(forward_packed_floats(p), 64) + padded_floats(p));
}

struct ForwardRows {
  RowsShape packed, shape;  // of the weights; of the product, whose padding is in the copy of x where taps are merged
  RowsCut cut;
  WeightMap weights;
};

ForwardRows forward_rows(const ConvProblem& p, const PlanTarget& target) {
  const Gather g = forward_gather(p);
  ForwardRows rows{shape_of(g, p.in_channels, p.out_channels, p.output, {0, 0, 0}, {1, 1, 1}), {}, {}, g.weights};
  rows.shape = rows.packed;
  if (merges_taps(p)) {  // the order of packed weights is the same
    const auto size = padded_size(p);
    for (int d = 0; d < 3; ++d) rows.shape.input[d] = narrow(size[d]), rows.shape.padding[d] = 0;
    rows.shape.sources *= rows.shape.taps[2], rows.shape.taps[2] = 1;
  }
  rows.cut = cut_of(rows.shape, p.groups, target);
  return rows;
}

// x with its padding in `memory`.
const void* pad(Queue& queue, const ConvProblem& p, void* x, void* memory) {
  const auto size = padded_size(p);
  const int64_t c = p.in_channels, row = size[2] * c, plane = size[1] * row;
  const TensorView whole = TensorView::contiguous(memory, p.dtype, {padded_floats(p)});
  zero(queue, whole);
  const int64_t sizes[] = {p.batch, p.input[0], p.input[1], p.input[2] * c},
                strides[] = {size[0] * plane, plane, row, 1};
  float* inside = static_cast<float*>(memory) + p.padding[0] * plane + p.padding[1] * row + p.padding[2] * c;
  copy(queue, TensorView::strided(inside, p.dtype, sizes, strides), TensorView::contiguous(x, p.dtype, sizes));
  return memory;
}

void forward(Queue& queue, const ForwardRows& rows, const ConvProblem& p, const ConvOperands& t, void* workspace) {
  float* zeros = static_cast<float*>(workspace);
  float* packed = zeros + zero_floats(row_length(p));
  pack(queue, rows.packed, rows.weights, p.groups, p.taps(), t.w, packed, zeros);
  const void* x = merges_taps(p) ? pad(queue, p, t.x, packed + round_up(forward_packed_floats(p), 64)) : t.x;
  multiply(queue, rows.shape, rows.cut, p.groups, x, packed, zeros, t.bias, t.y);
}

ConvPlan plan_forward(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target)) return refused(reason);
  return {nullptr, forward_declines(p), forward_workspace(p),
          [rows = forward_rows(p, target)](Queue& queue, const ConvProblem& problem, const ConvOperands& t,
                                           void* workspace) { forward(queue, rows, problem, t, workspace); }};
}

// ---- gradient of the input

const char* backward_data_refuses(const ConvProblem& p, const PlanTarget& target) {
  return residues(p) > 64 ? "strides are too large" : refuses(p, target);
}

const char* backward_data_declines(const ConvProblem& p) {
  return std::min(p.out_per_group(), p.in_per_group()) < few_channels ? "rows are too short" : nullptr;
}

size_t backward_data_workspace(const ConvProblem& p) {
  return 4 * static_cast<size_t>(zero_floats(p.out_per_group()) +
                                 packed_floats(p.groups, p.in_per_group(), p.out_per_group(), p.taps()) + 64);
}

struct SubGrid {
  RowsShape shape;
  RowsCut cut;
  WeightMap weights;
  bool reached;  // by any tap
};

std::vector<SubGrid> sub_grids(const ConvProblem& p, const PlanTarget& target) {
  std::vector<SubGrid> grids;
  for (int64_t z = 0; z < p.stride[0]; ++z)
    for (int64_t y = 0; y < p.stride[1]; ++y)
      for (int64_t x = 0; x < p.stride[2]; ++x) {
        const Gather g = backward_data_gather(p, {z, y, x});
        if (g.plane() == 0) continue;
        RowsShape s = shape_of(g, p.out_channels, p.in_channels, p.input, {z, y, x}, p.stride);
        if (g.taps() == 0) std::fill_n(s.taps, 3, 0);  // pixels that no tap reaches become zero
        grids.push_back({s, cut_of(s, p.groups, target), g.weights, g.taps() != 0});
      }
  return grids;
}

void backward_data(Queue& queue, const std::vector<SubGrid>& grids, const ConvProblem& p, const ConvOperands& t,
                   void* workspace) {
  float* zeros = static_cast<float*>(workspace);
  float* packed = zeros + zero_floats(p.out_per_group());
  for (const SubGrid& grid : grids) {
    if (grid.reached) pack(queue, grid.shape, grid.weights, p.groups, p.taps(), t.w, packed, zeros);
    multiply(queue, grid.shape, grid.cut, p.groups, t.y, packed, zeros, nullptr, t.x);
    packed += packed_floats(p.groups, p.in_per_group(), p.out_per_group(), tap_count(grid.shape));
  }
}

ConvPlan plan_backward_data(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = backward_data_refuses(p, target)) return refused(reason);
  return {nullptr, backward_data_declines(p), backward_data_workspace(p),
          [grids = sub_grids(p, target)](Queue& queue, const ConvProblem& problem, const ConvOperands& t,
                                         void* workspace) { backward_data(queue, grids, problem, t, workspace); }};
}

bool takes_filters_last(const ConvProblem&) { return true; }

}  // namespace

std::span<const ConvAlgorithm> rows_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"rows", ConvPass::forward, plan_forward, takes_filters_last},
      {"rows", ConvPass::backward_data, plan_backward_data, takes_filters_last},
  };
  return algorithms;
}

}  // namespace ocl::ops
