#include "ops/scatter/scatter.h"
#include "support.h"

#include <limits>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

std::vector<int64_t> random_index(size_t n, int64_t limit, unsigned seed = 3) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int64_t> distribution(0, limit - 1);
  std::vector<int64_t> values(n);
  for (int64_t& value : values) value = distribution(engine);
  return values;
}

uint16_t to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>(bits >> 16);
}

template <class T>
ElementBits bits_of(T value) {
  ElementBits bits;
  std::memcpy(&bits.low, &value, sizeof value);
  return bits;
}

}  // namespace

TEST(Scatter, AddAlongEveryDimension) {
  const std::array<int64_t, 3> self_sizes{6, 31, 53}, index_sizes{5, 29, 47};
  for (int dim = 0; dim < 3; ++dim)
    for (bool deterministic : {false, true}) {
      const auto x = random_values<float>(6 * 31 * 53), s = random_values<float>(5 * 29 * 47, 2);
      const auto k = random_index(5 * 29 * 47, self_sizes[dim]);
      Array<float> self(x), source(s);
      Array<int64_t> index(k);
      scatter(queue(), TensorView::contiguous(self.data(), DType::float32, self_sizes), dim,
              TensorView::contiguous(index.data(), DType::int64, index_sizes),
              TensorView::contiguous(source.data(), DType::float32, index_sizes), Combine::add, deterministic);
      std::vector<double> expected(x.begin(), x.end());
      size_t n = 0;
      for (int64_t a = 0; a < index_sizes[0]; ++a)
        for (int64_t b = 0; b < index_sizes[1]; ++b)
          for (int64_t c = 0; c < index_sizes[2]; ++c, ++n) {
            const int64_t i = dim == 0 ? k[n] : a, j = dim == 1 ? k[n] : b, l = dim == 2 ? k[n] : c;
            expected[(i * 31 + j) * 53 + l] += s[n];
          }
      EXPECT_LT(relative_error(self.host(), expected), 1e-6) << "dim " << dim << " deterministic " << deterministic;
    }
}

// Many work-items add NaN and Inf into few elements; a loop that compared floats would never end.
TEST(Scatter, AtomicAddEndsOnNaNAndInf) {
  const int64_t n = 4099;
  std::vector<float> s(n, 1.f);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<int64_t> k(n);
  for (int64_t i = 0; i < n; ++i) k[i] = i % 4;
  s[100] = nan;                  // element 0
  s[101] = inf;                  // element 1
  s[102] = inf, s[1002] = -inf;  // element 2
  for (bool deterministic : {false, true}) {
    Array<float> self(std::vector<float>(4, 0.f)), source(s);
    Array<int64_t> index(k);
    scatter(queue(), TensorView::contiguous(self.data(), DType::float32, {4}), 0,
            TensorView::contiguous(index.data(), DType::int64, {n}),
            TensorView::contiguous(source.data(), DType::float32, {n}), Combine::add, deterministic);
    const auto host = self.host();
    EXPECT_TRUE(std::isnan(host[0]));
    EXPECT_EQ(host[1], inf);
    EXPECT_TRUE(std::isnan(host[2]));
    EXPECT_EQ(host[3], 1024.f);
  }
}

TEST(Scatter, MinimumAndMaximumPropagateNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Combine combine : {Combine::minimum, Combine::maximum})
    for (bool deterministic : {false, true}) {
      Array<float> self(std::vector<float>{0, nan, 0, 5}), source(std::vector<float>{3, 1, nan, -4, 2, 7});
      Array<int64_t> index(std::vector<int64_t>{0, 1, 2, 0, 2, 3});
      scatter(queue(), TensorView::contiguous(self.data(), DType::float32, {4}), 0,
              TensorView::contiguous(index.data(), DType::int64, {6}),
              TensorView::contiguous(source.data(), DType::float32, {6}), combine, deterministic);
      const auto host = self.host();
      const bool low = combine == Combine::minimum;
      EXPECT_EQ(host[0], low ? -4 : 3);
      EXPECT_TRUE(std::isnan(host[1]));
      EXPECT_TRUE(std::isnan(host[2]));
      EXPECT_EQ(host[3], low ? 5 : 7);
    }
}

template <class T>
void integers_add(DType dtype) {
  const int64_t n = 3001, S = 13;
  std::vector<T> s(n), expected(S, T(1));
  const auto k = random_index(n, S);
  for (int64_t i = 0; i < n; ++i) {
    s[i] = static_cast<T>(i * 5);
    expected[k[i]] = static_cast<T>(expected[k[i]] + s[i]);
  }
  for (bool deterministic : {false, true}) {
    Array<T> self(std::vector<T>(S, T(1))), source(s);
    Array<int64_t> index(k);
    scatter(queue(), TensorView::contiguous(self.data(), dtype, {S}), 0,
            TensorView::contiguous(index.data(), DType::int64, {n}), TensorView::contiguous(source.data(), dtype, {n}),
            Combine::add, deterministic);
    EXPECT_EQ(self.host(), expected) << name_of(dtype);
  }
}

TEST(Scatter, AddsEveryIntegerType) {
  integers_add<uint8_t>(DType::uint8);
  integers_add<int8_t>(DType::int8);
  integers_add<int16_t>(DType::int16);
  integers_add<int32_t>(DType::int32);
  integers_add<int64_t>(DType::int64);
}

TEST(Scatter, AddsHalfTypesAndDouble) {
  const int64_t n = 200, S = 3;  // sums stay exact in bfloat16 (at most 67 ones)
  const auto k = random_index(n, S);
  std::vector<double> expected(S, 0);
  for (int64_t i : k) expected[i] += 1;
  for (bool deterministic : {false, true}) {
    Array<uint16_t> self(std::vector<uint16_t>(S, 0)), source(std::vector<uint16_t>(n, to_bfloat16(1.f)));
    Array<int64_t> index(k);
    const TensorView iv = TensorView::contiguous(index.data(), DType::int64, {n});
    scatter(queue(), TensorView::contiguous(self.data(), DType::bfloat16, {S}), 0, iv,
            TensorView::contiguous(source.data(), DType::bfloat16, {n}), Combine::add, deterministic);
    auto host = self.host();
    for (int64_t i = 0; i < S; ++i) EXPECT_EQ(host[i], to_bfloat16(static_cast<float>(expected[i])));
    Array<uint16_t> half(std::vector<uint16_t>(S, 0)), ones(std::vector<uint16_t>(n, 0x3c00));
    scatter(queue(), TensorView::contiguous(half.data(), DType::float16, {S}), 0, iv,
            TensorView::contiguous(ones.data(), DType::float16, {n}), Combine::add, deterministic);
    host = half.host();
    for (int64_t i = 0; i < S; ++i)
      EXPECT_EQ(std::ldexp(1 + (host[i] & 0x3ff) / 1024., (host[i] >> 10) - 15), expected[i]);
    if (!device().capabilities().fp64) continue;
    Array<double> wide(std::vector<double>(S, 0.)), values(std::vector<double>(n, 1.));
    scatter(queue(), TensorView::contiguous(wide.data(), DType::float64, {S}), 0, iv,
            TensorView::contiguous(values.data(), DType::float64, {n}), Combine::add, deterministic);
    EXPECT_EQ(wide.host(), expected);
  }
}

TEST(Scatter, IndexAddRows) {
  const int64_t S = 41, N = 211, D = 97;
  const auto x = random_values<float>(S * D), s = random_values<float>(N * D, 2);
  const auto k = random_index(N, S);
  std::vector<double> expected(x.begin(), x.end());
  for (int64_t n = 0; n < N; ++n)
    for (int64_t d = 0; d < D; ++d) expected[k[n] * D + d] += s[n * D + d];
  for (bool deterministic : {false, true}) {
    Array<float> self(x), source(s);
    Array<int64_t> index(k);
    index_accumulate(queue(), TensorView::contiguous(self.data(), DType::float32, {S, D}), 0,
                     TensorView::contiguous(index.data(), DType::int64, {N}),
                     TensorView::contiguous(source.data(), DType::float32, {N, D}), Combine::add, deterministic);
    EXPECT_LT(relative_error(self.host(), expected), 1e-6);
  }
}

TEST(Scatter, ValueAssignsAndMultiplies) {
  Array<float> self(std::vector<float>{1, 2, 3, 4, 5});
  Array<int64_t> index(std::vector<int64_t>{3, 1, 3});
  const TensorView sv = TensorView::contiguous(self.data(), DType::float32, {5}),
                   iv = TensorView::contiguous(index.data(), DType::int64, {3});
  scatter_value(queue(), sv, 0, iv, bits_of(3.f), Combine::multiply, false);
  EXPECT_EQ(self.host(), (std::vector<float>{1, 6, 3, 36, 5}));
  scatter_value(queue(), sv, 0, iv, bits_of(-1.f), Combine::assign, false);
  EXPECT_EQ(self.host(), (std::vector<float>{1, -1, 3, -1, 5}));
}

TEST(Scatter, BooleanAddIsOr) {
  Array<uint8_t> self(std::vector<uint8_t>{0, 0, 1}), source(std::vector<uint8_t>{1, 1, 0});
  Array<int64_t> index(std::vector<int64_t>{0, 0, 1});
  scatter(queue(), TensorView::contiguous(self.data(), DType::boolean, {3}), 0,
          TensorView::contiguous(index.data(), DType::int64, {3}),
          TensorView::contiguous(source.data(), DType::boolean, {3}), Combine::add, false);
  EXPECT_EQ(self.host(), (std::vector<uint8_t>{1, 0, 1}));
}
