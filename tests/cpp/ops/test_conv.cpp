// Every convolution algorithm that does not refuse, every pass, both memory orders, against a float64 reference.
#include "support.h"

#include "ops/conv/bias.h"
#include "ops/conv/conv.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Case {
  const char* name;
  int64_t batch, groups, in, out;
  std::array<int64_t, 3> input, kernel, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
};

// Sizes are odd primes where the algorithm allows, so that tile remainders are hit; the comment says what a row is for.
const Case cases[] = {
    {"Pointwise", 3, 1, 5, 7, {1, 11, 13}, {1, 1, 1}},
    {"PointwiseManyChannels", 2, 1, 419, 37, {1, 7, 7}, {1, 1, 1}},  // several slabs of channels
    {"PointwiseStride2", 3, 1, 17, 19, {1, 13, 15}, {1, 1, 1}, {1, 2, 2}},
    {"PointwiseWide", 2, 1, 16, 24, {1, 28, 28}, {1, 1, 1}},
    {"ThreeByThree", 2, 1, 5, 11, {1, 17, 19}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeChannels", 2, 1, 67, 41, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeBlocks", 2, 1, 64, 64, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ManyChannels", 3, 1, 17, 163, {1, 17, 16}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeSmallPlane", 5, 1, 13, 17, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"ThreeByThreeNoPadding", 1, 1, 3, 5, {1, 23, 37}, {1, 3, 3}},
    {"ThreeByThreeStride2", 2, 1, 7, 9, {1, 28, 28}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"ThreeByThreeStride2Odd", 2, 1, 7, 9, {1, 27, 25}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"ThreeByThreeStride2Channels", 3, 1, 32, 64, {1, 14, 14}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"FiveByFive", 2, 1, 6, 10, {1, 13, 17}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}},
    {"Stem", 2, 1, 3, 16, {1, 37, 37}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}},
    {"StemStride4", 2, 1, 3, 16, {1, 63, 63}, {1, 11, 11}, {1, 4, 4}, {0, 2, 2}},
    {"Stride3", 2, 1, 4, 5, {1, 19, 20}, {1, 3, 3}, {1, 3, 3}, {0, 1, 1}},
    {"StrideAboveKernel", 2, 1, 4, 5, {1, 17, 18}, {1, 2, 2}, {1, 3, 5}},  // input pixels without output
    {"Patches", 3, 1, 3, 19, {1, 24, 32}, {1, 8, 8}, {1, 8, 8}},
    {"PatchesWithRest", 2, 1, 3, 7, {1, 23, 25}, {1, 6, 7}, {1, 6, 7}},
    {"PatchesVolume", 2, 1, 3, 5, {5, 16, 17}, {2, 8, 8}, {2, 8, 8}},
    {"Asymmetric", 2, 1, 3, 5, {1, 11, 17}, {1, 1, 7}, {1, 2, 1}, {0, 0, 3}},
    {"AsymmetricPadding", 2, 1, 3, 5, {1, 11, 9}, {1, 4, 2}, {1, 1, 2}, {0, 3, 1}},
    {"PaddingAboveKernel", 2, 1, 3, 5, {1, 7, 5}, {1, 2, 2}, {1, 1, 1}, {0, 3, 4}},
    {"Dilated", 2, 1, 5, 7, {1, 17, 19}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}},
    {"DilatedStride", 2, 1, 5, 7, {1, 17, 19}, {1, 3, 2}, {1, 2, 3}, {0, 2, 1}, {1, 3, 2}},
    {"KernelIsInput", 3, 1, 11, 13, {1, 6, 5}, {1, 6, 5}},
    {"Groups", 2, 3, 9, 15, {1, 11, 13}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"GroupsStride2", 2, 4, 16, 20, {1, 15, 16}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"GroupsPointwise", 2, 5, 35, 10, {1, 9, 10}, {1, 1, 1}},
    {"Depthwise", 3, 7, 7, 7, {1, 17, 19}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwiseStride2", 3, 7, 7, 7, {1, 17, 20}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwiseFive", 2, 5, 5, 5, {1, 14, 15}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}},
    {"DepthwiseFiveStride2", 2, 5, 5, 5, {1, 15, 14}, {1, 5, 5}, {1, 2, 2}, {0, 1, 2}},
    {"DepthwiseSeven", 2, 3, 3, 3, {1, 23, 21}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    {"DepthwiseSevenStride2", 1, 3, 3, 3, {1, 19, 37}, {1, 7, 7}, {1, 2, 2}, {0, 3, 2}},
    {"DepthwiseRow", 2, 5, 5, 5, {1, 1, 90}, {1, 1, 4}, {1, 1, 1}, {0, 0, 3}},  // one dimension, even and causal
    {"DepthwiseRowOfManyTaps", 2, 5, 5, 5, {1, 3, 41}, {1, 1, 16}, {1, 1, 1}, {0, 0, 7}},
    {"DepthwiseColumn", 2, 5, 5, 5, {1, 37, 11}, {1, 11, 1}, {1, 1, 1}, {0, 5, 0}},
    {"DepthwiseOblong", 2, 5, 5, 5, {1, 19, 23}, {1, 4, 6}, {1, 1, 1}, {0, 1, 3}},
    {"DepthwiseLongRow", 1, 3, 3, 3, {1, 1, 5200}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1}},
    {"DepthwiseNoPadding", 2, 3, 3, 3, {1, 9, 40}, {1, 3, 3}},
    {"DepthwiseMultiplier", 2, 3, 3, 6, {1, 9, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwiseDilated", 2, 3, 3, 3, {1, 13, 11}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}},
    {"DepthwiseLarge", 1, 2, 2, 2, {1, 131, 150}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},  // several bands of rows
    {"DepthwiseLargeStride2", 1, 2, 2, 2, {1, 131, 150}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwiseAsymmetricStride", 2, 3, 3, 3, {1, 13, 11}, {1, 3, 3}, {1, 2, 1}, {0, 1, 0}},
    {"DepthwiseChannels", 2, 37, 37, 37, {1, 13, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},  // blocks of 16 channels and a
                                                                                         // rest
    {"DepthwiseChannelsStride2", 2, 33, 33, 33, {1, 12, 13}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwiseChannelsFive", 2, 16, 16, 16, {1, 9, 11}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}},
    {"DepthwiseChannelsDilated", 2, 19, 19, 19, {1, 13, 11}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}},
    {"DepthwiseChannelsNarrow", 2, 24, 24, 24, {1, 3, 2}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    // images of few columns, 16 channels at a time
    {"DepthwisePlanes", 3, 70, 70, 70, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwisePlanesStride2", 2, 66, 66, 66, {1, 14, 13}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
    {"DepthwisePlanesEvenStride2", 2, 64, 64, 64, {1, 8, 28}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}},
    {"DepthwisePlanesSevenStride2", 1, 65, 65, 65, {1, 9, 11}, {1, 7, 7}, {1, 2, 2}, {0, 3, 0}},
    {"DepthwisePlanesSeven", 2, 80, 80, 80, {1, 5, 6}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    {"DepthwisePlanesOblong", 2, 72, 72, 72, {1, 19, 9}, {1, 4, 6}, {1, 1, 1}, {0, 1, 3}},
    {"DepthwisePlanesNoPadding", 1, 68, 68, 68, {1, 15, 17}, {1, 3, 3}, {1, 2, 2}},
    {"DepthwisePlanesOnePixel", 5, 64, 64, 64, {1, 1, 1}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwisePlanesTall", 1, 64, 64, 64, {1, 100, 6}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DepthwiseRowsInFours", 1, 3, 3, 3, {1, 11, 21}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    // direct: bands of rows; blocks of channels and of results, more than one image at a time; phases without taps
    {"DirectBands", 2, 2, 6, 10, {1, 67, 130}, {1, 5, 3}, {1, 1, 1}, {0, 2, 1}},
    {"DirectBlocks", 1, 1, 41, 37, {1, 9, 10}, {1, 7, 7}, {1, 1, 1}, {0, 3, 3}},
    {"DirectImages", 5, 2, 8, 6, {1, 9, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {"DirectDilatedStride2", 3, 2, 6, 8, {1, 19, 22}, {1, 3, 3}, {1, 2, 2}, {0, 2, 2}, {1, 2, 2}},
    {"Line", 3, 1, 5, 7, {1, 1, 101}, {1, 1, 9}, {1, 1, 3}, {0, 0, 4}},
    {"Volume", 2, 1, 3, 5, {5, 7, 11}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
    {"VolumeStride", 1, 2, 4, 6, {7, 9, 11}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1, 2, 1}},
    {"OnePixel", 7, 1, 33, 35, {1, 1, 1}, {1, 1, 1}},
    {"OneImagePixelOut", 3, 1, 20, 33, {1, 3, 3}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

ConvProblem problem_of(const Case& c) {
  ConvProblem p;
  p.batch = c.batch, p.groups = c.groups, p.in_channels = c.in, p.out_channels = c.out;
  p.input = c.input, p.kernel = c.kernel, p.stride = c.stride, p.padding = c.padding, p.dilation = c.dilation;
  for (int d = 0; d < 3; ++d)
    p.output[d] = (p.input[d] + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1) / p.stride[d] + 1;
  return p;
}

// Multiples of `unit` with few bits: exact in every floating type, and so are their sums in float32.
std::vector<double> coarse_values(size_t n, unsigned seed, double unit) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> distribution(-16, 16);
  std::vector<double> values(n);
  for (double& value : values) value = distribution(engine) * unit;
  return values;
}

struct Tensors {
  std::vector<double> x, w, y, bias;
};

// Calls f(x index, w index, y index) for every product of the convolution, channels first.
template <class F>
void for_each_product(const ConvProblem& p, F f) {
  const int64_t taps = p.taps();
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t o = 0; o < p.out_channels; ++o)
      for (int64_t c = 0; c < p.in_per_group(); ++c)
        for (int64_t q = 0; q < p.out_pixels(); ++q)
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t out[] = {q / (p.output[1] * p.output[2]), q / p.output[2] % p.output[1], q % p.output[2]};
            const int64_t tap[] = {t / (p.kernel[1] * p.kernel[2]), t / p.kernel[2] % p.kernel[1], t % p.kernel[2]};
            int64_t at = 0;
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              const int64_t i = out[d] * p.stride[d] - p.padding[d] + tap[d] * p.dilation[d];
              inside = inside && i >= 0 && i < p.input[d];
              at = at * p.input[d] + i;
            }
            const int64_t channel = o / p.out_per_group() * p.in_per_group() + c;
            if (inside)
              f((n * p.in_channels + channel) * p.in_pixels() + at, (o * p.in_per_group() + c) * taps + t,
                (n * p.out_channels + o) * p.out_pixels() + q);
          }
}

std::vector<double> reference(ConvPass pass, const ConvProblem& p, const Tensors& t) {
  if (pass == ConvPass::forward) {
    std::vector<double> y(p.y_numel());
    for (int64_t i = 0; i < p.y_numel(); ++i) y[i] = t.bias[i / p.out_pixels() % p.out_channels];
    for_each_product(p, [&](int64_t x, int64_t w, int64_t i) { y[i] += t.x[x] * t.w[w]; });
    return y;
  }
  std::vector<double> result(pass == ConvPass::backward_data ? p.x_numel() : p.w_numel());
  if (pass == ConvPass::backward_data)
    for_each_product(p, [&](int64_t x, int64_t w, int64_t y) { result[x] += t.y[y] * t.w[w]; });
  else
    for_each_product(p, [&](int64_t x, int64_t w, int64_t y) { result[w] += t.y[y] * t.x[x]; });
  return result;
}

// [n, c, pixels] <-> [n, pixels, c]
template <class T>
std::vector<T> reorder(const std::vector<T>& from, int64_t rows, int64_t columns) {
  std::vector<T> to(from.size());
  const int64_t plane = rows * columns;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t n = i / plane, r = i % plane / columns, c = i % columns;
    to[n * plane + c * rows + r] = from[i];
  }
  return to;
}

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(double value) {
    const float f = static_cast<float>(value);
    uint32_t b;
    std::memcpy(&b, &f, 4);
    bits = static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
  }
  explicit operator double() const {
    const uint32_t b = uint32_t{bits} << 16;
    float f;
    std::memcpy(&f, &b, 4);
    return f;
  }
};

// Largest |actual - exact| in units of half a unit in the last place of bfloat16 plus the float32 sum's own error (3e-4
// of rms): at most 1 for a correctly rounded result, whatever the order of the sum. NaN gives infinity.
template <class T>
double rounding_error(const std::vector<T>& actual, const std::vector<double>& exact) {
  double square = 0, worst = 0;
  for (double e : exact) square += e * e;
  const double rms = std::sqrt(square / std::max<size_t>(1, exact.size()));
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - exact[i]);
    if (!(error < INFINITY)) return INFINITY;
    if (error > 0) worst = std::max(worst, error / (std::abs(exact[i]) / 256 + 3e-4 * rms));
  }
  return actual.size() == exact.size() ? worst : INFINITY;
}

template <class T>
void run_case(const Case& c, DType type, double tolerance) {
  ConvProblem p = problem_of(c);
  p.dtype = type;
  const double unit = is_integral(type) ? 1 : 0.125;
  const Tensors t{coarse_values(p.x_numel(), 1, unit), coarse_values(p.w_numel(), 2, unit),
                  coarse_values(p.y_numel(), 3, unit), coarse_values(p.out_channels, 4, unit)};
  auto converted = [](const std::vector<double>& values) {
    std::vector<T> result;
    result.reserve(values.size());
    for (double value : values) result.push_back(static_cast<T>(value));
    return result;
  };
  for (ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight}) {
    const std::vector<double> exact = reference(pass, p, t);
    const std::vector<T> expected = converted(exact);
    for (int order = 0; order < 3; ++order) {
      const bool channels_last = p.channels_last = order > 0;
      p.filters_last = order > 1;
      const auto w = p.filters_last ? reorder(converted(t.w), p.in_per_group(), p.taps()) : converted(t.w);
      auto x = converted(t.x), y = converted(t.y);
      if (channels_last) x = reorder(x, p.in_channels, p.in_pixels()), y = reorder(y, p.out_channels, p.out_pixels());
      for (const ConvAlgorithm& algorithm : conv_algorithms(pass)) {
        if (conv_refusal(algorithm, p, device())) continue;
        const Array<T> dx = pass == ConvPass::backward_data ? Array<T>(x.size()) : Array<T>(x);
        const Array<T> dy = pass == ConvPass::forward ? Array<T>(y.size()) : Array<T>(y);
        const Array<T> dw = pass == ConvPass::backward_weight ? Array<T>(w.size()) : Array<T>(w);
        const Array<T> bias(converted(t.bias));
        run_conv(algorithm, queue(), p,
                 {dx.data(), dw.data(), dy.data(), pass == ConvPass::forward ? bias.data() : nullptr});
        std::vector<T> actual = (pass == ConvPass::forward ? dy : pass == ConvPass::backward_data ? dx : dw).host();
        if (channels_last && pass == ConvPass::forward) actual = reorder(actual, p.out_pixels(), p.out_channels);
        if (channels_last && pass == ConvPass::backward_data) actual = reorder(actual, p.in_pixels(), p.in_channels);
        if (p.filters_last && pass == ConvPass::backward_weight) actual = reorder(actual, p.taps(), p.in_per_group());
        const std::string what = std::string(algorithm.name) + " pass " + std::to_string(static_cast<int>(pass)) +
                                 ", order " + std::to_string(order);
        if (is_half(type)) {
          EXPECT_LT(rounding_error(actual, exact), 1) << what;
          continue;
        }
        EXPECT_LT(relative_error(actual, expected), tolerance) << what << " dtype " << name_of(type);
      }
    }
  }
}

class Conv : public ::testing::TestWithParam<Case> {};

TEST_P(Conv, Float32) { run_case<float>(GetParam(), DType::float32, 2e-4); }
TEST_P(Conv, BFloat16) { run_case<BFloat16>(GetParam(), DType::bfloat16, 4e-2); }

INSTANTIATE_TEST_SUITE_P(Shapes, Conv, ::testing::ValuesIn(cases), [](const auto& info) { return info.param.name; });

TEST(ConvTypes, Float64) {
  if (device().capabilities().fp64)
    for (const Case& c : {cases[4], cases[12], cases[25]}) run_case<double>(c, DType::float64, 1e-13);
}

TEST(ConvTypes, Int64) {
  run_case<int64_t>({"Int", 2, 1, 3, 5, {1, 5, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}}, DType::int64, 1e-15);
}

TEST(ConvEdge, EmptyBatchAndEmptyReduction) {
  ConvProblem p = problem_of(cases[4]);
  p.batch = 0;
  const Array<float> w(p.w_numel());
  convolution(queue(), ConvPass::forward, p, {nullptr, w.data(), nullptr});
  convolution(queue(), ConvPass::backward_weight, p, {nullptr, w.data(), nullptr});
  for (float value : w.host()) ASSERT_EQ(value, 0);
  p.batch = 2, p.in_channels = 0;
  const Array<float> y(p.y_numel()), bias(std::vector<float>(p.out_channels, 3));
  convolution(queue(), ConvPass::forward, p, {nullptr, nullptr, y.data(), bias.data()});
  for (float value : y.host()) ASSERT_EQ(value, 3);
}

TEST(ConvEdge, InconsistentShapesThrow) {
  ConvProblem p = problem_of(cases[4]);
  p.groups = 2;
  EXPECT_THROW(convolution(queue(), ConvPass::forward, p, {}), std::invalid_argument);
  p = problem_of(cases[4]);
  p.output[2] += 1;
  EXPECT_THROW(convolution(queue(), ConvPass::forward, p, {}), std::invalid_argument);
}

// A NaN of x reaches exactly the outputs whose window covers it.
TEST(ConvEdge, NaNStaysInItsWindow) {
  ConvProblem p = problem_of({"", 2, 1, 16, 32, {1, 9, 21}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}});
  std::vector<float> x = random_values<float>(p.x_numel());
  x[5 * 21 + 20] = NAN;  // image 0, channel 0, the end of row 5
  const Array<float> dx(x), w(random_values<float>(p.w_numel(), 2));
  for (const ConvAlgorithm& algorithm : conv_algorithms(ConvPass::forward)) {
    if (conv_refusal(algorithm, p, device()) || std::string(algorithm.name).starts_with("winograd")) continue;
    const Array<float> y(p.y_numel());
    run_conv(algorithm, queue(), p, {dx.data(), w.data(), y.data()});
    const auto host = y.host();
    for (int64_t i = 0; i < p.y_numel(); ++i) {
      const int64_t column = i % 21, row = i / 21 % 9, image = i / (32 * 9 * 21);
      const bool covered = image == 0 && row >= 4 && row <= 6 && column >= 19;
      ASSERT_EQ(std::isnan(host[i]), covered)
          << algorithm.name << " image " << image << " row " << row << " column " << column;
    }
  }
}

// Sums over pixels stay those of a pair of channels, also where vectors reach over the end of a row, a plane or an
// image.
TEST(ConvEdge, NaNStaysInItsChannelOfTheWeightGradient) {
  for (int64_t stride : {1, 2}) {
    ConvProblem p;
    p.batch = 2, p.groups = 2, p.in_channels = 6, p.out_channels = 10;
    p.input = {1, 13, 11}, p.kernel = {1, 3, 3}, p.padding = {0, 1, 1}, p.stride = {1, stride, stride};
    p.output = {1, (p.input[1] - 1) / stride + 1, (p.input[2] - 1) / stride + 1};
    std::vector<float> x(p.x_numel(), 1.0f), y(p.y_numel(), 1.0f);
    for (int64_t i = 0; i < p.in_pixels(); ++i) x[p.in_pixels() + i] = NAN;        // channel 1 of group 0
    for (int64_t i = 0; i < p.out_pixels(); ++i) y[7 * p.out_pixels() + i] = NAN;  // result 2 of group 1
    const Array<float> dx(x), dy(y);
    for (const ConvAlgorithm& algorithm : conv_algorithms(ConvPass::backward_weight)) {
      if (conv_refusal(algorithm, p, device())) continue;
      const Array<float> dw(p.w_numel());
      run_conv(algorithm, queue(), p, {dx.data(), dw.data(), dy.data(), nullptr});
      const std::vector<float> w = dw.host();
      for (size_t i = 0; i < w.size(); ++i) {
        const size_t result = i / 27, channel = i / 9 % 3;
        EXPECT_EQ(std::isnan(w[i]), result == 7 || (result < 5 && channel == 1))
            << algorithm.name << " stride " << stride << " result " << result << " channel " << channel;
      }
    }
  }
}

TEST(ConvBias, SumsImagesAndPixels) {
  for (int64_t plane : {1, 37, 331})
    for (bool channels_last : {false, true}) {
      const int64_t batch = 3, channels = 37;
      const auto dy = random_values<float>(batch * channels * plane);
      std::vector<double> expected(channels);
      for (size_t i = 0; i < dy.size(); ++i) expected[channels_last ? i % channels : i / plane % channels] += dy[i];
      const Array<float> d(dy), db(channels);
      conv_bias_gradient(queue(), DType::float32, channels_last, batch, channels, plane, d.data(), db.data());
      EXPECT_LT(relative_error(db.host(), expected), 1e-5);
    }
  const Array<float> db(5);
  conv_bias_gradient(queue(), DType::float32, false, 0, 5, 7, nullptr, db.data());
  for (float value : db.host()) EXPECT_EQ(value, 0);
}

}  // namespace
