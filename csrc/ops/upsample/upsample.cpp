#include "ops/upsample/upsample.h"

#include "ops/core/lanes.h"
#include "params/upsample.h"
#include "params/upsample_tables.h"

#include <climits>
#include <cmath>

namespace ocl::ops {
namespace {

using params::TableShape;
using params::UpsampleShape;

int64_t volume(const std::array<int64_t, 3>& size) { return size[0] * size[1] * size[2]; }

// Inputs per output of an axis, without widening.
int taps_of(UpsampleMode mode) {
  switch (mode) {
    case UpsampleMode::linear:
    case UpsampleMode::linear_antialias: return 2;
    case UpsampleMode::cubic:
    case UpsampleMode::cubic_antialias: return 4;
    case UpsampleMode::lanczos_antialias: return 6;
    default: return 1;
  }
}

// Inputs per output.
template <class T>
T scale_of(const UpsampleProblem& p, int d) {
  const T in = static_cast<T>(p.input[d]), out = static_cast<T>(p.output[d]);
  if (p.align_corners) return p.output[d] > 1 ? (in - 1) / (out - 1) : T{0};
  return p.scale_factor[d] > 0 ? static_cast<T>(1.0 / p.scale_factor[d]) : in / out;
}

// Taps of an axis: of a filter that is widened by the scale, an upper bound.
int32_t taps_of(const UpsampleProblem& p, int d) {
  if (!p.resampled[d]) return 1;
  if (p.mode < UpsampleMode::linear_antialias) return taps_of(p.mode);
  const double support = 0.5 * taps_of(p.mode) * std::max(1.0, scale_of<double>(p, d));
  return 2 * static_cast<int32_t>(std::ceil(support * (1 + 1e-6))) + 1;
}

UpsampleShape make_shape(const UpsampleProblem& p) {
  require(volume(p.input) <= INT_MAX && volume(p.output) <= INT_MAX,
          "upsample: planes of 2^31 elements and more are not supported");
  UpsampleShape s{p.batch, p.channels, volume(p.input), volume(p.output), {}, {}, {}, {}, {}, 0};
  int32_t taps = 0, ranges = 0;
  for (int d = 0; d < 3; ++d) {
    s.in[d] = static_cast<int32_t>(p.input[d]);
    s.out[d] = static_cast<int32_t>(p.output[d]);
    s.taps[d] = taps_of(p, d);
    s.tap_base[d] = taps;
    s.range_base[d] = ranges;
    taps += s.out[d] * s.taps[d];
    ranges += 2 * s.in[d];
  }
  return s;
}

template <class T>
TableShape<T> table_shape(const UpsampleProblem& p, const UpsampleShape& s) {
  TableShape<T> t{};
  for (int d = 0; d < 3; ++d) {
    t.in[d] = s.in[d], t.out[d] = s.out[d], t.taps[d] = s.taps[d], t.tap_base[d] = s.tap_base[d],
    t.range_base[d] = s.range_base[d];
    const double factor = p.scale_factor[d];
    t.scale[d] = scale_of<T>(p, d);
    t.nearest_scale[d] =
        factor > 0 ? static_cast<float>(1.0 / factor) : static_cast<float>(s.in[d]) / static_cast<float>(s.out[d]);
  }
  t.mode = static_cast<int32_t>(p.mode);
  t.align_corners = p.align_corners;
  return t;
}

KernelSite tables_site("upsample/tables.cl", "make_tables");
KernelSite elements_forward("upsample/elements.cl", "upsample_forward"),
    elements_backward("upsample/elements.cl", "upsample_backward");
KernelSite planes_forward("upsample/planes.cpu.cl", "planes_forward"),
    planes_backward("upsample/planes.cpu.cl", "planes_backward");
KernelSite channels_forward("upsample/planes.cpu.cl", "channels_forward"),
    channels_backward("upsample/planes.cpu.cl", "channels_backward");

Kernel& kernel(KernelSite& site, Device& device, const UpsampleProblem& p) {
  return site.get(device, Variant().add(p.dtype).add(p.channels_last, 1),
                  [&] { return lane_defines(p.dtype).add("CHANNELS_LAST", p.channels_last); });
}

// Taps and weights of all axes on the device.
struct Tables {
  Workspace index, weight, ranges;

  Tables(Queue& queue, const UpsampleProblem& p, const UpsampleShape& s)
      : index(queue, 4 * entries(s)),
        weight(queue, acc_bytes(p.dtype) * entries(s)),
        ranges(queue, 8 * (p.input[0] + p.input[1] + p.input[2])) {
    Device& device = queue.device();
    int64_t longest = 1;
    for (int d = 0; d < 3; ++d) longest = std::max({longest, p.input[d], p.output[d]});
    Kernel& k = tables_site.get(device, Variant().add(lanes_of(p.dtype) == 8, 1),
                                [&] { return Defines().add("LANES", lanes_of(p.dtype)); });
    with_acc(p.dtype, [&](auto zero) {
      const Range global = device.cpu_style() ? Range(ceil_div(longest, 256), 3) : Range(round_up(longest, 64), 3);
      launch(queue, k, global, device.cpu_style() ? Range(1, 1) : Range(64, 1), index.data(), weight.data(),
             ranges.data(), table_shape<decltype(zero)>(p, s));
    });
  }
  static int64_t entries(const UpsampleShape& s) { return s.tap_base[2] + int64_t{s.out[2]} * s.taps[2]; }
};

LocalMemory row_buffer(const UpsampleProblem& p) {
  return {static_cast<size_t>(round_up(p.input[2], 16)) * acc_bytes(p.dtype)};
}

bool row_fits(const Device& device, const UpsampleProblem& p) {
  return row_buffer(p).bytes <= device.capabilities().local_memory / 2;
}

void launch_elements(Queue& queue, Kernel& k, int64_t elements, int64_t work, const auto&... arguments) {
  if (queue.device().cpu_style())
    launch(queue, k, Range(std::min(elements, cpu_tasks(queue.device(), work))), Range(1), arguments...);
  else
    launch(queue, k, gpu_range(elements), Range(256), arguments...);
}

void check(const Device& device, const UpsampleProblem& p) {
  if (p.dtype != DType::uint8 || taps_of(p.mode) > 1) require_floating(device, p.dtype, "upsample");
}

}  // namespace

void upsample_forward(Queue& queue, const UpsampleProblem& p, const void* x, void* y) {
  Device& device = queue.device();
  check(device, p);
  const UpsampleShape s = make_shape(p);
  const int64_t outputs = p.batch * p.channels * s.out_plane;
  if (outputs == 0) return;
  const Tables t(queue, p, s);
  if (device.cpu_style() && p.channels_last)
    launch(queue, kernel(channels_forward, device, p),
           Range(std::min(p.batch * s.out_plane, cpu_tasks(device, outputs, 4096))), Range(1), x, y, t.index.data(),
           t.weight.data(), t.ranges.data(), s);
  else if (device.cpu_style() && row_fits(device, p))
    launch(queue, kernel(planes_forward, device, p),
           Range(std::min(p.batch * p.channels * p.output[0] * p.output[1], cpu_tasks(device, outputs, 8192))),
           Range(1), x, y, t.index.data(), t.weight.data(), t.ranges.data(), s, row_buffer(p));
  else
    launch_elements(queue, kernel(elements_forward, device, p), outputs, outputs, x, y, t.index.data(), t.weight.data(),
                    t.ranges.data(), s);
}

void upsample_backward(Queue& queue, const UpsampleProblem& p, const void* grad, void* dx) {
  Device& device = queue.device();
  check(device, p);
  const UpsampleShape s = make_shape(p);
  const int64_t inputs = p.batch * p.channels * s.in_plane, work = std::max(inputs, p.batch * p.channels * s.out_plane);
  if (inputs == 0) return;
  const Tables t(queue, p, s);
  if (device.cpu_style() && p.channels_last)
    launch(queue, kernel(channels_backward, device, p),
           Range(std::min(p.batch * s.in_plane, cpu_tasks(device, work, 4096))), Range(1), grad, dx, t.index.data(),
           t.weight.data(), t.ranges.data(), s);
  else if (device.cpu_style() && !is_half(p.dtype) && row_fits(device, p))
    launch(queue, kernel(planes_backward, device, p),
           Range(std::min(p.batch * p.channels, cpu_tasks(device, work, 8192))), Range(1), grad, dx, t.index.data(),
           t.weight.data(), t.ranges.data(), s, row_buffer(p));
  else
    launch_elements(queue, kernel(elements_backward, device, p), inputs, work, grad, dx, t.index.data(),
                    t.weight.data(), t.ranges.data(), s);
}

}  // namespace ocl::ops
