#include "ops/fft/fft.h"
#include "support.h"

#include <cmath>
#include <numbers>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// The definition, in double precision, of `batch` rows of (real, imaginary) pairs.
std::vector<double> transform(const std::vector<float>& x, int64_t batch, int64_t n, bool inverse, double scale) {
  std::vector<double> y(x.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) {
        const double angle = (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        const double re = x[2 * (b * n + j)], im = x[2 * (b * n + j) + 1];
        y[2 * (b * n + k)] += scale * (re * std::cos(angle) - im * std::sin(angle));
        y[2 * (b * n + k) + 1] += scale * (re * std::sin(angle) + im * std::cos(angle));
      }
  return y;
}

}  // namespace

// Every radix, products of them, a prime above all of them and its square.
TEST(Fft, AgreesWithTheDefinition) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 11, 12, 64, 121, 210, 13 * 16, 1009}) {
    for (const bool inverse : {false, true}) {
      const int64_t batch = 3;
      std::vector<float> x(2 * batch * n);
      std::mt19937 engine(static_cast<unsigned>(n));
      std::normal_distribution<float> normal;
      for (float& v : x) v = normal(engine);
      Array<float> in(x), out(std::vector<float>(x.size(), -7.f));
      fft(queue(), DType::complex64, in.data(), out.data(), batch, n, inverse, 0.5);
      const auto expected = transform(x, batch, n, inverse, 0.5);
      const auto actual = out.host();
      const double allowed = 2e-6 * std::sqrt(static_cast<double>(n));
      for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], allowed) << "n " << n << ", inverse " << inverse << ", element " << i;
      EXPECT_EQ(in.host(), x);
    }
  }
}
