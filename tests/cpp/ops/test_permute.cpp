// Copies between memory orders, bit for bit, at sizes around those of tiles and blocks.
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/permute.h"
#include "support.h"

#include <numeric>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Case {
  std::vector<int64_t> sizes;  // of the source, row-major with `gap` unused elements after every row
  std::vector<int> order;      // the result is source.permute(order), contiguous with `gap` too
  int64_t gap = 0;
};

struct Layout {
  std::vector<int64_t> strides;
  int64_t length;
};

Layout row_major(const std::vector<int64_t>& sizes, int64_t gap) {
  Layout layout{std::vector<int64_t>(sizes.size()), 1};
  for (size_t d = sizes.size(); d-- > 0;) {
    layout.strides[d] = layout.length;
    layout.length *= sizes[d] + (d + 1 == sizes.size() ? gap : 0);
  }
  return layout;
}

std::vector<PermuteDimension> dimensions_of(const Case& c, Layout& from, Layout& to) {
  std::vector<int64_t> sizes;
  for (int d : c.order) sizes.push_back(c.sizes[d]);
  from = row_major(c.sizes, c.gap), to = row_major(sizes, c.gap);
  std::vector<PermuteDimension> dimensions;
  for (size_t d = 0; d < sizes.size(); ++d) dimensions.push_back({sizes[d], from.strides[c.order[d]], to.strides[d]});
  return dimensions;
}

constexpr int64_t margin = 64;  // bytes around the result that must not change

void check(const Case& c, int64_t bytes, int64_t offset = 0) {
  Layout from, to;
  const auto dimensions = dimensions_of(c, from, to);
  std::vector<uint8_t> x((from.length + offset) * bytes), expected((to.length + offset) * bytes + 2 * margin, 0xa5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
  Array<uint8_t> source(x), result(expected);
  std::vector<int64_t> index(dimensions.size(), 0);
  const int64_t total = std::accumulate(dimensions.begin(), dimensions.end(), int64_t{1},
                                        [](int64_t n, const PermuteDimension& d) { return n * d.size; });
  for (int64_t e = 0; e < total; ++e) {
    int64_t rest = e, f = offset, t = offset;
    for (size_t d = dimensions.size(); d-- > 0;) {
      const int64_t at = rest % dimensions[d].size;
      rest /= dimensions[d].size;
      f += at * dimensions[d].from, t += at * dimensions[d].to;
    }
    std::memcpy(expected.data() + margin + t * bytes, x.data() + f * bytes, bytes);
  }
  const std::string name = ::testing::PrintToString(c.sizes) + " " + ::testing::PrintToString(c.order) + ", gap " +
                           std::to_string(c.gap) + ", " + std::to_string(bytes) + " bytes, offset " +
                           std::to_string(offset);
  ASSERT_TRUE(
      permute(queue(), bytes, source.data() + offset * bytes, result.data() + margin + offset * bytes, dimensions))
      << name;
  EXPECT_TRUE(result.host() == expected) << name;
}

}  // namespace

TEST(Permute, TransposesOfEverySize) {
  for (int64_t bytes : {1, 2, 4, 8, 16})
    for (int64_t rows : {2, 7, 15, 16, 17, 31, 65, 129})
      for (int64_t columns : {2, 5, 16, 33, 63, 130}) check({{rows, columns}, {1, 0}, 0}, bytes);
}

TEST(Permute, BatchesGapsAndOffsets) {
  for (int64_t bytes : {1, 2, 4, 8, 16})
    for (int64_t gap : {0, 1, 3})
      for (int64_t offset : {0, 3}) {
        check({{3, 19, 37}, {0, 2, 1}, gap}, bytes, offset);
        check({{3, 19, 37}, {2, 1, 0}, gap}, bytes, offset);
        check({{2, 3, 14, 18}, {0, 2, 3, 1}, gap}, bytes, offset);
        check({{2, 14, 18, 3}, {0, 3, 1, 2}, gap}, bytes, offset);
        check({{501, 4, 5}, {0, 2, 1}, gap}, bytes, offset);
        check({{2, 3, 2, 5, 3, 2, 3, 17}, {7, 5, 3, 1, 0, 2, 4, 6}, gap}, bytes, offset);
      }
}

TEST(Permute, ShortRunsMoveAsWiderElements) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t run : {2, 4}) {
      if (bytes * run > 16) continue;
      check({{33, 70, run}, {1, 0, 2}, 0}, bytes);
      check({{5, 20, 18, run}, {0, 2, 1, 3}, 0}, bytes, run);
    }
}

TEST(Permute, RunsThatStayTogether) {
  if (!queue().device().cpu_style()) GTEST_SKIP() << "left to the strided elementwise kernel";
  for (int64_t bytes : {1, 2, 4, 8, 16})
    for (int64_t run : {3, 5, 8, 13, 16, 24, 47, 64, 67, 100})
      for (int64_t gap : {0, 1}) {
        check({{7, 19, run}, {1, 0, 2}, gap}, bytes);
        check({{3, 5, 8, run}, {0, 2, 1, 3}, gap}, bytes, 3);
        check({{2, 3, 2, 5, 3, 2, run}, {5, 3, 1, 0, 2, 4, 6}, gap}, bytes, 1);
      }
}

TEST(Permute, LeavesOtherCopiesAlone) {
  Array<float> x(size_t(64)), y(size_t(64));
  const std::vector<std::vector<PermuteDimension>> others = {
      {{64, 1, 1}, {2, 100, 64}},  // few long rows
      {{8, 2, 1}, {4, 16, 8}},     // a step in the source
      {{4, 8, 1},
       {4, 1, 4},
       {2, 4, 64},
       {2, 4, 64},
       {2, 4, 64},
       {2, 4, 64},
       {2, 4, 64},
       {2, 4, 64},
       {2, 4, 64}},  // too many dimensions
  };
  for (const auto& dimensions : others) EXPECT_FALSE(permute(queue(), 4, x.data(), y.data(), dimensions));
}

TEST(Permute, CopiesOfTheElementwiseEngine) {
  const auto x = random_values<float>(6 * 50 * 21);
  Array<float> source(x), result(x.size());
  const int64_t sizes[] = {21, 6, 50}, strides[] = {1, 50 * 21, 21};
  elementwise(queue(), elementwise_row("copy"), DType::float32,
              TensorView::contiguous(result.data(), DType::float32, sizes),
              {TensorView::strided(source.data(), DType::float32, sizes, strides)});
  const auto out = result.host();
  for (int64_t i = 0; i < 21; ++i)
    for (int64_t j = 0; j < 6; ++j)
      for (int64_t k = 0; k < 50; ++k) ASSERT_EQ(out[(i * 6 + j) * 50 + k], x[(j * 50 + k) * 21 + i]);
}

TEST(Permute, PlanesOfOneRowOrColumn) {
  const auto x = random_values<float>(3 * 40);
  Array<float> source(x), result(x.size());
  transpose_planes(queue(), 4, 3, 40, 1, source.data(), result.data());
  EXPECT_EQ(result.host(), x);
  transpose_planes(queue(), 4, 3, 1, 40, source.data(), result.data());
  EXPECT_EQ(result.host(), x);
}
