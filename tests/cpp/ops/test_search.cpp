#include "support.h"

#include "ops/histogram/histogram.h"
#include "ops/search/search.h"

#include <algorithm>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

TEST(Search, PositionsInRows) {
  const int64_t rows = 3, m = 101, n = 67;
  auto boundaries = random_values<float>(rows * m, 1, -9, 9), values = random_values<float>(rows * n, 2, -11, 11);
  for (float& b : boundaries) b = std::round(b);
  for (float& v : values) v = std::round(v);
  values[5] = NAN;
  for (int64_t row = 0; row < rows; ++row) std::sort(boundaries.begin() + row * m, boundaries.begin() + (row + 1) * m);
  Array<float> b(boundaries), v(values);
  for (bool shared : {false, true})
    for (bool right : {false, true}) {
      Array<int64_t> result(rows * n);
      search_sorted(queue(),
                    shared ? TensorView::contiguous(b.data(), DType::float32, {m})
                           : TensorView::contiguous(b.data(), DType::float32, {rows, m}),
                    TensorView::contiguous(v.data(), DType::float32, {rows, n}), {}, right,
                    TensorView::contiguous(result.data(), DType::int64, {rows, n}));
      const auto got = result.host();
      for (int64_t i = 0; i < rows * n; ++i) {
        const float* begin = boundaries.data() + (shared ? 0 : i / n * m);
        const float* at =
            right ? std::upper_bound(begin, begin + m, values[i]) : std::lower_bound(begin, begin + m, values[i]);
        EXPECT_EQ(got[i], std::isnan(values[i]) ? m : at - begin) << i;
      }
    }
}

TEST(Search, Membership) {
  Array<int32_t> x(std::vector<int32_t>{1, 5, 7, 9, -3}), sorted(std::vector<int32_t>{-3, 1, 7});
  Array<uint8_t> found(5);
  is_in_sorted(queue(), TensorView::contiguous(x.data(), DType::int32, {5}),
               TensorView::contiguous(sorted.data(), DType::int32, {3}), false,
               TensorView::contiguous(found.data(), DType::boolean, {5}));
  EXPECT_EQ(found.host(), (std::vector<uint8_t>{1, 0, 1, 0, 1}));
}

TEST(Histogram, CountsByBin) {
  auto values = random_values<float>(70001, 3, -2, 12);
  values[7] = NAN;
  values[8] = 10;
  std::vector<int64_t> want(13, 0);
  for (float v : values)
    if (v >= 0 && v <= 10) ++want[std::min<int64_t>(static_cast<int64_t>((v - 0.0f) / 10.0f * 13), 12)];
  Array<float> x(values), counts(13);
  histogram(queue(), TensorView::contiguous(x.data(), DType::float32, {70001}), 0, 10,
            TensorView::contiguous(counts.data(), DType::float32, {13}));
  EXPECT_EQ(relative_error(counts.host(), want), 0);
}

TEST(Histogram, WeightsByValue) {
  const auto bins = random_values<int64_t>(30011, 3, 0, 97);
  const auto weights = random_values<float>(bins.size(), 5, 0, 1);
  std::vector<int64_t> counts(97, 0);
  std::vector<double> sums(97, 0);
  for (size_t i = 0; i < bins.size(); ++i) ++counts[bins[i]], sums[bins[i]] += weights[i];
  Array<int64_t> x(bins), y(97);
  Array<float> w(weights), z(97);
  const TensorView view = TensorView::contiguous(x.data(), DType::int64, {30011});
  bin_count(queue(), view, {}, TensorView::contiguous(y.data(), DType::int64, {97}));
  EXPECT_EQ(y.host(), counts);
  bin_count(queue(), view, TensorView::contiguous(w.data(), DType::float32, {30011}),
            TensorView::contiguous(z.data(), DType::float32, {97}));
  EXPECT_LT(relative_error(z.host(), sums), 1e-5);
}

TEST(Histogram, WholeNumbers) {
  const auto values = random_values<int32_t>(30011, 3, -20, 200);
  std::vector<int64_t> want(12, 0);
  for (int64_t v : values)
    if (v >= -4 && v <= 131) ++want[static_cast<size_t>(std::min<int64_t>((v + 4) * 12 / 135, 11))];
  Array<int32_t> x(values), counts(12);
  histogram(queue(), TensorView::contiguous(x.data(), DType::int32, {30011}), -4, 131,
            TensorView::contiguous(counts.data(), DType::int32, {12}));
  EXPECT_EQ(relative_error(counts.host(), want), 0);
}
