#include "support.h"

#include "ops/sort/sort.h"

#include <algorithm>
#include <numeric>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

template <class T>
bool before(T a, T b, bool descending) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b))
      return descending ? std::isnan(a) && !std::isnan(b) : std::isnan(b) && !std::isnan(a);
  }
  return descending ? a > b : a < b;
}

template <class T>
std::vector<int64_t> stable_order(const std::vector<T>& values, int64_t begin, int64_t n, int64_t stride,
                                  bool descending) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return before(values[begin + a * stride], values[begin + b * stride], descending);
  });
  return order;
}

template <class T>
void check_rows(DType type, int64_t rows, int64_t n, bool along_first, int64_t keep, double range, bool with_nan) {
  auto values = random_values<T>(rows * n, 7, -range, range);
  if constexpr (std::is_floating_point_v<T>) {
    for (size_t i = 0; with_nan && i < values.size(); i += 13) values[i] = i % 26 ? NAN : (i % 4 ? -0.0 : 0.0);
  }
  for (bool descending : {false, true}) {
    const std::vector<int64_t> sizes = along_first ? std::vector<int64_t>{n, rows} : std::vector<int64_t>{rows, n};
    std::vector<int64_t> out_sizes = sizes;
    out_sizes[along_first ? 0 : 1] = keep;
    Array<T> x(values), y(static_cast<size_t>(rows * keep));
    Array<int64_t> index(static_cast<size_t>(rows * keep));
    sort(queue(), TensorView::contiguous(x.data(), type, sizes), along_first ? 0 : 1, descending,
         TensorView::contiguous(y.data(), type, out_sizes),
         TensorView::contiguous(index.data(), DType::int64, out_sizes));
    const auto got = index.host();
    const auto got_values = y.host();
    for (int64_t row = 0; row < rows; ++row) {
      const auto want = stable_order(values, along_first ? row : row * n, n, along_first ? rows : 1, descending);
      for (int64_t i = 0; i < keep; ++i) {
        const int64_t at = along_first ? i * rows + row : row * keep + i;
        ASSERT_EQ(got[at], want[i]) << "row " << row << " of " << rows << " element " << i << " of " << n
                                    << " descending " << descending;
        const T expected = values[along_first ? want[i] * rows + row : row * n + want[i]];
        ASSERT_EQ(std::memcmp(&got_values[at], &expected, sizeof(T)), 0);
      }
    }
  }
}

}  // namespace

TEST(Sort, RowsOfEveryLength) {
  for (int64_t n : {1, 2, 3, 17, 33, 257, 1025, 5003})
    for (bool along_first : {false, true}) check_rows<float>(DType::float32, 5, n, along_first, n, 20, true);
}
TEST(Sort, OneLongRow) { check_rows<float>(DType::float32, 1, 100003, false, 100003, 1e6, true); }
// Runs of GPUs' blocks and tiles, whole and cut, with few distinct values.
TEST(Sort, RunsOfEveryLength) {
  for (int64_t n : {2048, 2049, 4096, 6151, 16384}) check_rows<float>(DType::float32, 2, n, n == 4096, n, 20, true);
  check_rows<int32_t>(DType::int32, 1, 200003, false, 200003, 3, false);
}
TEST(Sort, ManyShortRows) { check_rows<float>(DType::float32, 3001, 7, false, 7, 3, true); }
TEST(Sort, Integers) {
  check_rows<int64_t>(DType::int64, 3, 9001, false, 9001, 1e12, false);
  check_rows<int8_t>(DType::int8, 3, 1000, true, 1000, 100, false);
  check_rows<uint8_t>(DType::uint8, 3, 1000, false, 1000, 100, false);
  check_rows<int32_t>(DType::int32, 2, 3000, false, 3000, 1e9, false);
}
TEST(Sort, Doubles) {
  if (!device().capabilities().fp64) GTEST_SKIP() << "no fp64";
  check_rows<double>(DType::float64, 3, 9001, false, 9001, 50, true);
}
TEST(Sort, FirstElementsOnly) {
  check_rows<float>(DType::float32, 3, 20011, false, 50, 1e3, true);
  check_rows<float>(DType::float32, 3, 20011, false, 50, 0.4, false);
  check_rows<float>(DType::float32, 5, 100, true, 3, 10, true);
}

// Keys of every width; where the last element that is kept has equals on both sides, the first of them stay.
TEST(Sort, FirstElementsOfLongRows) {
  for (int64_t keep : {1, 2, 777, 1024}) {
    check_rows<float>(DType::float32, 3, 5001, true, keep, 1e3, true);
    check_rows<int64_t>(DType::int64, 2, 2053, false, keep, 1e15, false);
    check_rows<int64_t>(DType::int64, 2, 6000, false, keep, 3, false);
    check_rows<int8_t>(DType::int8, 4, 20011, false, keep, 5, false);
    check_rows<int32_t>(DType::int32, 1, 9000, false, keep, 0.5, false);
  }
  check_rows<float>(DType::float32, 1, 70001, false, 64, 1, true);
  if (device().capabilities().fp64) check_rows<double>(DType::float64, 3, 3001, false, 300, 50, true);
}

TEST(Sort, Selections) {
  const int64_t rows = 5, n = 301;
  auto values = random_values<float>(rows * n, 3, -20, 20);
  for (float& value : values) value = std::round(value);
  for (int64_t i = 0; i < n; i += 3) values[n + i] = NAN;
  Array<float> x(values), y(static_cast<size_t>(rows));
  Array<int64_t> index(static_cast<size_t>(rows));
  const auto run = [&](Selection selection, int64_t k) {
    select(queue(), selection, TensorView::contiguous(x.data(), DType::float32, {rows, n}), 1, k,
           TensorView::contiguous(y.data(), DType::float32, {rows, 1}),
           TensorView::contiguous(index.data(), DType::int64, {rows, 1}));
  };
  for (int64_t row = 0; row < rows; ++row) {
    const auto order = stable_order(values, row * n, n, 1, false);
    int64_t numbers = 0;
    for (int64_t i = 0; i < n; ++i) numbers += !std::isnan(values[row * n + i]);
    run(Selection::kth, 10);
    EXPECT_EQ(index.host()[row], order[9]);
    run(Selection::median, 0);
    EXPECT_EQ(index.host()[row], order[numbers < n ? numbers : (n - 1) / 2]);
    run(Selection::nanmedian, 0);
    EXPECT_EQ(index.host()[row], order[(numbers - 1) / 2]);
    if (numbers < n) continue;
    run(Selection::mode, 0);
    int64_t most = 0, at = 0;
    for (int64_t i = 0, start = 0; i < n; ++i) {
      if (values[row * n + order[i]] != values[row * n + order[start]]) start = i;
      if (i - start + 1 > most) most = i - start + 1, at = i;
    }
    EXPECT_EQ(y.host()[row], values[row * n + order[at]]);
  }
}

TEST(Sort, GroupsOfEqualValues) {
  auto values = random_values<float>(10007, 5, 0, 500);
  for (float& value : values) value = std::floor(value);
  Array<float> x(values), sorted(values.size()), distinct(values.size());
  Array<int64_t> order(values.size()), group(values.size()), inverse(values.size()), counts(values.size());
  const int64_t n = static_cast<int64_t>(values.size());
  const TensorView view = TensorView::contiguous(sorted.data(), DType::float32, {n});
  sort(queue(), TensorView::contiguous(x.data(), DType::float32, {n}), 0, false, view,
       TensorView::contiguous(order.data(), DType::int64, {n}));
  const int64_t groups = group_equal(queue(), view, group.data());
  write_groups(queue(), view, group.data(), order.data(), groups, distinct.data(), inverse.data(), counts.data());
  std::vector<float> want = values;
  std::sort(want.begin(), want.end());
  want.erase(std::unique(want.begin(), want.end()), want.end());
  ASSERT_EQ(groups, static_cast<int64_t>(want.size()));
  const auto got = distinct.host();
  const auto numbers = counts.host(), where = inverse.host();
  for (int64_t g = 0; g < groups; ++g) {
    EXPECT_EQ(got[g], want[g]);
    EXPECT_EQ(numbers[g], std::count(values.begin(), values.end(), want[g]));
  }
  for (int64_t i = 0; i < n; ++i) EXPECT_EQ(got[where[i]], values[i]);
}

TEST(Sort, Refusals) {
  Array<float> x(4);
  Array<int64_t> index(4);
  const TensorView complex = TensorView::contiguous(x.data(), DType::complex64, {2});
  EXPECT_THROW(sort(queue(), complex, 0, false, complex, TensorView::contiguous(index.data(), DType::int64, {2})),
               InvalidArgument);
}
