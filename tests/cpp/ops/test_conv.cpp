// Every convolution algorithm that does not refuse, every pass, both memory orders, against a float64 reference.
#include "ops/conv_cases.h"
#include "support.h"

#include "ops/conv/bias.h"
#include "ops/conv/conv.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

using Case = ConvCase;

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
        const ConvRoute route = conv_route(algorithm, p, PlanTarget(device()));
        if (route.plan.refusal) continue;
        const Array<T> dx = pass == ConvPass::backward_data ? Array<T>(x.size()) : Array<T>(x);
        const Array<T> dy = pass == ConvPass::forward ? Array<T>(y.size()) : Array<T>(y);
        const Array<T> dw = pass == ConvPass::backward_weight ? Array<T>(w.size()) : Array<T>(w);
        const Array<T> bias(converted(t.bias));
        run_conv(route, queue(), {dx.data(), dw.data(), dy.data(), pass == ConvPass::forward ? bias.data() : nullptr});
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

// Every algorithm cuts off what it gives without limits, and NaN stays.
void run_limited(const Case& c) {
  ConvProblem p = problem_of(c), limited = p;
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  std::vector<float> pixels = floats(coarse_values(p.x_numel(), 1, 0.125));
  pixels[0] = NAN;
  const Array<float> x(pixels), w(floats(coarse_values(p.w_numel(), 2, 0.125))), free(p.y_numel()), cut(p.y_numel());
  for (const ConvLimits limits : {ConvLimits{0, INFINITY}, ConvLimits{-0.5f, 0.75f}})
    for (const bool channels_last : {false, true}) {
      p.channels_last = limited.channels_last = channels_last;
      limited.limits = limits;
      for (const ConvAlgorithm& algorithm : conv_algorithms(ConvPass::forward)) {
        const ConvRoute route = conv_route(algorithm, p, PlanTarget(device()));
        if (route.plan.refusal) continue;
        run_conv(route, queue(), {x.data(), w.data(), free.data(), nullptr});
        run_conv(conv_route(algorithm, limited, PlanTarget(device())), queue(),
                 {x.data(), w.data(), cut.data(), nullptr});
        const std::vector<float> all = free.host(), within = cut.host();
        for (size_t i = 0; i < all.size(); ++i) {
          const float want = all[i] < limits.low ? limits.low : all[i] > limits.high ? limits.high : all[i];
          ASSERT_TRUE(within[i] == want || (std::isnan(want) && std::isnan(within[i])))
              << algorithm.name << ": " << within[i] << " of " << all[i] << " at " << i;
        }
      }
    }
}

class Conv : public ::testing::TestWithParam<Case> {};

TEST_P(Conv, Float32) { run_case<float>(GetParam(), DType::float32, 2e-4); }
TEST_P(Conv, Limits) { run_limited(GetParam()); }
TEST_P(Conv, BFloat16) { run_case<BFloat16>(GetParam(), DType::bfloat16, 4e-2); }

INSTANTIATE_TEST_SUITE_P(Shapes, Conv, ::testing::ValuesIn(conv_cases),
                         [](const auto& info) { return info.param.name; });

TEST(ConvTypes, Float64) {
  if (device().capabilities().fp64)
    for (const Case& c : {conv_cases[4], conv_cases[12], conv_cases[25]}) run_case<double>(c, DType::float64, 1e-13);
}

TEST(ConvTypes, Int64) {
  run_case<int64_t>({"Int", 2, 1, 3, 5, {1, 5, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}}, DType::int64, 1e-15);
}

TEST(ConvEdge, EmptyBatchAndEmptyReduction) {
  ConvProblem p = problem_of(conv_cases[4]);
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
  ConvProblem p = problem_of(conv_cases[4]);
  p.groups = 2;
  EXPECT_THROW(convolution(queue(), ConvPass::forward, p, {}), InvalidArgument);
  p = problem_of(conv_cases[4]);
  p.output[2] += 1;
  EXPECT_THROW(convolution(queue(), ConvPass::forward, p, {}), InvalidArgument);
}

// A NaN of x reaches exactly the outputs whose window covers it.
TEST(ConvEdge, NaNStaysInItsWindow) {
  ConvProblem p = problem_of({"", 2, 1, 16, 32, {1, 9, 21}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}});
  std::vector<float> x = random_values<float>(p.x_numel());
  x[5 * 21 + 20] = NAN;  // image 0, channel 0, the end of row 5
  const Array<float> dx(x), w(random_values<float>(p.w_numel(), 2));
  for (const ConvAlgorithm& algorithm : conv_algorithms(ConvPass::forward)) {
    const ConvRoute route = conv_route(algorithm, p, PlanTarget(device()));
    if (route.plan.refusal || std::string(algorithm.name).starts_with("winograd")) continue;
    const Array<float> y(p.y_numel());
    run_conv(route, queue(), {dx.data(), w.data(), y.data()});
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
      const ConvRoute route = conv_route(algorithm, p, PlanTarget(device()));
      if (route.plan.refusal) continue;
      const Array<float> dw(p.w_numel());
      run_conv(route, queue(), {dx.data(), dw.data(), dy.data(), nullptr});
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
