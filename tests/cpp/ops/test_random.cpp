#include "support.h"

#include "ops/random/random.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

template <class T>
TensorView view(const Array<T>& a, DType dtype) {
  return TensorView::contiguous(a.data(), dtype, {static_cast<int64_t>(a.size())});
}

std::vector<float> fill(Distribution d, size_t n, double p0, double p1, Philox state = {7, 11}) {
  Array<float> y(n);
  fill_random(queue(), d, view(y, DType::float32), p0, p1, state);
  return y.host();
}

// Largest distance between the empirical and the exact distribution function, times sqrt(n); above 2.2 one time in
// 10^4.
double kolmogorov_smirnov(std::vector<float> x, const std::function<double(double)>& cdf) {
  std::sort(x.begin(), x.end());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double f = cdf(x[i]);
    if (std::isnan(x[i])) return INFINITY;
    worst = std::max({worst, std::abs(f - double(i) / x.size()), std::abs(f - double(i + 1) / x.size())});
  }
  return worst * std::sqrt(double(x.size()));
}

uint32_t word(Philox state, int64_t i) {  // the 32-bit word of element i
  const uint64_t counter = state.offset + i / 64 * 16 + i % 16;
  return philox4x32({uint32_t(counter), uint32_t(counter >> 32), 0, 0},
                    {uint32_t(state.seed), uint32_t(state.seed >> 32)})[i % 64 / 16];
}

}  // namespace

// Known answers of the Random123 distribution (file kat_vectors).
TEST(Random, PhiloxKnownAnswers) {
  using W = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (W{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}), (W{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (W{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IntegersAreTheWordsOfTheHostGenerator) {
  for (Philox state : {Philox{0x123456789abcdef0, 5}, Philox{1, 0xfffffffffffffff7}, Philox{3, 0xfffffffd}}) {
    for (size_t n : {1, 15, 64, 997, 40009}) {
      Array<int64_t> y(n);
      fill_random_integers(queue(), view(y, DType::int64), 0, uint64_t{1} << 32, state);
      const auto host = y.host();
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(host[i], int64_t{word(state, i)}) << n << " " << i;
    }
  }
}

TEST(Random, FillsStopAtTheEnd) {
  for (size_t n : {1, 17, 63, 65, 1009}) {
    Array<float> y(std::vector<float>(n + 64, -7.f));
    TensorView v = TensorView::contiguous(y.data(), DType::float32, {int64_t(n)});
    fill_random(queue(), Distribution::normal, v, 0, 1, {1, 0});
    fill_bernoulli(queue(), v, 0.5, {1, 0});
    const auto host = y.host();
    for (size_t i = n; i < host.size(); ++i) ASSERT_EQ(host[i], -7.f) << n << " " << i;
    for (size_t i = 0; i < n; ++i) ASSERT_NE(host[i], -7.f) << n << " " << i;
  }
  Array<float> empty(size_t{0});
  fill_random(queue(), Distribution::normal, view(empty, DType::float32), 0, 1, {1, 0});
}

TEST(Random, OffsetsShiftTheSequence) {
  const auto a = fill(Distribution::uniform, 4096, 0, 1, {9, 0}), b = fill(Distribution::uniform, 4032, 0, 1, {9, 16});
  EXPECT_TRUE(std::equal(b.begin(), b.end(), a.begin() + 64));
  EXPECT_NE(fill(Distribution::uniform, 64, 0, 1, {10, 0}), fill(Distribution::uniform, 64, 0, 1, {9, 0}));
  EXPECT_GE(random_counters(997), 997u);
}

TEST(Random, Distributions) {
  const size_t n = 200003;
  const double e = 2.2;
  const auto uniform = fill(Distribution::uniform, n, -2, 5);
  EXPECT_LT(kolmogorov_smirnov(uniform, [](double x) { return (x + 2) / 7; }), e);
  EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), -2.f);
  EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 5.f);
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  EXPECT_LT(kolmogorov_smirnov(fill(Distribution::normal, n, 1, 3), [&](double x) { return phi((x - 1) / 3); }), e);
  EXPECT_LT(kolmogorov_smirnov(fill(Distribution::log_normal, n, 1, 0.5),
                               [&](double x) { return phi((std::log(x) - 1) / 0.5); }),
            e);
  const auto exponential = fill(Distribution::exponential, n, 1.5, 0);
  EXPECT_LT(kolmogorov_smirnov(exponential, [](double x) { return 1 - std::exp(-1.5 * x); }), e);
  EXPECT_GT(*std::min_element(exponential.begin(), exponential.end()), 0.f);
  EXPECT_LT(kolmogorov_smirnov(fill(Distribution::cauchy, n, 1, 2),
                               [](double x) { return 0.5 + std::atan((x - 1) / 2) / M_PI; }),
            e);
  std::map<int, double> counts;
  for (float k : fill(Distribution::geometric, n, 0.3, 0)) ++counts[int(k)];
  EXPECT_EQ(counts.begin()->first, 1);
  for (int k = 1; k < 8; ++k) EXPECT_NEAR(counts[k] / n, 0.3 * std::pow(0.7, k - 1), 0.006) << k;
}

TEST(Random, NormalNumbersAreUncorrelatedInPairs) {
  const auto x = fill(Distribution::normal, 64 * 1001, 0, 1);
  for (size_t distance : {1, 2, 16, 32, 48, 64}) {
    double sum = 0;
    for (size_t i = 0; i + distance < x.size(); ++i) sum += double(x[i]) * x[i + distance];
    EXPECT_LT(std::abs(sum / std::sqrt(double(x.size()))), 4.5) << distance;
  }
}

TEST(Random, DoublePrecision) {
  if (!device().capabilities().fp64) GTEST_SKIP();
  Array<double> y(size_t{10007});
  fill_random(queue(), Distribution::uniform, view(y, DType::float64), 0, 1, {3, 0});
  auto host = y.host();
  double mean = 0;
  int fine = 0;
  for (double u : host) {
    ASSERT_TRUE(u >= 0 && u < 1);
    mean += u / host.size();
    fine += double(float(u)) != u;
  }
  EXPECT_NEAR(mean, 0.5, 0.015);
  EXPECT_GT(fine, 9000);
  fill_random(queue(), Distribution::normal, view(y, DType::float64), 0, 1, {3, 0});
  host = y.host();
  std::vector<float> x(host.begin(), host.end());
  EXPECT_LT(kolmogorov_smirnov(x, [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); }), 2.2);
}

TEST(Random, HalfUniformNeverReachesTheEnd) {
  for (DType type : {DType::float16, DType::bfloat16}) {
    Array<uint16_t> y(size_t{100003});
    fill_random(queue(), Distribution::uniform, view(y, type), 0, 1, {3, 0});
    const uint16_t one = type == DType::float16 ? 0x3c00 : 0x3f80;
    std::set<uint16_t> seen;
    for (uint16_t bits : y.host()) {
      ASSERT_LT(bits, one);
      seen.insert(bits);
    }
    EXPECT_EQ(seen.size(), type == DType::float16 ? 2048u : 256u);
    fill_random(queue(), Distribution::uniform, view(y, type), 1, 3, {3, 0});
    for (uint16_t bits : y.host())
      ASSERT_TRUE(bits >= one && bits < (type == DType::float16 ? 0x4200 : 0x4040)) << bits;
  }
}

TEST(Random, IntegerRanges) {
  Array<int64_t> y(size_t{30011});
  fill_random_integers(queue(), view(y, DType::int64), -3, 7, {3, 0});
  std::map<int64_t, int> counts;
  for (int64_t v : y.host()) ++counts[v];
  EXPECT_EQ(counts.size(), 7u);
  for (auto [value, count] : counts) {
    EXPECT_TRUE(value >= -3 && value < 4);
    EXPECT_NEAR(count, 30011 / 7.0, 350);
  }
  fill_random_integers(queue(), view(y, DType::int64), -(int64_t{1} << 40), uint64_t{1} << 41, {3, 0});
  for (int64_t v : y.host()) ASSERT_TRUE(v >= -(int64_t{1} << 40) && v < (int64_t{1} << 40));
  fill_random_integers(queue(), view(y, DType::int64), 0, 0, {3, 0});
  int negative = 0;
  for (int64_t v : y.host()) negative += v < 0;
  EXPECT_NEAR(negative, 15005, 500);
  Array<uint8_t> bytes(size_t{1009});
  fill_random_integers(queue(), view(bytes, DType::uint8), 250, 5, {3, 0});
  for (uint8_t v : bytes.host()) ASSERT_TRUE(v >= 250 && v < 255);
}

TEST(Random, Bernoulli) {
  const size_t n = 100003;
  Array<uint8_t> y(n);
  for (double p : {0.0, 0.25, 1.0}) {
    fill_bernoulli(queue(), view(y, DType::boolean), p, {3, 0});
    double sum = 0;
    for (uint8_t v : y.host()) {
      ASSERT_LE(v, 1);
      sum += v;
    }
    EXPECT_NEAR(sum / n, p, p == 0.25 ? 0.007 : 0) << p;
  }
  EXPECT_THROW(fill_bernoulli(queue(), view(y, DType::boolean), 1.5, {3, 0}), InvalidArgument);
  std::vector<float> probability(n);
  for (size_t i = 0; i < n; ++i) probability[i] = i % 3 * 0.5f;
  Array<float> p(probability), z(n);
  fill_bernoulli(queue(), view(z, DType::float32), view(p, DType::float32), {3, 0});
  const auto host = z.host();
  double half = 0;
  for (size_t i = 0; i < n; ++i) {
    if (i % 3 == 1) {
      half += host[i];
    } else {
      ASSERT_EQ(host[i], i % 3 * 0.5f);
    }
  }
  EXPECT_NEAR(half / (n / 3), 0.5, 0.02);
}

TEST(Random, DropoutAndItsGradient) {
  for (size_t n : {1, 65, 100003}) {
    auto values = random_values<float>(n, 3, 1, 2);
    if (n > 1) values[1] = NAN;
    Array<float> x(values), y(n), dx(n);
    Array<uint8_t> mask(n);
    dropout(queue(), view(x, DType::float32), view(y, DType::float32), view(mask, DType::boolean), 0.3, {3, 0});
    dropout_backward(queue(), view(x, DType::float32), view(mask, DType::boolean), view(dx, DType::float32), 1 / 0.7);
    const auto m = mask.host();
    const auto out = y.host(), gradient = dx.host();
    double kept = 0;
    for (size_t i = 0; i < n; ++i) {
      kept += m[i];
      ASSERT_LE(m[i], 1);
      const double expected = i == 1 ? NAN : m[i] ? values[i] / 0.7f : 0.f;
      ASSERT_TRUE(i == 1 ? std::isnan(out[i]) : std::abs(out[i] - expected) < 1e-6) << i;
      ASSERT_TRUE(i == 1 ? std::isnan(gradient[i]) : std::abs(gradient[i] - expected) < 1e-6) << i;
    }
    if (n > 1000) {
      EXPECT_NEAR(kept / n, 0.7, 0.007);
    }
  }
  Array<float> x(std::vector<float>(100, 1)), y(100);
  Array<uint8_t> mask(100);
  dropout(queue(), view(x, DType::float32), view(y, DType::float32), view(mask, DType::boolean), 1, {3, 0});
  EXPECT_EQ(y.host(), std::vector<float>(100, 0));
  dropout(queue(), view(x, DType::float32), view(y, DType::float32), view(mask, DType::boolean), 0, {3, 0});
  EXPECT_EQ(y.host(), x.host());
}

TEST(Random, Samplers) {
  const size_t n = 40009;
  const auto check = [&](auto fill, double a, double b, double mean, double variance) {
    Array<float> x(std::vector<float>(n, a)), p(std::vector<float>(n, b)), y(n);
    fill(view(x, DType::float32), view(p, DType::float32), view(y, DType::float32));
    double m = 0, v = 0;
    for (float k : y.host()) m += k / double(n);
    for (float k : y.host()) v += (k - m) * (k - m) / double(n);
    EXPECT_NEAR(m, mean, 5 * std::sqrt(variance / n) + 1e-6) << a << " " << b;
    EXPECT_NEAR(v, variance, 5 * std::sqrt((3 * variance * variance + variance) / n) + 1e-6) << a << " " << b;
  };
  const auto poisson = [](auto a, auto, auto y) { fill_poisson(queue(), a, y, {5, 3}); };
  const auto binomial = [](auto a, auto b, auto y) { fill_binomial(queue(), a, b, y, {5, 3}); };
  const auto gamma = [](auto a, auto, auto y) { fill_standard_gamma(queue(), a, y, {5, 3}); };
  for (double rate : {0.0, 0.5, 4.0, 12.0, 300.0}) check(poisson, rate, 0, rate, rate);
  for (double p : {0.0, 0.01, 0.3, 0.9, 1.0})
    for (double count : {1.0, 20.0, 1000.0}) check(binomial, count, p, count * p, count * p * (1 - p));
  for (double alpha : {0.5, 1.0, 7.5}) check(gamma, alpha, 0, alpha, alpha);
}

TEST(Random, Multinomial) {
  const int64_t count = 20011;
  Array<float> weights(std::vector<float>{0, 1, 3, 0, 2, 0, 0, 0, 0, 5});
  Array<int64_t> samples(size_t(2 * count));
  multinomial_with_replacement(queue(), TensorView::contiguous(weights.data(), DType::float32, {2, 5}),
                               TensorView::contiguous(samples.data(), DType::int64, {2, count}), {5, 0});
  const auto host = samples.host();
  std::map<int64_t, double> first;
  for (int64_t i = 0; i < count; ++i) {
    ++first[host[i]];
    ASSERT_EQ(host[count + i], 4);
  }
  EXPECT_EQ(first.size(), 3u);
  EXPECT_NEAR(first[1] / count, 1 / 6.0, 0.015);
  EXPECT_NEAR(first[2] / count, 3 / 6.0, 0.015);
}

TEST(Random, Permutation) {
  std::vector<int64_t> p(1009), q(1009);
  random_permutation(p.data(), 1009, {1, 2});
  random_permutation(q.data(), 1009, {1, 3});
  EXPECT_NE(p, q);
  std::sort(p.begin(), p.end());
  for (int64_t i = 0; i < 1009; ++i) ASSERT_EQ(p[i], i);
  random_permutation(p.data(), 0, {1, 2});
}
