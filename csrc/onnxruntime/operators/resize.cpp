// Resampling of the last one to three dimensions.
#include "onnxruntime/operators/common.h"
#include "ops/upsample/upsample.h"

#include <cmath>

namespace ocl::ort {

namespace {

// Scales or sizes of all dimensions of x.
struct Target {
  Sizes sizes;
  std::vector<double> scales;  // as given; empty where the sizes were
};

Target by_scales(const Sizes& from, const HostTensor& scales) {
  Target t;
  need(scales.count() == static_cast<int64_t>(from.size()), "a scale for every dimension is needed");
  for (size_t d = 0; d < from.size(); ++d) {
    t.scales.push_back(scales.real(d));
    t.sizes.push_back(static_cast<int64_t>(std::floor(static_cast<double>(from[d]) * scales.real(d))));
  }
  return t;
}

void resize_run(Run& run, const Target& target, ops::UpsampleMode mode, bool corners) {
  const TensorView x = run.dense(0);
  need(x.dims >= 3 && x.dims <= 5 && target.sizes.size() == static_cast<size_t>(x.dims), "1 to 3 spatial dimensions");
  need(target.sizes[0] == x.sizes[0] && target.sizes[1] == x.sizes[1], "batch and channels are not resampled");
  ops::UpsampleProblem p;
  p.mode = mode;
  p.dtype = x.dtype;
  p.align_corners = corners;
  p.batch = x.sizes[0], p.channels = x.sizes[1];
  p.resampled = {false, false, false};
  for (int d = 2; d < x.dims; ++d) {
    const auto triple = static_cast<size_t>(3 - (x.dims - 2) + d - 2), i = static_cast<size_t>(d);
    p.input[triple] = x.sizes[d];
    p.output[triple] = target.sizes[i];
    p.resampled[triple] = true;
    p.scale_factor[triple] = target.scales.empty() || corners ? 0 : target.scales[i];
  }
  const TensorView y = run.output(0, x.dtype, target.sizes);
  if (y.numel()) ops::upsample_forward(run.queue(), p, x.data, y.data);
}

// Whether all scales are known and whole numbers.
bool whole_scales(const Node& node) {
  const HostTensor* scales = node.constant(2);
  if (!scales || scales->count() == 0) return false;
  for (size_t d = 0; d < static_cast<size_t>(scales->count()); ++d)
    if (scales->real(d) < 1 || scales->real(d) != std::floor(scales->real(d))) return false;
  return true;
}

// The modes in which the library and ONNX place the source alike.
ops::UpsampleMode mode_of(const Node& node, bool& corners) {
  using ops::UpsampleMode;
  const std::string mode = node.text("mode", "nearest");
  const std::string place = node.text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.text("nearest_mode", "round_prefer_floor");
  corners = place == "align_corners";
  if (mode == "nearest") {
    // where each point becomes a whole number of points all placements and roundings agree
    const bool rounds = rounding == "round_prefer_floor" || rounding == "round_prefer_ceil";
    if (place == "half_pixel" && rounds && whole_scales(node)) return UpsampleMode::nearest;
    need(place == "asymmetric" && rounding == "floor", "nearest points other than asymmetric, floor");
    return UpsampleMode::nearest;
  }
  need(mode == "linear" || mode == "cubic", "this mode");
  need(place == "half_pixel" || place == "pytorch_half_pixel" || corners, "this placement of pixels");
  need(place != "pytorch_half_pixel", "pixels of outputs of size 1");
  need(!corners || node.has(3), "corners of a size that is only known as a scale");
  need(mode == "linear" || node.number("cubic_coeff_a", -0.75f) == -0.75f, "this cubic coefficient");
  return mode == "linear" ? UpsampleMode::linear : UpsampleMode::cubic;
}

Kernel resize(const Node& node) {
  need(node.version >= 11, "opset 10");
  need(node.integer("antialias", 0) == 0 && node.integer("exclude_outside", 0) == 0, "antialiasing, excluded borders");
  need(node.attribute("axes") == nullptr || node.integers("axes").empty(), "axes");
  need(node.text("keep_aspect_ratio_policy", "stretch") == "stretch", "this policy of aspect ratios");
  need(!node.ranked(0) || (node.rank(0) >= 3 && node.rank(0) <= 5), "1 to 3 spatial dimensions");
  const HostTensor* scales = node.constant(2);
  const HostTensor* given = node.constant(3);
  if (scales && scales->count() > 0)
    for (size_t d = 0; d < 2; ++d) need(scales->real(d) == 1, "batch and channels are not resampled");
  if (given && node.ranked(0))
    for (size_t d = 0; d < 2; ++d)
      need(node.inputs[0].sizes[d] < 0 || given->integer(d) == node.inputs[0].sizes[d], "batch and channels are kept");
  bool corners = false;
  const ops::UpsampleMode mode = mode_of(node, corners);
  return [=](Run& run) {
    if (run.has(3) && run.sizes(3) != Sizes{0}) return resize_run(run, {run.host(3).integers, {}}, mode, corners);
    resize_run(run, by_scales(run.sizes(0), run.host(2)), mode, corners);
  };
}

Kernel upsample(const Node& node) {
  need(node.version == 9 && node.text("mode", "nearest") == "nearest", "other than opset 9, nearest");
  const HostTensor* scales = node.constant(1);
  need(!node.ranked(0) || (node.rank(0) >= 3 && node.rank(0) <= 5), "1 to 3 spatial dimensions");
  if (scales)
    for (size_t d = 0; d < 2; ++d) need(scales->real(d) == 1, "batch and channels are not resampled");
  return [](Run& run) { resize_run(run, by_scales(run.sizes(0), run.host(1)), ops::UpsampleMode::nearest, false); };
}

constexpr Operator rows[] = {
    {"Resize", floats, resize},
    {"Upsample", floats, upsample},
};

}  // namespace

std::span<const Operator> resize_operators() { return rows; }

}  // namespace ocl::ort
