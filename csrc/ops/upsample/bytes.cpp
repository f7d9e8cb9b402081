#include "ops/upsample/bytes.h"

#include "ops/core/lanes.h"
#include "params/upsample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

namespace ocl::ops {
namespace {

using params::AxisShape;

KernelSite site("upsample/bytes.cl", "resample_axis");

double cubic(double x, double a) {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double filter(UpsampleMode mode, double x) {
  x = std::abs(x);
  switch (mode) {
    case UpsampleMode::cubic: return cubic(x, -0.75);
    case UpsampleMode::cubic_antialias: return cubic(x, -0.5);
    case UpsampleMode::lanczos_antialias: return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    default: return x < 1 ? 1 - x : 0;
  }
}

int width_of(UpsampleMode mode) {
  if (mode == UpsampleMode::lanczos_antialias) return 6;
  return mode == UpsampleMode::cubic || mode == UpsampleMode::cubic_antialias ? 4 : 2;
}

struct Axis {
  UpsampleMode mode;
  int64_t in, out;
  double scale;
  bool align_corners;
  bool antialias() const { return mode >= UpsampleMode::linear_antialias; }
};

double scale_of(const UpsampleProblem& p, int axis) {
  const auto in = static_cast<double>(p.input[axis]), out = static_cast<double>(p.output[axis]);
  if (p.align_corners) return out > 1 ? (in - 1) / (out - 1) : 0;
  return p.scale_factor[axis] > 0 ? 1 / p.scale_factor[axis] : in / out;
}

// Weights of output o in w[0, taps); returns the first input.
int64_t stretched_weights(const Axis& a, int64_t o, int64_t taps, double* w) {
  const double widening = std::max(1.0, a.scale), support = 0.5 * width_of(a.mode) * widening,
               center = a.scale * (static_cast<double>(o) + 0.5);
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(std::floor(center - support + 0.5)), 0);
  const int64_t count =
      std::clamp<int64_t>(std::min(static_cast<int64_t>(std::floor(center + support + 0.5)), a.in) - first, 0, taps);
  double sum = 0;
  for (int64_t t = 0; t < count; ++t)
    sum += w[t] = filter(a.mode, (static_cast<double>(first + t) - center + 0.5) / widening);
  for (int64_t t = 0; t < count && sum != 0; ++t) w[t] /= sum;
  return first;
}

// The same for a filter of fixed width: what falls beyond a border is added to the input there.
int64_t fixed_weights(const Axis& a, int64_t o, int64_t taps, double* w) {
  const bool linear = a.mode == UpsampleMode::linear;
  double at = a.align_corners ? a.scale * static_cast<double>(o) : a.scale * (static_cast<double>(o) + 0.5) - 0.5;
  if (linear) at = std::max(at, 0.0);
  const int64_t index = std::min(static_cast<int64_t>(std::floor(at)), a.in - 1), half = taps / 2;
  const double fraction = std::clamp(at - static_cast<double>(index), 0.0, 1.0);
  const int64_t begin = index - half + 1, first = std::max<int64_t>(begin, 0),
                count = std::clamp<int64_t>(std::min(index + half + 1, a.in) - first, 0, taps);
  int64_t place = 0;
  for (int64_t t = 0; t < taps; ++t) {
    if (begin + t <= 0)
      place = 0;
    else if (begin + t >= a.in - 1)
      place = count - 1;
    w[place++] += filter(a.mode, static_cast<double>(t + 1 - half) - fraction);
  }
  return first;
}

void launch_axis(Queue& queue, const UpsampleProblem& p, int axis, const void* x, void* y, int64_t outer,
                 int64_t inner) {
  Device& device = queue.device();
  const ByteTable table = byte_table(p, axis);
  Workspace first(queue, table.first.size() * sizeof(int32_t)), weight(queue, table.weight.size() * sizeof(int16_t));
  queue.write(first.data(), table.first.data(), table.first.size() * sizeof(int32_t));
  queue.write(weight.data(), table.weight.data(), table.weight.size() * sizeof(int16_t));
  const AxisShape s{outer, p.input[axis], p.output[axis], inner, table.taps, table.precision};
  Kernel& kernel = site.get(device, 0, [] { return Defines(); });
  const int64_t elements = outer * p.output[axis] * inner;
  const bool cpu = device.cpu_style();
  launch(queue, kernel, cpu ? Range(std::min(elements, cpu_tasks(device, elements, 4096))) : gpu_range(elements),
         Range(cpu ? 1 : 256), x, y, first.data(), weight.data(), s);
}

}  // namespace

ByteTable byte_table(const UpsampleProblem& p, int axis) {
  const Axis a{p.mode, p.input[axis], p.output[axis], scale_of(p, axis), p.align_corners};
  ByteTable table;
  table.taps = width_of(a.mode);
  if (a.antialias()) table.taps = 2 * static_cast<int32_t>(std::ceil(0.5 * table.taps * std::max(1.0, a.scale))) + 1;
  std::vector<double> weights(static_cast<size_t>(a.out * table.taps));
  double greatest = 0;
  for (int64_t o = 0; o < a.out; ++o) {
    double* w = weights.data() + o * table.taps;
    table.first.push_back(static_cast<int32_t>(a.antialias() ? stretched_weights(a, o, table.taps, w)
                                                             : fixed_weights(a, o, table.taps, w)));
    greatest = std::max(greatest, *std::max_element(w, w + table.taps));
  }
  while (table.precision < 22 &&
         static_cast<int>(std::floor(0.5 + greatest * (1 << (table.precision + 1)))) < (1 << 15))
    ++table.precision;
  for (const double w : weights)
    table.weight.push_back(static_cast<int16_t>(static_cast<int>(w * (1 << table.precision) + (w < 0 ? -0.5 : 0.5))));
  return table;
}

void upsample_bytes(Queue& queue, const UpsampleProblem& p, const void* x, void* y) {
  const int64_t planes = p.batch * p.channels, outputs = planes * p.output[1] * p.output[2];
  if (outputs == 0) return;
  const bool across = p.input[2] != p.output[2], down = p.input[1] != p.output[1];
  if (!across && !down) return queue.copy(y, x, static_cast<size_t>(outputs));
  std::optional<Workspace> between;
  void* rows = y;
  if (across && down) rows = between.emplace(queue, static_cast<size_t>(planes * p.input[1] * p.output[2])).data();
  const int64_t pixel = p.channels_last ? p.channels : 1;
  if (across) launch_axis(queue, p, 2, x, rows, planes / pixel * p.input[1], pixel);
  if (down) launch_axis(queue, p, 1, across ? rows : x, y, planes / pixel, p.output[2] * pixel);
}

}  // namespace ocl::ops
