// NonMaxSuppression, chosen on the host: which boxes are kept decides sizes of what follows.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"

#include <algorithm>

namespace ocl::ort {

namespace {

struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
  float area() const { return (right - left) * (bottom - top); }
};

// Corners in any order, or a centre with width and height.
Box box_at(const HostTensor& boxes, size_t at, bool centre) {
  const auto number = [&](size_t i) { return static_cast<float>(boxes.reals[at + i]); };
  if (centre) {
    const float x = number(0), y = number(1), width = number(2) / 2, height = number(3) / 2;
    return {x - width, y - height, x + width, y + height};
  }
  const auto [top, bottom] = std::minmax({number(0), number(2)});
  const auto [left, right] = std::minmax({number(1), number(3)});
  return {left, top, right, bottom};
}

bool overlaps(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  const float common = width * height;
  return common / (a.area() + b.area() - common) > threshold;
}

struct Limits {
  int64_t most = 0;
  float overlap = 0;
  bool has_score = false;
  float score = 0;
};

// Indices of the boxes of one class that are kept, the best first.
std::vector<int64_t> kept(const std::vector<Box>& boxes, std::span<const double> scores, const Limits& limits) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < scores.size(); ++i)
    if (!limits.has_score || static_cast<float>(scores[i]) > limits.score) order.push_back(static_cast<int64_t>(i));
  std::ranges::stable_sort(
      order, [&](int64_t a, int64_t b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
  std::vector<int64_t> chosen;
  for (const int64_t i : order) {
    if (static_cast<int64_t>(chosen.size()) >= limits.most) break;
    const Box& box = boxes[static_cast<size_t>(i)];
    const auto hides = [&](int64_t j) { return overlaps(boxes[static_cast<size_t>(j)], box, limits.overlap); };
    if (std::ranges::none_of(chosen, hides)) chosen.push_back(i);
  }
  return chosen;
}

Kernel suppression(const Node& node) {
  const bool centre = node.integer("center_point_box", 0) != 0;
  return [centre](Run& run) {
    const HostTensor boxes = run.host(0), scores = run.host(1);
    const Sizes s = scores.sizes;
    need(s.size() == 3 && boxes.sizes == Sizes({s[0], s[2], 4}), "boxes and scores do not fit");
    Limits limits;
    limits.most = run.has(2) ? run.host(2).integer(0) : 0;
    limits.overlap = run.has(3) ? static_cast<float>(run.host(3).real(0)) : 0;
    limits.has_score = run.has(4);
    if (limits.has_score) limits.score = static_cast<float>(run.host(4).real(0));
    HostTensor result{DType::int64, {0, 3}, {}, {}};
    const auto count = static_cast<size_t>(s[2]);
    std::vector<Box> corners(count);
    for (int64_t b = 0; b < s[0]; ++b) {
      for (size_t i = 0; i < count; ++i) corners[i] = box_at(boxes, (static_cast<size_t>(b) * count + i) * 4, centre);
      for (int64_t c = 0; c < s[1]; ++c) {
        const std::span of_class = std::span(scores.reals).subspan(static_cast<size_t>(b * s[1] + c) * count, count);
        for (const int64_t i : kept(corners, of_class, limits)) {
          result.integers.insert(result.integers.end(), {b, c, i});
          ++result.sizes[0];
        }
      }
    }
    run.give(0, std::move(result));
  };
}

constexpr Operator rows[] = {{"NonMaxSuppression", TypeSet{DType::float32}, suppression, 10}};

}  // namespace

std::span<const Operator> detection_operators() { return rows; }

}  // namespace ocl::ort
