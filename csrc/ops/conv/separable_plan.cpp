#include "ops/conv/separable_plan.h"

#include "params/separable.h"

#include <algorithm>

namespace ocl::ops {
namespace {

constexpr int64_t lanes = params::separable_lanes, slack = params::separable_slack;
constexpr uint64_t most_local = 480 << 10;  // bytes: what a processor's second cache holds beside the weights

SeparableCut cut_of(const SeparableProblem& p, int64_t bands, int64_t parts) {
  const int64_t chunks = ceil_div(p.width, lanes);
  SeparableCut cut;
  cut.band = ceil_div(p.out_h, bands);
  cut.bands = ceil_div(p.out_h, cut.band);
  cut.chunks = ceil_div(chunks, parts);
  cut.parts = ceil_div(chunks, cut.chunks);
  cut.rows = (cut.band - 1) * p.stride + p.kernel;
  cut.pitch = std::max(p.in_w + 2 * p.pad_w, (p.out_w - 1) * p.stride + p.kernel);
  cut.places = std::min(cut.rows, p.in_h) * p.in_w + 8;
  const int64_t pixels = round_up(cut.band * p.out_w, 8);
  cut.image_bytes = static_cast<size_t>(4 * lanes * (cut.rows * cut.pitch + slack));
  cut.middle_bytes = static_cast<size_t>(4 * lanes * (pixels + 8));
  cut.sums_bytes = static_cast<size_t>(p.hidden || cut.chunks == 1 ? 64 : 4 * pixels * round_up(p.results, lanes));
  cut.places_bytes = static_cast<size_t>(4 * cut.places);
  return cut;
}

// Time until the last task ends, in vector operations.
double end_of(const SeparableProblem& p, const SeparableCut& cut, int64_t units) {
  const auto count = [](int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  const int64_t vectors = ceil_div(std::min(p.width, cut.chunks * lanes), 16);
  const double read = count(std::min(cut.rows, p.in_h), p.in_w), made = count(cut.band, p.out_w);
  const double expanded = read * static_cast<double>((p.expand ? p.sources : 2) + 4);
  const double filtered = made * (1.25 * static_cast<double>(p.kernel * p.kernel) + 4);
  const double results = static_cast<double>(ceil_div(p.results, 16));
  const double projected = p.hidden ? made * 4 : made * 16 * (results + 0.25 * results);
  // Weights of the task come from memory or a shared cache.
  const double weights =
      0.5 * static_cast<double>((p.expand ? p.sources : 0) + p.kernel * p.kernel + (p.hidden ? 0 : p.results));
  const double shared = cut.parts > 1 ? made * results * 4 : 0;
  const double task = static_cast<double>(vectors) * (expanded + filtered + projected + 16 * weights) + shared + 2000;
  return task * static_cast<double>(ceil_div(p.batch * cut.bands * cut.parts, units));
}

}  // namespace

SeparableCut separable_cut(const SeparableProblem& p, const PlanTarget& target) {
  const uint64_t room = std::min(most_local, target.local_memory - std::min<uint64_t>(target.local_memory, 8 << 10));
  const int64_t chunks = ceil_div(p.width, lanes), units = target.compute_units;
  SeparableCut best;
  double earliest = 0;
  for (int64_t bands = 1; bands <= p.out_h && bands <= 64; ++bands) {
    if (bands > 1 && ceil_div(p.out_h, bands) == ceil_div(p.out_h, bands - 1)) continue;
    for (int64_t parts = 1; parts <= chunks && parts <= 4 * units; parts *= 2) {
      const SeparableCut cut = cut_of(p, bands, parts);
      if (cut.local_bytes() > room) continue;
      const double end = end_of(p, cut, units);
      if (best.band && end >= earliest) continue;
      best = cut, earliest = end;
    }
  }
  return best;
}

}  // namespace ocl::ops
