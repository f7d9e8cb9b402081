#include "ops/conv/gather.h"

#include <algorithm>
#include <numeric>

namespace ocl::ops {
namespace {

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// From one tap of a filter to the next in each dimension.
std::array<int64_t, 3> tap_strides(const ConvProblem& p) {
  const int64_t tap = p.filters_last ? p.in_per_group() : 1;
  return {p.kernel[1] * p.kernel[2] * tap, p.kernel[2] * tap, tap};
}

}  // namespace

Gather forward_gather(const ConvProblem& p) {
  Gather g{};
  g.groups = p.groups;
  GatherShape& s = g.shape;
  s.x_plane = p.in_pixels();
  s.x_image = p.in_channels * s.x_plane;
  s.batch = narrow(p.batch), s.in_channels = narrow(p.in_per_group()), s.out_channels = narrow(p.out_per_group());
  for (int d = 0; d < 3; ++d) {
    s.input[d] = narrow(p.input[d]), s.output[d] = narrow(p.output[d]), s.kernel_size[d] = narrow(p.kernel[d]);
    s.stride[d] = narrow(p.stride[d]), s.padding[d] = narrow(p.padding[d]), s.dilation[d] = narrow(p.dilation[d]);
  }
  const int64_t depth = p.in_per_group() * p.taps();
  const auto place = tap_strides(p);
  g.weights = {p.out_per_group() * depth,
               depth,
               p.filters_last ? 1 : p.taps(),
               0,
               {narrow(place[0]), narrow(place[1]), narrow(place[2])}};
  return g;
}

Gather backward_data_gather(const ConvProblem& p, const std::array<int64_t, 3>& residue) {
  Gather g{};
  g.groups = p.groups;
  GatherShape& s = g.shape;
  s.x_plane = p.out_pixels();
  s.x_image = p.out_channels * s.x_plane;
  s.batch = narrow(p.batch), s.in_channels = narrow(p.out_per_group()), s.out_channels = narrow(p.in_per_group());
  const int64_t taps = p.taps();
  const auto place = tap_strides(p);
  g.weights = {p.out_per_group() * p.in_per_group() * taps, p.filters_last ? 1 : taps, p.in_per_group() * taps, 0, {}};
  for (int d = 0; d < 3; ++d) {
    const int64_t stride = p.stride[d], dilation = p.dilation[d];
    s.input[d] = narrow(p.output[d]);
    s.output[d] = narrow(std::max<int64_t>(0, ceil_div(p.input[d] - residue[d] + stride, stride) - 1));
    s.stride[d] = 1;
    // Taps first, first + step, ... satisfy (residue + padding - tap * dilation) % stride == 0.
    const int64_t step = stride / std::gcd(stride, dilation);
    int64_t first = 0;
    while (first < step && (residue[d] + p.padding[d] - first * dilation) % stride != 0) ++first;
    const int64_t count = first < step && first < p.kernel[d] ? (p.kernel[d] - 1 - first) / step + 1 : 0;
    s.kernel_size[d] = narrow(count);
    s.dilation[d] = narrow(step * dilation / stride);
    if (count == 0) continue;
    const int64_t offset = (residue[d] + p.padding[d] - first * dilation) / stride;
    s.padding[d] = narrow((count - 1) * s.dilation[d] - offset);
    g.weights.base += narrow((first + (count - 1) * step) * place[d]);
    g.weights.tap[d] = narrow(-step * place[d]);
  }
  return g;
}

Gather flatten_pointwise(Gather g) {
  GatherShape& s = g.shape;
  for (int d = 0; d < 3; ++d)
    if (s.kernel_size[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0 || s.input[d] != s.output[d]) return g;
  s.input[2] = s.output[2] = narrow(s.x_plane);
  s.input[0] = s.input[1] = s.output[0] = s.output[1] = 1;
  return g;
}

int stride_class(const GatherShape& s) {
  return s.stride[2] == 1 || s.stride[2] == 2 || s.stride[2] == 4 ? s.stride[2] : 0;
}

bool is_volume(const GatherShape& s) { return s.input[0] > 1 || s.output[0] > 1 || s.kernel_size[0] > 1; }

bool balanced(int64_t tasks, int64_t cores) { return tasks >= 4 * cores && (tasks % cores == 0 || tasks >= 8 * cores); }

int64_t balanced_shares(int64_t tasks, int64_t cores, int64_t least, int64_t most) {
  const int64_t step = cores / std::gcd(tasks, cores);  // shares whose tasks are a multiple of the cores
  const int64_t even = round_up(std::max(least, ceil_div(4 * cores, tasks)), step), many = ceil_div(8 * cores, tasks);
  return std::max(least, std::min({even, many, most}));
}

}  // namespace ocl::ops
