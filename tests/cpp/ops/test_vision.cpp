#include "ops/vision/deform_conv.h"
#include "ops/vision/nms.h"
#include "ops/vision/roi_align.h"
#include "support.h"

#include <algorithm>
#include <numeric>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// ---- non-maximum suppression

std::vector<float> random_boxes(int count, unsigned seed) {
  std::vector<float> boxes = random_values<float>(4 * count, seed, 0, 10);
  for (int i = 0; i < count; ++i)
    for (int axis = 0; axis < 2; ++axis)
      boxes[4 * i + 2 + axis] = boxes[4 * i + axis] + 1 + boxes[4 * i + 2 + axis] / 2;
  return boxes;
}

std::vector<int64_t> greedy(const std::vector<float>& b, const std::vector<int64_t>& order, double threshold) {
  std::vector<int64_t> kept;
  for (int64_t j : order) {
    bool covered = false;
    for (int64_t i : kept) {
      const float width = std::max(0.f, std::min(b[4 * i + 2], b[4 * j + 2]) - std::max(b[4 * i], b[4 * j]));
      const float height = std::max(0.f, std::min(b[4 * i + 3], b[4 * j + 3]) - std::max(b[4 * i + 1], b[4 * j + 1]));
      const float common = width * height;
      const float own = (b[4 * i + 2] - b[4 * i]) * (b[4 * i + 3] - b[4 * i + 1]),
                  other = (b[4 * j + 2] - b[4 * j]) * (b[4 * j + 3] - b[4 * j + 1]);
      covered = covered || common / (own + other - common) > threshold;
    }
    if (!covered) kept.push_back(j);
  }
  return kept;
}

std::vector<int64_t> nms_on_device(const std::vector<float>& boxes, const std::vector<int64_t>& order,
                                   double threshold) {
  const auto count = static_cast<int64_t>(order.size());
  Array<float> b(boxes);
  Array<int64_t> o(order), kept(order.size() + 1), kept_count(1);
  nms(queue(), DType::float32, count, kept.data(), kept_count.data(), b.data(), o.data(), threshold);
  auto result = kept.host();
  result.resize(static_cast<size_t>(kept_count.host()[0]));
  return result;
}

}  // namespace

TEST(Vision, NmsKeepsWhatTheGreedyAlgorithmKeeps) {
  for (int count : {1, 15, 64, 65, 130, 700})
    for (double threshold : {0.1, 0.3, 0.7}) {
      const auto boxes = random_boxes(count, static_cast<unsigned>(count));
      std::vector<int64_t> order(static_cast<size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(3));
      EXPECT_EQ(nms_on_device(boxes, order, threshold), greedy(boxes, order, threshold))
          << count << " boxes, threshold " << threshold;
    }
}

TEST(Vision, NmsComparesWithTheThresholdItWasGiven) {
  // Overlap of the float nearest to 0.1, which is larger than the double 0.1: the second box is covered.
  const std::vector<float> boxes{0, 0, 10, 1, 0, 0, 1, 1};
  EXPECT_EQ(nms_on_device(boxes, {0, 1}, 0.1), (std::vector<int64_t>{0}));
  EXPECT_EQ(nms_on_device(boxes, {0, 1}, static_cast<double>(0.1f)), (std::vector<int64_t>{0, 1}));
}

TEST(Vision, NmsOfNothingKeepsNothing) { EXPECT_TRUE(nms_on_device({}, {}, 0.5).empty()); }

namespace {

// ---- regions

// Bilinear sample as torchvision defines it.
double sample(const float* plane, int64_t height, int64_t width, double y, double x) {
  if (y < -1 || y > height || x < -1 || x > width) return 0;
  y = std::max(y, 0.), x = std::max(x, 0.);
  const int64_t top = std::min<int64_t>(static_cast<int64_t>(y), height - 1),
                left = std::min<int64_t>(static_cast<int64_t>(x), width - 1);
  const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
  const double down = top == height - 1 ? 0 : y - top, along = left == width - 1 ? 0 : x - left;
  return (1 - down) * ((1 - along) * plane[top * width + left] + along * plane[top * width + right]) +
         down * ((1 - along) * plane[bottom * width + left] + along * plane[bottom * width + right]);
}

std::vector<double> roi_reference(const RoiAlign& p, const std::vector<float>& image,
                                  const std::vector<float>& regions) {
  std::vector<double> output;
  for (int64_t i = 0; i < p.regions; ++i)
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t by = 0; by < p.bins_y; ++by)
        for (int64_t bx = 0; bx < p.bins_x; ++bx) {
          const float* r = &regions[static_cast<size_t>(5 * i)];
          const double shift = p.aligned ? 0.5 : 0, x = r[1] * p.scale - shift, y = r[2] * p.scale - shift;
          double w = r[3] * p.scale - shift - x, h = r[4] * p.scale - shift - y;
          if (!p.aligned) w = std::max(w, 1.), h = std::max(h, 1.);
          const double bin_w = w / p.bins_x, bin_h = h / p.bins_y;
          const int64_t nx = p.sampling_ratio > 0 ? p.sampling_ratio : static_cast<int64_t>(std::ceil(bin_w));
          const int64_t ny = p.sampling_ratio > 0 ? p.sampling_ratio : static_cast<int64_t>(std::ceil(bin_h));
          const float* plane =
              &image[static_cast<size_t>((static_cast<int64_t>(r[0]) * p.channels + c) * p.height * p.width)];
          double sum = 0;
          for (int64_t iy = 0; iy < ny; ++iy)
            for (int64_t ix = 0; ix < nx; ++ix)
              sum += sample(plane, p.height, p.width, y + by * bin_h + (iy + 0.5) * bin_h / ny,
                            x + bx * bin_w + (ix + 0.5) * bin_w / nx);
          output.push_back(sum / static_cast<double>(std::max<int64_t>(ny * nx, 1)));
        }
  return output;
}

RoiAlign roi_case(int64_t ratio, bool aligned, int64_t channels) {
  RoiAlign p;
  p.batch = 2, p.channels = channels, p.height = 11, p.width = 13, p.regions = 6, p.bins_y = 3, p.bins_x = 5;
  p.scale = 0.5, p.sampling_ratio = ratio, p.aligned = aligned;
  return p;
}

const std::vector<float> kRegions{0, 1,  2,  20, 17, 1, -9, -6, 12, 9,  1, 3,    4,    3.5f, 4.25f,
                                  0, 22, 20, 60, 50, 1, 0,  0,  26, 22, 0, 5.5f, 5.5f, 5.5f, 5.5f};

}  // namespace

TEST(Vision, RoiAlignMatchesTheFormula) {
  for (int64_t ratio : {0, 1, 2})
    for (bool aligned : {false, true})
      for (int64_t channels : {1, 16, 19}) {
        const RoiAlign p = roi_case(ratio, aligned, channels);
        const auto image = random_values<float>(static_cast<size_t>(2 * channels * 11 * 13));
        Array<float> in(image), regions(kRegions), out(static_cast<size_t>(6 * channels * 15));
        roi_align(queue(), p, out.data(), in.data(), regions.data());
        EXPECT_LT(relative_error(out.host(), roi_reference(p, image, kRegions)), 1e-4) << ratio << aligned << channels;
      }
}

TEST(Vision, RoiAlignGradientIsTheTransposedMap) {
  for (int64_t ratio : {0, 2})
    for (bool aligned : {false, true})
      for (bool deterministic : {false, true}) {
        const RoiAlign p = roi_case(ratio, aligned, 5);
        const auto g = random_values<float>(6 * 5 * 15, 4);
        Array<float> grad(g), regions(kRegions), sum(std::vector<float>(2 * 5 * 11 * 13, 0.f));
        roi_align_backward(queue(), p, sum.data(), grad.data(), regions.data(), deterministic);
        std::vector<double> expected;
        for (size_t i = 0; i < sum.size(); ++i) {
          std::vector<float> unit(sum.size(), 0.f);
          unit[i] = 1;
          const auto column = roi_reference(p, unit, kRegions);
          double value = 0;
          for (size_t k = 0; k < g.size(); ++k) value += column[k] * g[k];
          expected.push_back(value);
        }
        EXPECT_LT(relative_error(sum.host(), expected), 1e-4) << ratio << aligned << deterministic;
      }
}

TEST(Vision, RegionsOfNoImageGiveZero) {
  RoiAlign p = roi_case(2, false, 3);
  p.regions = 4;
  Array<float> in(std::vector<float>(2 * 3 * 11 * 13, 1.f)), out(4 * 3 * 15);
  Array<float> regions(std::vector<float>{2, 1, 1, 9, 9, -1, 1, 1, 9, 9, 0, NAN, 1, 9, 9, 0, 1, 1, INFINITY, 9});
  roi_align(queue(), p, out.data(), in.data(), regions.data());
  EXPECT_EQ(out.host(), std::vector<float>(4 * 3 * 15, 0.f));
  Array<float> sum(std::vector<float>(in.size(), 0.f)), grad(std::vector<float>(out.size(), 1.f));
  for (bool deterministic : {false, true})
    roi_align_backward(queue(), p, sum.data(), grad.data(), regions.data(), deterministic);
  EXPECT_EQ(sum.host(), std::vector<float>(in.size(), 0.f));
}

namespace {

// ---- deformable convolution

DeformConv deform_case() {
  DeformConv p;
  p.batch = 2, p.channels = 6, p.height = 7, p.width = 9, p.kernel_height = 3, p.kernel_width = 2;
  p.stride_y = 2, p.stride_x = 1, p.padding_y = 1, p.padding_x = 2, p.dilation_y = 1, p.dilation_x = 3, p.groups = 2;
  p.output_height = (7 + 2 - 3) / 2 + 1, p.output_width = (9 + 4 - 4) / 1 + 1;
  return p;
}

struct DeformData {
  DeformConv p = deform_case();
  size_t samples = static_cast<size_t>(p.batch * p.groups * p.taps() * p.pixels());
  size_t columns = static_cast<size_t>(p.batch * p.channels * p.taps() * p.pixels());
  std::vector<float> image = random_values<float>(static_cast<size_t>(p.batch * p.channels * p.height * p.width), 1);
  std::vector<float> offset = random_values<float>(2 * samples, 2, -2.5, 2.5),
                     mask = random_values<float>(samples, 3, 0, 1);
  std::vector<float> grad = random_values<float>(columns, 4);
};

// sum(columns * grad), in double.
double deform_sum(const DeformData& d, const std::vector<float>& image, const std::vector<double>& offset,
                  const std::vector<double>& mask) {
  const DeformConv& p = d.p;
  double total = 0;
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t k = 0; k < p.taps(); ++k)
        for (int64_t i = 0; i < p.pixels(); ++i) {
          const int64_t group = n * p.groups + c / (p.channels / p.groups),
                        at = (group * p.taps() + k) * p.pixels() + i;
          const int64_t pair = (group * p.taps() + k) * 2 * p.pixels() + i;
          const double y =
              static_cast<double>(i / p.output_width * p.stride_y - p.padding_y + k / p.kernel_width * p.dilation_y) +
              offset[pair];
          const double x =
              static_cast<double>(i % p.output_width * p.stride_x - p.padding_x + k % p.kernel_width * p.dilation_x) +
              offset[pair + p.pixels()];
          double value = 0;
          for (int64_t row = 0; row < p.height; ++row)
            for (int64_t column = 0; column < p.width; ++column)
              value += std::max(0., 1 - std::abs(y - static_cast<double>(row))) *
                       std::max(0., 1 - std::abs(x - static_cast<double>(column))) *
                       image[static_cast<size_t>(((n * p.channels + c) * p.height + row) * p.width + column)];
          total +=
              value * mask[at] * d.grad[static_cast<size_t>(((n * p.channels + c) * p.taps() + k) * p.pixels() + i)];
        }
  return total;
}

}  // namespace

TEST(Vision, DeformColumnsAndGradientsMatchDifferences) {
  const DeformData d;
  const std::vector<double> offset(d.offset.begin(), d.offset.end()), mask(d.mask.begin(), d.mask.end());
  Array<float> image(d.image), moved(d.offset), scaled(d.mask), grad(d.grad), columns(d.columns),
      grad_offset(d.offset.size()), grad_mask(d.samples);
  deform_columns(queue(), d.p, columns.data(), image.data(), moved.data(), scaled.data());
  const auto found = columns.host();
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) sum += static_cast<double>(found[i]) * d.grad[i];
  EXPECT_NEAR(sum, deform_sum(d, d.image, offset, mask), 1e-3);

  deform_offset_gradient(queue(), d.p, grad_offset.data(), grad_mask.data(), grad.data(), image.data(), moved.data(),
                         scaled.data());
  const auto go = grad_offset.host(), gm = grad_mask.host();
  for (size_t i = 0; i < offset.size(); i += 29) {
    const double distance = std::abs(offset[i] - std::round(offset[i]));
    if (distance < 1e-3) continue;  // a kink
    auto up = offset, down = offset;
    up[i] += 1e-4, down[i] -= 1e-4;
    EXPECT_NEAR(go[i], (deform_sum(d, d.image, up, mask) - deform_sum(d, d.image, down, mask)) / 2e-4, 1e-3) << i;
  }
  for (size_t i = 0; i < mask.size(); i += 23) {
    auto up = mask, down = mask;
    up[i] += 0.5, down[i] -= 0.5;
    EXPECT_NEAR(gm[i], deform_sum(d, d.image, offset, up) - deform_sum(d, d.image, offset, down), 1e-3) << i;
  }
  for (bool deterministic : {false, true}) {
    Array<float> grad_image(std::vector<float>(d.image.size(), 0.f));
    deform_image_gradient(queue(), d.p, grad_image.data(), grad.data(), moved.data(), scaled.data(), deterministic);
    const auto gi = grad_image.host();
    for (size_t i = 0; i < gi.size(); i += 31) {
      auto up = d.image, down = d.image;
      up[i] += 0.5f, down[i] -= 0.5f;
      EXPECT_NEAR(gi[i], deform_sum(d, up, offset, mask) - deform_sum(d, down, offset, mask), 1e-3) << i;
    }
  }
}

TEST(Vision, DeformWithoutMaskOrInRangeTapsReadsNothingWrong) {
  DeformData d;
  d.offset.assign(d.offset.size(), 1e30f);
  d.offset[0] = NAN;
  Array<float> image(d.image), moved(d.offset), columns(d.columns);
  deform_columns(queue(), d.p, columns.data(), image.data(), moved.data(), nullptr);
  EXPECT_EQ(columns.host(), std::vector<float>(d.columns, 0.f));
}
