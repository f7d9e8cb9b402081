// Winograd convolutions against direct sums in float64.
#include "ops/conv_support.h"

#include "opencl/capabilities/simulated.h"
#include "ops/conv/winograd.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

int64_t taps_of(const ConvAlgorithm& algorithm) {
  return std::string(algorithm.name).find("5x5") != std::string::npos ? 5 : 3;
}

double tolerance(const ConvAlgorithm& algorithm) {
  return std::string(algorithm.name) == "winograd_f2x2_3x3" ? 1e-5 : 5e-5;
}

// batch, channels in and out, height, width, padding: square and ragged tiles, one pixel more or less, partial channel
// blocks
constexpr ConvShape shapes[] = {
    {1, 16, 32, 8, 8, 1, 1},   {2, 32, 32, 7, 7, 1, 1},   {3, 16, 16, 13, 11, 1, 1}, {1, 48, 80, 6, 17, 0, 0},
    {2, 17, 19, 9, 10, 2, 2},  {1, 5, 3, 5, 5, 0, 2},     {1, 33, 47, 10, 5, 2, 1},  {2, 16, 32, 1, 23, 2, 0},
    {1, 16, 16, 3, 150, 1, 1}, {1, 31, 16, 29, 3, 1, 2},  {3, 64, 64, 4, 4, 1, 1},   {1, 272, 40, 6, 6, 1, 1},
    {2, 40, 288, 5, 6, 0, 1},  {1, 16, 16, 9, 301, 1, 1},
};

// A volume: of depth `depth` under `taps` taps with padding `pad`.
ConvProblem volume_of(const ConvShape& s, int64_t kernel, int64_t depth, int64_t taps, int64_t pad) {
  ConvProblem p = problem_of(s, kernel);
  p.input[0] = depth;
  p.kernel[0] = taps;
  p.padding[0] = pad;
  p.output[0] = depth + 2 * pad - taps + 1;
  return p;
}

bool has_output(const ConvProblem& p) { return p.output[0] > 0 && p.output[1] > 0 && p.output[2] > 0; }

bool can_run(const ConvAlgorithm& algorithm, const ConvProblem& p) {
  return has_output(p) &&
         (algorithm.pass != ConvPass::backward_data || (p.padding[1] < p.kernel[1] && p.padding[2] < p.kernel[2]));
}

enum class Order { channels_first, channels_last, filters_last_too };
constexpr Order orders[] = {Order::channels_first, Order::channels_last, Order::filters_last_too};

// False: the algorithm reads the filters in one order only.
bool take(Order order, const ConvAlgorithm& algorithm, ConvProblem& p) {
  p.channels_last = order != Order::channels_first;
  p.filters_last = order == Order::filters_last_too;
  EXPECT_EQ(algorithm.takes_filters_last(p), algorithm.pass != ConvPass::backward_weight && p.kernel[0] == 1);
  return !p.filters_last || algorithm.takes_filters_last(p);
}

bool cpu_style() { return device().cpu_style() && device().capabilities().local_memory >= (128u << 10); }

}  // namespace

TEST(ConvWinograd, MatchesDirectSums) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    for (const ConvShape& shape : shapes) {
      ConvProblem p = problem_of(shape, taps_of(algorithm));
      if (!can_run(algorithm, p)) continue;
      for (const Order order : orders) {
        if (!take(order, algorithm, p)) continue;
        EXPECT_LE(error_of(algorithm, p), tolerance(algorithm)) << describe(algorithm, p);
      }
    }
}

TEST(ConvWinograd, VolumesMatchDirectSums) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  struct Volume {
    ConvShape shape;
    int64_t depth, taps, pad;
  };
  constexpr Volume volumes[] = {
      {{2, 16, 32, 8, 8, 1, 1}, 4, 3, 1}, {{1, 17, 19, 9, 10, 1, 1}, 5, 3, 1}, {{2, 32, 16, 6, 7, 0, 1}, 3, 1, 0},
      {{3, 16, 24, 5, 9, 1, 0}, 4, 2, 0}, {{1, 33, 40, 7, 5, 1, 1}, 1, 3, 1},  {{2, 16, 16, 8, 6, 1, 1}, 6, 5, 2},
      {{1, 16, 32, 9, 9, 1, 1}, 2, 3, 2}, {{1, 272, 40, 6, 6, 1, 1}, 3, 3, 1}, {{2, 24, 16, 6, 6, 1, 1}, 3, 1, 1},
      {{2, 5, 3, 8, 8, 1, 1}, 7, 3, 0},
  };
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    for (const Volume& v : volumes) {
      ConvProblem p = volume_of(v.shape, taps_of(algorithm), v.depth, v.taps, v.pad);
      if (!can_run(algorithm, p)) continue;
      for (bool channels_last : {false, true}) {
        p.channels_last = channels_last;
        if (refusal(algorithm, p)) {
          EXPECT_TRUE(algorithm.pass == ConvPass::backward_data && v.pad >= v.taps) << describe(algorithm, p);
          continue;
        }
        EXPECT_LE(error_of(algorithm, p), tolerance(algorithm)) << describe(algorithm, p);
      }
    }
}

TEST(ConvWinograd, DilatedMatchDirectSums) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  struct Dilated {
    ConvShape shape;  // padding of the images that the pixels of one phase are
    int64_t dilation;
  };
  constexpr Dilated cases[] = {{{2, 16, 32, 16, 16, 1, 1}, 2}, {{1, 17, 19, 13, 15, 1, 1}, 2},
                               {{2, 32, 16, 14, 11, 1, 0}, 3}, {{1, 33, 40, 28, 28, 1, 1}, 12},
                               {{3, 16, 16, 9, 21, 0, 1}, 4},  {{1, 272, 40, 12, 12, 1, 1}, 2},
                               {{1, 16, 24, 31, 30, 2, 2}, 5}};
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    for (const Dilated& c : cases) {
      ConvProblem p = problem_of(c.shape, taps_of(algorithm));
      for (int d : {1, 2}) {
        p.dilation[d] = c.dilation;
        p.padding[d] *= c.dilation;
        p.output[d] = p.input[d] + 2 * p.padding[d] - c.dilation * (p.kernel[d] - 1);
      }
      if (!has_output(p)) continue;
      for (const Order order : orders) {
        if (!take(order, algorithm, p)) continue;
        ASSERT_EQ(refusal(algorithm, p), nullptr) << describe(algorithm, p);
        EXPECT_LE(error_of(algorithm, p), tolerance(algorithm))
            << describe(algorithm, p) << ", dilation " << c.dilation;
      }
    }
  ConvProblem uneven = problem_of({1, 16, 16, 16, 16, 3, 3}, 3);
  uneven.dilation = {1, 2, 2};
  uneven.output = {1, 18, 18};
  EXPECT_NE(refusal(winograd_algorithms()[0], uneven), nullptr);
}

TEST(ConvWinograd, PartsOfAVolumeAddUp) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  SimulatedCapabilities two(device(), "compute_units=2");  // so many images and slices are in a part
  ConvProblem p = volume_of({1, 16, 8, 96, 96, 1, 1}, 3, 11, 3, 1);
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) {
    if (std::string(algorithm.name) != "winograd_f4x4_3x3") continue;
    const WinogradPlan plan = winograd_plan(algorithm.pass, p, 4, 3, PlanTarget(device()));
    EXPECT_GT(plan.parts(), p.batch);
    EXPECT_NE(plan.result_depth % plan.images, 0) << "a last part that is smaller";
    for (bool channels_last : {false, true}) {
      p.channels_last = channels_last;
      EXPECT_LE(error_of(algorithm, p), 5e-5) << describe(algorithm, p);
    }
  }
}

TEST(ConvWinograd, WithoutBias) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    if (algorithm.pass == ConvPass::forward) {
      const ConvProblem p = problem_of({2, 16, 24, 9, 9, 1, 1}, taps_of(algorithm));
      EXPECT_LE(error_of(algorithm, p, false), tolerance(algorithm)) << algorithm.name;
    }
}

TEST(ConvWinograd, WideLayersAreAccurate) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) {
    if (taps_of(algorithm) != 3) continue;
    const ConvProblem p = problem_of({1, 512, 512, 7, 7, 1, 1}, 3);
    EXPECT_LE(error_of(algorithm, p), tolerance(algorithm)) << algorithm.name << " pass " << int(algorithm.pass);
  }
}

TEST(ConvWinograd, PartsOfABatchAddUp) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  SimulatedCapabilities two(device(), "compute_units=2");
  ConvProblem p = problem_of({9, 32, 24, 64, 64, 1, 1}, 3);
  for (const ConvAlgorithm& algorithm : winograd_algorithms()) {
    if (std::string(algorithm.name) != "winograd_f4x4_3x3") continue;
    const WinogradPlan plan = winograd_plan(algorithm.pass, p, 4, 3, PlanTarget(device()));
    EXPECT_LT(plan.images, p.batch);
    for (bool channels_last : {false, true}) {
      p.channels_last = channels_last;
      EXPECT_LE(error_of(algorithm, p), 5e-5) << describe(algorithm, p);
    }
  }
}

TEST(ConvWinograd, NaNStaysInItsImage) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
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
      if (i / image != 1) {
        EXPECT_FALSE(std::isnan(y[i])) << i;
      }
    }
    EXPECT_TRUE(std::isnan(y[image]) && std::isnan(y[image + 1]) && std::isnan(y[image + 7]) &&
                std::isnan(y[image + 8]));
    EXPECT_FALSE(std::isnan(y[image + 48]));
  }
}

TEST(ConvWinograd, HalfStorageRoundsOnce) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  const ConvProblem p = problem_of({2, 24, 40, 9, 11, 1, 1}, 3, 1, DType::bfloat16);
  ConvProblem volume = volume_of({1, 24, 40, 9, 11, 1, 1}, 3, 3, 3, 1);
  volume.dtype = DType::bfloat16;
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    if (taps_of(algorithm) == 3) {
      EXPECT_LE(bfloat16_error_of(algorithm, p, 3e-4), 1) << describe(algorithm, p);
      EXPECT_LE(bfloat16_error_of(algorithm, volume, 3e-4), 1) << describe(algorithm, volume);
    }
}

TEST(ConvWinograd, RefusesAndDeclinesWithAReason) {
  const ConvAlgorithm& algorithm = winograd_algorithms()[0];
  ConvProblem p = problem_of({8, 64, 64, 56, 56, 1, 1}, 3);
  if (cpu_style()) {
    EXPECT_EQ(refusal(algorithm, p), nullptr);
  }
  ConvProblem strided = p;
  strided.stride = {1, 2, 2};
  EXPECT_NE(refusal(algorithm, strided), nullptr);
  ConvProblem deep = volume_of({1, 64, 64, 16, 16, 1, 1}, 3, 8, 3, 1);
  if (cpu_style()) {
    EXPECT_EQ(refusal(algorithm, deep), nullptr);
  }
  deep.dilation[0] = 2;
  EXPECT_NE(refusal(algorithm, deep), nullptr);
  ConvProblem grouped = p;
  grouped.groups = 2;
  EXPECT_NE(refusal(algorithm, grouped), nullptr);
  if (cpu_style()) {
    EXPECT_EQ(algorithm.plan(p, PlanTarget(device())).declines, nullptr);
    EXPECT_NE(algorithm.plan(problem_of({1, 3, 64, 224, 224, 1, 1}, 3), PlanTarget(device())).declines, nullptr);
    EXPECT_NE(algorithm.plan(problem_of({1, 512, 512, 4, 4, 1, 1}, 3), PlanTarget(device())).declines, nullptr);
  }
  const WinogradMode before = winograd_mode();
  set_winograd_mode(WinogradMode::precise);
  EXPECT_NE(refusal(algorithm, p), nullptr);
  set_winograd_mode(WinogradMode::off);
  for (const ConvAlgorithm& each : winograd_algorithms()) EXPECT_NE(refusal(each, p), nullptr);
  set_winograd_mode(before);
}

TEST(ConvWinograd, NewShapesBuildNothing) {
  if (!cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    error_of(algorithm, problem_of({1, 16, 16, 8, 8, 1, 1}, taps_of(algorithm)));
  const BuildCounts before = build_counts();
  for (const ConvAlgorithm& algorithm : winograd_algorithms())
    error_of(algorithm, problem_of({2, 32, 48, 12, 9, 0, 1}, taps_of(algorithm)));
  EXPECT_EQ(before.built + before.loaded, build_counts().built + build_counts().loaded);
}
