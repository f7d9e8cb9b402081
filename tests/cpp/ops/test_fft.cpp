#include "ops/fft/fft.h"
#include "support.h"

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

using Complex = std::complex<double>;

// The definition, in double precision.
std::vector<Complex> definition(const std::vector<Complex>& x, const FftShape& s, bool inverse, double scale) {
  std::vector<Complex> y(x.size()), turns(s.n);
  for (int64_t i = 0; i < s.n; ++i)
    turns[i] =
        std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(i) / static_cast<double>(s.n));
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t k = 0; k < s.n; ++k)
      for (int64_t j = 0; j < s.n; ++j)
        for (int64_t i = 0; i < s.inner; ++i)
          y[(o * s.n + k) * s.inner + i] += scale * x[(o * s.n + j) * s.inner + i] * turns[j * k % s.n];
  return y;
}

std::vector<float> random_numbers(int64_t count) {
  std::mt19937 engine(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(engine);
  return x;
}

template <class T>
std::vector<Complex> pairs(const std::vector<T>& x) {
  std::vector<Complex> y(x.size() / 2);
  for (size_t i = 0; i < y.size(); ++i) y[i] = {x[2 * i], x[2 * i + 1]};
  return y;
}

template <class T>
void expect_near(const std::vector<T>& actual, const std::vector<Complex>& expected, int64_t n, const char* what) {
  const double allowed = (sizeof(T) == 8 ? 1e-14 : 2e-6) * std::sqrt(static_cast<double>(n));
  ASSERT_EQ(actual.size(), 2 * expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[2 * i], expected[i].real(), allowed) << what << ", n " << n << ", element " << i;
    ASSERT_NEAR(actual[2 * i + 1], expected[i].imag(), allowed) << what << ", n " << n << ", element " << i;
  }
}

template <class T>
void check_complex(DType dtype, const FftShape& shape, bool inverse) {
  const std::vector<float> numbers = random_numbers(2 * shape.outer * shape.n * shape.inner);
  const std::vector<T> x(numbers.begin(), numbers.end());
  Array<T> in(x), out(std::vector<T>(x.size(), T(-7)));
  fft(queue(), FftKind::complex_to_complex, dtype, in.data(), out.data(), shape, inverse, 0.5);
  expect_near(out.host(), definition(pairs(x), shape, inverse, 0.5), shape.n, inverse ? "inverse" : "forward");
  EXPECT_EQ(in.host(), x);
}

}  // namespace

// Every radix, products of them, a prime above all of them and its square.
TEST(Fft, AgreesWithTheDefinition) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 11, 12, 16, 64, 121, 210, 13 * 16, 512, 1009})
    for (const bool inverse : {false, true}) check_complex<float>(DType::complex64, {3, n}, inverse);
}

// Groups of lines that are full, almost full and alone; a row or few of them, cut in two.
TEST(Fft, RowsOfEveryNumber) {
  for (const int64_t rows : {1, 2, 15, 16, 17, 40})
    for (const int64_t n : {6, 30, 256, 1200}) check_complex<float>(DType::complex64, {rows, n}, rows % 2);
}

TEST(Fft, LinesSideBySide) {
  if (!fft_takes_any_kind(device(), 1)) GTEST_SKIP() << "this device takes rows only";
  for (const int64_t inner : {2, 8, 16, 19, 35})
    for (const int64_t n : {1, 5, 24, 63}) check_complex<float>(DType::complex64, {3, n, inner}, inner % 2);
}

TEST(Fft, DoublePrecision) {
  if (!device().capabilities().fp64) GTEST_SKIP() << "no float64";
  for (const int64_t n : {8, 27, 350, 2048}) {
    check_complex<double>(DType::complex128, {1, n}, true);
    check_complex<double>(DType::complex128, {9, n}, false);
    if (fft_takes_any_kind(device(), n)) check_complex<double>(DType::complex128, {2, n, 11}, false);
  }
}

TEST(Fft, RealRowsAndTheirSpectra) {
  if (!fft_takes_any_kind(device(), 1)) GTEST_SKIP() << "this device takes complex rows only";
  for (const int64_t rows : {1, 3, 16, 21})
    for (const int64_t n : {1, 2, 3, 4, 7, 18, 45, 64, 400, 1500}) {
      const int64_t half = n / 2 + 1;
      const std::vector<float> x = random_numbers(rows * n);
      std::vector<Complex> whole(x.begin(), x.end());
      whole = definition(whole, {rows, n}, false, 0.5);
      std::vector<Complex> expected;
      for (int64_t r = 0; r < rows; ++r)
        expected.insert(expected.end(), whole.begin() + r * n, whole.begin() + r * n + half);
      Array<float> in(x), spectrum(std::vector<float>(2 * rows * half, -7.f));
      fft(queue(), FftKind::real_to_complex, DType::complex64, in.data(), spectrum.data(), {rows, n}, false, 0.5);
      expect_near(spectrum.host(), expected, n, "real to complex");
      Array<float> all(std::vector<float>(2 * rows * n, -7.f));
      fft(queue(), FftKind::real_to_complex, DType::complex64, in.data(), all.data(),
          {.outer = rows, .n = n, .whole = true}, false, 0.5);
      expect_near(all.host(), whole, n, "real to complex, whole");

      // Back, with imaginary parts that do not count.
      std::vector<float> from = spectrum.host();
      for (int64_t r = 0; r < rows; ++r) {
        from[2 * r * half + 1] = std::numeric_limits<float>::quiet_NaN();
        if (n % 2 == 0) from[2 * (r * half + half - 1) + 1] = 5;
      }
      Array<float> again(from), back(std::vector<float>(x.size(), -7.f));
      fft(queue(), FftKind::complex_to_real, DType::complex64, again.data(), back.data(), {rows, n}, true,
          2.0 / static_cast<double>(n));
      const std::vector<float> actual = back.host();
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(actual[i], x[i], 3e-6) << "complex to real, n " << n << ", rows " << rows << ", element " << i;
    }
}
