#include "ops/conv/direct.h"

#include "ops/conv/combine.h"
#include "ops/conv/gather.h"
#include "ops/conv/plan.h"
#include "ops/conv/splits.h"
#include "params/conv.h"

#include <algorithm>

namespace ocl::ops {
namespace {

constexpr int64_t most_pairs = params::direct_pairs;
constexpr int64_t widest_vector = 16;
constexpr int64_t line_floats = 1536;            // of a piece at most
constexpr int64_t most_line_bytes = 160 << 10;   // of a task's lines,
constexpr int64_t most_frame_bytes = 192 << 10;  // its frames, those of a block of channels,
constexpr int64_t most_block_bytes = 48 << 10;
constexpr int64_t most_sum_bytes = 64 << 10;  // and sums of a weight gradient: all should stay in a second-level cache
// A weight gradient goes through so many between two rounds of horizontal sums, from several images where they are
// small.
constexpr int64_t fewest_floats = 800;

using params::Direct;

int64_t taps_of(const Direct& s) { return int64_t{s.taps_h} * s.taps_w; }

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

// The gather's shape and the frames of its rows; bands follow (set_band).
Direct direct_of(const Gather& g) {
  const GatherShape& f = g.shape;
  Direct s{};
  s.x_image = f.x_image, s.x_plane = f.x_plane;
  s.y_plane = g.plane(), s.y_image = g.groups * f.out_channels * s.y_plane;
  s.batch = f.batch, s.channels = f.in_channels, s.results = f.out_channels;
  s.in_h = f.input[1], s.in_w = f.input[2], s.out_h = f.output[1], s.out_w = f.output[2];
  s.taps_h = f.kernel_size[1], s.taps_w = f.kernel_size[2], s.stride_h = f.stride[1];
  s.pad_h = f.padding[1], s.pad_w = f.padding[2], s.dilation_h = f.dilation[1], s.dilation_w = f.dilation[2];
  const int64_t stride = f.stride[2], wide = s.out_w + int64_t{s.dilation_w} * (s.taps_w - 1) / stride;
  int64_t pitch = s.out_w;
  for (int64_t phase = 0; phase < stride; ++phase) {
    const int64_t begin = std::clamp<int64_t>(ceil_div(std::max<int64_t>(s.pad_w - phase, 0), stride), 0, wide);
    const int64_t end = std::clamp(floor_div(s.in_w - 1 + s.pad_w - phase, stride) + 1, begin, wide);
    s.begin[phase] = narrow(begin), s.columns[phase] = narrow(end - begin);
    // The columns right of a row are those left of the next one, where those are zero.
    pitch = std::max({pitch, end, wide - begin});
  }
  s.pitch = narrow(pitch);
  return s;
}

int64_t stride_of(const Gather& g) { return g.shape.stride[2]; }
int64_t reach_of(const Direct& s) { return int64_t{s.dilation_h} * (s.taps_h - 1) / s.stride_h; }

void set_band(Direct& s, int64_t stride, int64_t band) {
  s.band = narrow(band), s.bands = narrow(ceil_div(s.out_h, band));
  s.rows = narrow(band + reach_of(s));
  const int64_t reach = int64_t{s.dilation_w} * (s.taps_w - 1) / stride;
  s.frame = narrow(round_up((s.rows + 1) * int64_t{s.pitch} + reach + 2 * widest_vector, 16));
}

int64_t channel_floats(const Direct& s, int64_t stride) { return s.stride_h * stride * s.frame; }
int64_t line_of(const Direct& s) { return round_up(int64_t{s.band} * s.pitch + s.pitch + 2 * widest_vector, 16); }

// The highest bands of equal height whose lines have at most so many floats and whose frames of so many channels fit;
// false where one row does not.
bool choose_band(Direct& s, int64_t stride, int64_t channels, int64_t floats) {
  const auto fits = [&](int64_t band) {
    set_band(s, stride, band);
    return 4 * channels * channel_floats(s, stride) <= most_frame_bytes &&
           band * s.pitch <= std::max<int64_t>(floats, s.pitch);
  };
  for (int64_t bands = ceil_div(s.out_h, std::max<int64_t>(1, floats / s.pitch));; ++bands) {
    const int64_t band = ceil_div(s.out_h, bands);
    if (fits(band)) return true;
    if (band == 1) return false;
  }
}

const char* refuses_common(const ConvProblem& p, const PlanTarget& target) {
  if (!target.cpu_style) return "made for CPU runtimes";
  if (p.channels_last) return "channels first only";
  if (p.dtype != DType::float32 && !is_half(p.dtype)) return "float32, float16 and bfloat16 only";
  if (p.input[0] != 1 || p.output[0] != 1 || p.kernel[0] != 1) return "two dimensions only";
  if (p.stride[2] > 2) return "strides of columns 1 and 2 only";
  if (p.taps() > most_pairs) return "too many taps";
  if (target.local_memory < 512 << 10) return "needs 512 KiB of local memory";
  return nullptr;
}

Kernel& specialise(KernelSite& site, Device& device, DType type, DType result, int64_t stride) {
  return site.get(device, Variant().add(type).add(result).add(stride, 2), [&] {
    return Defines().add("DTYPE", name_of(type)).add("RESULT", name_of(result)).add("STRIDE", stride);
  });
}

// ---- forward, and the gradient of the input for stride 1

// A task: pieces by results, going through blocks of channels.
struct Plan {
  Direct shape;
  int64_t channels, shares, parts;  // of a block; of the pieces, of the results
  size_t local_bytes;
};

// Returns false where a row of one channel does not fit.
bool plan_multiply(Plan& plan, const Gather& g, const PlanTarget& target) {
  const int64_t stride = stride_of(g), units = target.compute_units;
  Direct& s = plan.shape = direct_of(g);
  const int64_t blocks = ceil_div(s.results, 4);
  for (plan.parts = 1;; ++plan.parts) {
    const int64_t results = 4 * ceil_div(blocks, plan.parts);
    if (4 * results * s.pitch * std::min<int64_t>(s.out_h, 4) <= most_line_bytes || plan.parts >= blocks) break;
  }
  const int64_t results = 4 * ceil_div(blocks, plan.parts);
  if (!choose_band(s, stride, 1, std::min(line_floats, most_line_bytes / 4 / results))) return false;
  while (s.band > 4 && s.batch * s.bands * g.groups * plan.parts < 4 * units) set_band(s, stride, (s.band + 1) / 2);
  const int64_t pieces = int64_t{s.batch} * s.bands;
  plan.shares = std::clamp<int64_t>(ceil_div(16 * units, g.groups), 1, pieces);
  // Results are parted as far as it occupies the units: each part fills the frames again.
  const auto occupied = [&](int64_t parts) {
    const int64_t tasks = parts * plan.shares * g.groups;
    return tasks >= 2 * units || (units > most_played_cores && 4 * tasks >= 3 * units * ceil_div(tasks, units));
  };
  while (plan.parts < blocks && !occupied(plan.parts)) ++plan.parts;
  plan.channels = std::clamp<int64_t>(
      std::min(most_block_bytes / (4 * channel_floats(s, stride)), most_pairs / taps_of(s)), 1, s.channels);
  plan.channels = ceil_div(s.channels, ceil_div(s.channels, plan.channels));
  plan.local_bytes = 4 * static_cast<size_t>(plan.channels * channel_floats(s, stride) +
                                             4 * ceil_div(blocks, plan.parts) * line_of(s));
  return plan.local_bytes <= target.local_memory - (8 << 10);
}

int64_t packed_floats(const Gather& g) { return g.groups * round_up(g.shape.out_channels, 4) * g.depth(); }

void multiply(Queue& queue, DType type, const Gather& g, const Plan& plan, const void* x, const void* w,
              const void* bias, void* y, float* packed, const ConvLimits& limits) {
  static KernelSite pack_site("conv/direct.cpu.cl", "conv_direct_pack"), site("conv/direct.cpu.cl", "conv_direct");
  Device& device = queue.device();
  const int64_t stride = stride_of(g);
  const Direct& s = plan.shape;
  launch(queue, specialise(pack_site, device, type, DType::float32, stride), Range(ceil_div(s.results, 4), g.groups),
         Range(1, 1), w, packed, s, g.weights);
  launch(queue, specialise(site, device, type, DType::float32, stride), Range(plan.shares, plan.parts, g.groups),
         Range(1, 1, 1), x, packed, bias, y, s, int32_t{bias != nullptr}, narrow(plan.channels), narrow(line_of(s)),
         passed(limits), LocalMemory{plan.local_bytes});
}

// ---- whether it is the better choice: parts of a processor's peak, fitted to what was measured with AVX2

// Of the pixels computed, those that are of the result.
double pixels_used(const Direct& s, const PlanTarget& target) {
  const int64_t lanes = target.vector_floats < 16 ? 8 : 16, whole = s.out_h / s.band, rest = s.out_h % s.band;
  const auto computed = [&](int64_t rows) { return rows ? round_up((rows - 1) * s.pitch + s.out_w, lanes) : 0; };
  return static_cast<double>(int64_t{s.out_h} * s.out_w) /
         static_cast<double>(whole * computed(s.band) + computed(rest));
}

double part(int64_t of, double more) { return static_cast<double>(of) / (static_cast<double>(of) + more); }

constexpr double filling = 6;  // copying a vector into a frame takes as long as so many products

const char* slower_than_gathering(const Gather& g, const Plan& plan, const PlanTarget& target) {
  const Direct& s = plan.shape;
  const double rows = part(s.results, static_cast<double>(round_up(s.results, 4) - s.results));
  const double direct =
      pixels_used(s, target) * rows *
      part(taps_of(s) * ceil_div(s.results, plan.parts), filling * static_cast<double>(s.stride_h * stride_of(g)));
  return direct < 1.05 * part(s.results, 10) ? "gathering serves many channels" : nullptr;
}

ConvPlan plan_gather(const Gather& g, const PlanTarget& target, bool forward) {
  Plan plan;
  if (!plan_multiply(plan, g, target)) return refused("rows are too wide");
  return {nullptr, slower_than_gathering(g, plan, target), 4 * static_cast<size_t>(packed_floats(g)) + 256,
          [g, plan, forward](Queue& queue, const ConvProblem& p, const ConvOperands& t, void* workspace) {
            multiply(queue, p.dtype, g, plan, forward ? t.x : t.y, t.w, forward ? t.bias : nullptr, forward ? t.y : t.x,
                     static_cast<float*>(workspace), forward ? p.limits : ConvLimits{});
          },
          forward};
}

ConvPlan plan_forward(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  return plan_gather(forward_gather(p), target, true);
}

ConvPlan plan_backward_data(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  if (p.stride[1] != 1 || p.stride[2] != 1) return refused("stride 1 only");
  return plan_gather(backward_data_gather(p, {0, 0, 0}), target, false);
}

// ---- gradient of the weight: shares of the pieces leave partial sums

struct WeightPlan {
  Direct shape;
  int64_t channels, results, shares;  // of a task; of the pieces
  size_t local_bytes;
};

// Returns false where the frames do not fit.
bool plan_weight(WeightPlan& plan, const ConvProblem& p, const PlanTarget& target) {
  const Gather g = forward_gather(p);
  Direct& s = plan.shape = direct_of(g);
  const int64_t stride = stride_of(g), units = target.compute_units;
  auto even = [](int64_t total, int64_t limit) { return ceil_div(total, ceil_div(total, limit)); };
  plan.results = round_up(even(s.results, 32), 4);
  if (!choose_band(s, stride, 1, std::min(line_floats, most_line_bytes / 4 / plan.results))) return false;
  s.images = s.bands > 1 ? 1 : narrow(std::clamp<int64_t>(fewest_floats / (int64_t{s.out_h} * s.pitch), 1, s.batch));
  const int64_t by_memory = most_frame_bytes / (4 * s.images * channel_floats(s, stride)),
                by_sums = most_sum_bytes / (4 * plan.results * taps_of(s));
  plan.channels = even(s.channels, std::clamp<int64_t>(std::min(by_memory, by_sums), 1, most_pairs / taps_of(s)));
  const int64_t pieces = ceil_div(s.batch, s.images) * s.bands;
  const int64_t tasks = g.groups * ceil_div(s.channels, plan.channels) * ceil_div(s.results, plan.results);
  plan.shares = balanced_shares(tasks, units, 1, pieces);
  const int64_t width = round_up(std::min<int64_t>(plan.results, s.results), 4);
  plan.local_bytes =
      4 * static_cast<size_t>(s.images * (plan.channels * channel_floats(s, stride) + width * line_of(s)) +
                              (plan.channels * taps_of(s) + 2) * width + 16);
  return plan.local_bytes <= target.local_memory - (8 << 10);
}

const char* weight_slower_than_gathering(const ConvProblem& p, const WeightPlan& plan, const PlanTarget& target) {
  const Direct& s = plan.shape;
  const double used = pixels_used(s, target) * part(s.results, static_cast<double>(round_up(s.results, 4) - s.results));
  const int64_t results = std::min<int64_t>(plan.results, s.results);
  const double copied = static_cast<double>(plan.channels * s.stride_h * p.stride[2] + results);
  const double direct = used * part(plan.channels * results * taps_of(s), filling * copied) *
                        part(int64_t{s.images} * s.band * s.pitch, 60);
  return direct < 1.05 * part(s.results, 26) ? "gathering serves many channels" : nullptr;
}

void backward_weight(Queue& queue, const WeightPlan& plan, const ConvProblem& p, const ConvOperands& t,
                     void* workspace) {
  static KernelSite site("conv/direct.cpu.cl", "conv_direct_weight");
  const Direct& s = plan.shape;
  const bool partial = plan.shares > 1;
  const Range grid(plan.shares, ceil_div(s.channels, plan.channels) * ceil_div(s.results, plan.results), p.groups);
  launch(queue, specialise(site, queue.device(), p.dtype, partial ? DType::float32 : p.dtype, p.stride[2]), grid,
         Range(1, 1, 1), t.x, t.y, partial ? workspace : t.w, s, narrow(plan.channels), narrow(plan.results),
         narrow(line_of(s)), LocalMemory{plan.local_bytes});
  if (partial) sum_shares(queue, p, static_cast<const float*>(workspace), plan.shares, t.w);
}

ConvPlan plan_backward_weight(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses_common(p, target)) return refused(reason);
  WeightPlan plan;
  if (!plan_weight(plan, p, target)) return refused("rows are too wide");
  return {nullptr, weight_slower_than_gathering(p, plan, target),
          plan.shares > 1 ? static_cast<size_t>(4 * plan.shares * p.w_numel()) + 256 : 0,
          [plan](Queue& queue, const ConvProblem& problem, const ConvOperands& t, void* workspace) {
            backward_weight(queue, plan, problem, t, workspace);
          }};
}

}  // namespace

std::span<const ConvAlgorithm> direct_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"direct", ConvPass::forward, plan_forward},
      {"direct", ConvPass::backward_data, plan_backward_data},
      {"direct", ConvPass::backward_weight, plan_backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
