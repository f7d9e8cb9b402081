// Winograd convolutions against direct sums in float64.
#include "support.h"

#include "ops/conv/winograd.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Shape {
  int64_t batch, in_channels, out_channels, height, width, pad_h, pad_w;
};

ConvProblem problem_of(const Shape& s, int64_t taps, DType type = DType::float32) {
  ConvProblem p;
  p.dtype = type;
  p.batch = s.batch;
  p.in_channels = s.in_channels;
  p.out_channels = s.out_channels;
  p.input = {1, s.height, s.width};
  p.kernel = {1, taps, taps};
  p.padding = {0, s.pad_h, s.pad_w};
  p.output = {1, s.height + 2 * s.pad_h - taps + 1, s.width + 2 * s.pad_w - taps + 1};
  return p;
}

// Calls f(x index, w index, y index) for every product of the convolution.
template <class F>
void for_each_product(const ConvProblem& p, F&& f) {
  const int64_t taps = p.kernel[1], height = p.input[1], width = p.input[2], out_h = p.output[1], out_w = p.output[2];
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t o = 0; o < p.out_channels; ++o)
      for (int64_t c = 0; c < p.in_channels; ++c)
        for (int64_t kh = 0; kh < taps; ++kh)
          for (int64_t kw = 0; kw < taps; ++kw)
            for (int64_t oy = 0; oy < out_h; ++oy) {
              const int64_t y = oy + kh - p.padding[1];
              if (y < 0 || y >= height) continue;
              for (int64_t ox = 0; ox < out_w; ++ox) {
                const int64_t x = ox + kw - p.padding[2];
                if (x < 0 || x >= width) continue;
                f(((n * p.in_channels + c) * height + y) * width + x, ((o * p.in_channels + c) * taps + kh) * taps + kw,
                  ((n * p.out_channels + o) * out_h + oy) * out_w + ox);
              }
            }
}

std::vector<double> reference(ConvPass pass, const ConvProblem& p, const std::vector<float>& x, const std::vector<float>& w,
                              const std::vector<float>& y, const std::vector<float>& bias) {
  std::vector<double> result(pass == ConvPass::forward ? p.y_numel() : pass == ConvPass::backward_data ? p.x_numel() : p.w_numel(), 0.0);
  if (pass == ConvPass::forward) {
    if (!bias.empty())
      for (size_t i = 0; i < result.size(); ++i) result[i] = bias[i / p.out_pixels() % p.out_channels];
    for_each_product(p, [&](int64_t ix, int64_t iw, int64_t iy) { result[iy] += double(x[ix]) * w[iw]; });
  } else if (pass == ConvPass::backward_data) {
    for_each_product(p, [&](int64_t ix, int64_t iw, int64_t iy) { result[ix] += double(y[iy]) * w[iw]; });
  } else {
    for_each_product(p, [&](int64_t ix, int64_t iw, int64_t iy) { result[iw] += double(x[ix]) * y[iy]; });
  }
  return result;
}

// An array whose neighbouring memory on both sides holds infinities.
class Guarded {
 public:
  explicit Guarded(const std::vector<float>& values) : size_(values.size()), memory_(surrounded(values)) {}
  float* data() const { return memory_.data() + margin; }
  std::vector<float> host() const {
    auto all = memory_.host();
    return {all.begin() + margin, all.begin() + margin + size_};
  }
  bool intact() const {
    auto all = memory_.host();
    for (size_t i = 0; i < margin; ++i)
      if (all[i] != INFINITY || all[margin + size_ + i] != INFINITY) return false;
    return true;
  }

 private:
  static constexpr size_t margin = 1024;
  static std::vector<float> surrounded(const std::vector<float>& values) {
    std::vector<float> all(values.size() + 2 * margin, INFINITY);
    std::copy(values.begin(), values.end(), all.begin() + margin);
    return all;
  }
  size_t size_;
  Array<float> memory_;
};

void run(const ConvAlgorithm& algorithm, const ConvProblem& p, const ConvOperands& operands) {
  const size_t bytes = algorithm.workspace(p, device());
  Workspace workspace(queue(), bytes);
  queue().fill(workspace.data(), "\xff\xff\xff\xff", 4, bytes / 4 * 4);  // NaN: everything that is read must have been written
  algorithm.run(queue(), p, operands, workspace.data());
}

// Largest error over rms of one pass; the result starts as NaN, every operand lies between infinities.
double error_of(const ConvAlgorithm& algorithm, const ConvProblem& p, bool with_bias = true) {
  const auto x = random_values<float>(p.x_numel(), 1), w = random_values<float>(p.w_numel(), 2), y = random_values<float>(p.y_numel(), 3);
  const auto bias = with_bias && algorithm.pass == ConvPass::forward ? random_values<float>(p.out_channels, 4) : std::vector<float>();
  const auto poison = [&](const std::vector<float>& values, ConvPass computed_by) {
    return Guarded(algorithm.pass == computed_by ? std::vector<float>(values.size(), NAN) : values);
  };
  Guarded dx = poison(x, ConvPass::backward_data), dw = poison(w, ConvPass::backward_weight), dy = poison(y, ConvPass::forward), db(bias);
  run(algorithm, p, {dx.data(), dw.data(), dy.data(), bias.empty() ? nullptr : db.data()});
  EXPECT_TRUE(dx.intact() && dw.intact() && dy.intact()) << algorithm.name;
  const Guarded& result = algorithm.pass == ConvPass::forward ? dy : algorithm.pass == ConvPass::backward_data ? dx : dw;
  return relative_error(result.host(), reference(algorithm.pass, p, x, w, y, bias));
}

int64_t taps_of(const ConvAlgorithm& algorithm) { return std::string(algorithm.name).find("5x5") != std::string::npos ? 5 : 3; }

double tolerance(const ConvAlgorithm& algorithm) {
  if (taps_of(algorithm) == 5) return 5e-4;
  return std::string(algorithm.name).find("f4x4") != std::string::npos ? 2e-4 : 1e-5;
}

// batch, channels in and out, height, width, padding: square and ragged tiles, one pixel more or less, partial channel blocks
constexpr Shape shapes[] = {
    {1, 16, 32, 8, 8, 1, 1},   {2, 32, 32, 7, 7, 1, 1},    {3, 16, 16, 13, 11, 1, 1},  {1, 48, 80, 6, 17, 0, 0},
    {2, 17, 19, 9, 10, 2, 2},  {1, 5, 3, 5, 5, 0, 2},      {1, 33, 47, 10, 5, 2, 1},   {2, 16, 32, 1, 23, 2, 0},
    {1, 16, 16, 3, 150, 1, 1}, {1, 31, 16, 29, 3, 1, 2},   {3, 64, 64, 4, 4, 1, 1},    {1, 272, 40, 6, 6, 1, 1},
    {2, 40, 288, 5, 6, 0, 1},  {1, 16, 16, 31, 301, 1, 1},
};

bool has_output(const ConvProblem& p) { return p.output[1] > 0 && p.output[2] > 0; }

bool can_run(const ConvAlgorithm& algorithm, const ConvProblem& p) {
  return has_output(p) && (algorithm.pass != ConvPass::backward_data || (p.padding[1] < p.kernel[1] && p.padding[2] < p.kernel[2]));
}

bool fat() { return device().fat() && device().capabilities().local_memory >= (128u << 10); }

}  // namespace

TEST(ConvWinograd, MatchesDirectSums) {
  if (!fat()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    for (const Shape& shape : shapes) {
      const ConvProblem p = problem_of(shape, taps_of(algorithm));
      if (!can_run(algorithm, p)) continue;
      EXPECT_LE(error_of(algorithm, p), tolerance(algorithm))
          << algorithm.name << " pass " << int(algorithm.pass) << ": batch " << shape.batch << ", " << shape.in_channels << " -> "
          << shape.out_channels << ", " << shape.height << "x" << shape.width << ", padding " << shape.pad_h << "," << shape.pad_w;
    }
}

TEST(ConvWinograd, WithoutBias) {
  if (!fat()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    if (algorithm.pass == ConvPass::forward) {
      const ConvProblem p = problem_of({2, 16, 24, 9, 9, 1, 1}, taps_of(algorithm));
      EXPECT_LE(error_of(algorithm, p, false), tolerance(algorithm)) << algorithm.name;
    }
}

TEST(ConvWinograd, WideLayersAreAccurate) {
  if (!fat()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) {
    if (taps_of(algorithm) != 3) continue;
    const ConvProblem p = problem_of({1, 512, 512, 7, 7, 1, 1}, 3);
    EXPECT_LE(error_of(algorithm, p), algorithm.name[10] == '4' ? 1e-4 : 1e-5) << algorithm.name << " pass " << int(algorithm.pass);
  }
}

TEST(ConvWinograd, PartsOfABatchAddUp) {
  if (!fat()) GTEST_SKIP() << "needs a CPU device";
  ConvProblem p = problem_of({5, 16, 16, 260, 260, 1, 1}, 3);
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) {
    if (std::string(algorithm.name) != "winograd_f4x4_3x3") continue;
    const WinogradPlan plan = winograd_plan(algorithm.pass, p, 4, 3, device().capabilities().local_memory);
    if (algorithm.pass == ConvPass::backward_weight) EXPECT_LT(plan.images, p.batch);
    EXPECT_LE(error_of(algorithm, p), 2e-4) << int(algorithm.pass);
  }
}

TEST(ConvWinograd, NaNStaysInItsImage) {
  if (!fat()) GTEST_SKIP() << "needs a CPU device";
  const ConvProblem p = problem_of({3, 16, 16, 7, 7, 1, 1}, 3);
  auto x = random_values<float>(p.x_numel());
  x[p.x_numel() / 3] = NAN;  // first pixel of the second image
  const auto w = random_values<float>(p.w_numel());
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) {
    if (algorithm.pass != ConvPass::forward || taps_of(algorithm) != 3) continue;
    Array<float> dx(x), dw(w), dy(p.y_numel());
    run(algorithm, p, {dx.data(), dw.data(), dy.data()});
    const auto y = dy.host();
    const int64_t image = p.y_numel() / 3;
    for (int64_t i = 0; i < p.y_numel(); ++i) {
      if (i / image != 1) EXPECT_FALSE(std::isnan(y[i])) << i;
    }
    EXPECT_TRUE(std::isnan(y[image]) && std::isnan(y[image + 1]) && std::isnan(y[image + 7]) && std::isnan(y[image + 8]));
    EXPECT_FALSE(std::isnan(y[image + 48]));
  }
}

TEST(ConvWinograd, HalfStorageRoundsOnce) {
  if (!fat()) GTEST_SKIP() << "needs a CPU device";
  const auto narrow = [](float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  };
  const auto widen = [](uint16_t value) {
    const uint32_t bits = uint32_t{value} << 16;
    float result;
    std::memcpy(&result, &bits, 4);
    return result;
  };
  const auto rounded = [&](std::vector<float> values, std::vector<uint16_t>& stored) {
    for (float& value : values) {
      stored.push_back(narrow(value));
      value = widen(stored.back());
    }
    return values;
  };
  const ConvProblem p = problem_of({2, 24, 40, 9, 11, 1, 1}, 3, DType::bfloat16);
  std::vector<uint16_t> x16, w16, y16, b16;
  const auto x = rounded(random_values<float>(p.x_numel(), 1), x16), w = rounded(random_values<float>(p.w_numel(), 2), w16),
             y = rounded(random_values<float>(p.y_numel(), 3), y16), bias = rounded(random_values<float>(p.out_channels, 4), b16);
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) {
    if (taps_of(algorithm) != 3) continue;
    Array<uint16_t> dx(x16), dw(w16), dy(y16), db(b16);
    run(algorithm, p, {dx.data(), dw.data(), dy.data(), algorithm.pass == ConvPass::forward ? db.data() : nullptr});
    const Array<uint16_t>& result = algorithm.pass == ConvPass::forward ? dy : algorithm.pass == ConvPass::backward_data ? dx : dw;
    const auto expected = reference(algorithm.pass, p, x, w, y, bias);
    const auto actual = result.host();
    double square = 0;
    for (double e : expected) square += e * e;
    const double rms = std::sqrt(square / expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_LE(std::abs(widen(actual[i]) - expected[i]), std::abs(expected[i]) / 256 + 3e-4 * rms) << algorithm.name << " " << i;
  }
}

TEST(ConvWinograd, RefusesWithAReason) {
  const ConvAlgorithm& algorithm = winograd_algorithms()[0];
  ConvProblem p = problem_of({8, 64, 64, 56, 56, 1, 1}, 3);
  if (fat()) EXPECT_EQ(algorithm.refuses(p, device()), nullptr);
  ConvProblem strided = p;
  strided.stride = {1, 2, 2};
  EXPECT_NE(algorithm.refuses(strided, device()), nullptr);
  ConvProblem grouped = p;
  grouped.groups = 2;
  EXPECT_NE(algorithm.refuses(grouped, device()), nullptr);
  EXPECT_NE(algorithm.refuses(problem_of({1, 3, 64, 224, 224, 1, 1}, 3), device()), nullptr);
  const WinogradMode before = winograd_mode();
  set_winograd_mode(WinogradMode::precise);
  EXPECT_NE(algorithm.refuses(p, device()), nullptr);
  set_winograd_mode(WinogradMode::off);
  for (const ConvAlgorithm& each : winograd_algorithms()) EXPECT_NE(each.refuses(p, device()), nullptr);
  set_winograd_mode(before);
}

TEST(ConvWinograd, NewShapesBuildNothing) {
  if (!fat()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) error_of(algorithm, problem_of({1, 16, 16, 8, 8, 1, 1}, taps_of(algorithm)));
  const BuildCounts before = build_counts();
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) error_of(algorithm, problem_of({2, 32, 48, 12, 9, 0, 1}, taps_of(algorithm)));
  EXPECT_EQ(before.built + before.loaded, build_counts().built + build_counts().loaded);
}
