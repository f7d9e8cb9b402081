#include "ops/index/index.h"
#include "ops/index/indexed_plan.h"
#include "ops/shape/shape.h"
#include "support.h"

#include <numeric>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

std::vector<int64_t> random_index(size_t n, int64_t limit, unsigned seed = 3) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int64_t> distribution(-limit, limit - 1);
  std::vector<int64_t> values(n);
  for (int64_t& value : values) value = distribution(engine);
  return values;
}

int64_t wrap(int64_t k, int64_t limit) { return k < 0 ? k + limit : k; }

void finish() {
  queue().finish();
  check_device_errors(queue());
}

}  // namespace

TEST(IndexPlan, MergesDimensionsAndPicksTheRow) {
  // index_select of rows: [7] indices, rows of 3 x 5 contiguous elements become one inner dimension of 15.
  IndexedOperands operands;
  operands.destination = TensorView::contiguous(nullptr, DType::float32, {7, 3, 5});
  operands.source = operands.index = operands.destination;
  operands.source.strides = {0, 5, 1};
  operands.index.strides = {1, 0, 0};
  operands.side = IndexSide::source;
  const IndexedPlan plan = plan_indexed(operands);
  EXPECT_EQ(plan.walk.inner, 15);
  EXPECT_EQ(plan.walk.outer, 7);
  EXPECT_EQ(plan.walk.outer_dims, 1);
  EXPECT_FALSE(plan.has_conflicts());
}

TEST(IndexPlan, KeepsConflictDimensionsInOrder) {
  // scatter_add in the last dimension: rows are free, the scattered dimension is walked in order.
  IndexedOperands operands;
  operands.destination = operands.source = operands.index = TensorView::contiguous(nullptr, DType::float32, {4, 9});
  operands.destination.strides = {20, 0};
  operands.side = IndexSide::destination;
  const IndexedPlan plan = plan_indexed(operands);
  EXPECT_TRUE(plan.has_conflicts());
  EXPECT_FALSE(plan.inner_is_free);
  EXPECT_EQ(plan.walk.inner, 9);
  EXPECT_EQ(plan.walk.outer, 4);
}

// index_select, gather and index_copy take no negative indices.
std::vector<int64_t> from_the_front(std::vector<int64_t> index, int64_t size) {
  for (int64_t& i : index) i = wrap(i, size);
  return index;
}

TEST(Index, SelectRowsAndColumns) {
  const int64_t A = 5, N = 37, D = 131;
  const auto x = random_values<float>(A * N * D);
  const auto index = from_the_front(random_index(53, N), N);
  Array<float> self(x);
  Array<int64_t> indices(index);
  const TensorView sv = TensorView::contiguous(self.data(), DType::float32, {A, N, D});
  Array<float> out(A * 53 * D);
  index_select(queue(), TensorView::contiguous(out.data(), DType::float32, {A, 53, D}), sv, 1,
               TensorView::contiguous(indices.data(), DType::int64, {53}));
  finish();
  std::vector<float> expected;
  for (int64_t a = 0; a < A; ++a)
    for (int64_t k : index)
      for (int64_t d = 0; d < D; ++d) expected.push_back(x[(a * N + k) * D + d]);
  EXPECT_EQ(out.host(), expected);

  const auto columns = from_the_front(random_index(53, D), D);
  Array<int64_t> column_indices(columns);
  Array<float> narrow(A * N * 53);
  index_select(queue(), TensorView::contiguous(narrow.data(), DType::float32, {A, N, 53}), sv, -1,
               TensorView::contiguous(column_indices.data(), DType::int64, {53}));
  finish();
  expected.clear();
  for (int64_t r = 0; r < A * N; ++r)
    for (int64_t k : columns) expected.push_back(x[r * D + k]);
  EXPECT_EQ(narrow.host(), expected);
}

// Whole rows of a matrix, which CPU-style kernels copy in runs; wide enough for a vector and a rest.
template <class T>
void select_rows_matches(DType dtype) {
  const int64_t N = 41, D = 77;
  std::vector<T> x(N * D);
  std::iota(x.begin(), x.end(), T(1));
  const auto index = from_the_front(random_index(90, N), N);
  const std::vector<int> narrow(index.begin(), index.end());
  Array<T> self(x), out(90 * D), second(90 * D);
  Array<int64_t> indices(index);
  Array<int> narrow_indices(narrow);
  const TensorView sv = TensorView::contiguous(self.data(), dtype, {N, D});
  index_select(queue(), TensorView::contiguous(out.data(), dtype, {90, D}), sv, 0,
               TensorView::contiguous(indices.data(), DType::int64, {90}));
  index_select(queue(), TensorView::contiguous(second.data(), dtype, {90, D}), sv, 0,
               TensorView::contiguous(narrow_indices.data(), DType::int32, {90}));
  finish();
  std::vector<T> expected;
  for (int64_t k : index) expected.insert(expected.end(), x.begin() + k * D, x.begin() + (k + 1) * D);
  EXPECT_EQ(out.host(), expected);
  EXPECT_EQ(second.host(), expected);
}

TEST(Index, SelectRowsMovesEveryWidth) {
  select_rows_matches<uint8_t>(DType::uint8);
  select_rows_matches<int16_t>(DType::int16);
  select_rows_matches<float>(DType::float32);
  select_rows_matches<int64_t>(DType::int64);
}

// Rows that a part of a work-group, a whole one or several rounds of it copy.
TEST(Index, SelectRowsOfManyWidths) {
  for (const int64_t width : {8, 9, 31, 36, 255, 1024, 1027, 5003}) {
    const int64_t rows = 13, picked = 70;
    std::vector<float> x(rows * width);
    std::iota(x.begin(), x.end(), 1.f);
    const auto index = from_the_front(random_index(picked, rows), rows);
    Array<float> self(x), out(picked * width);
    Array<int64_t> indices(index);
    index_select(queue(), TensorView::contiguous(out.data(), DType::float32, {picked, width}),
                 TensorView::contiguous(self.data(), DType::float32, {rows, width}), 0,
                 TensorView::contiguous(indices.data(), DType::int64, {picked}));
    finish();
    std::vector<float> expected;
    for (int64_t k : index) expected.insert(expected.end(), x.begin() + k * width, x.begin() + (k + 1) * width);
    EXPECT_EQ(out.host(), expected) << width;
  }
}

TEST(Index, RowOutOfRangeIsReportedAndTheOthersAreCopied) {
  const int64_t N = 5, D = 40;
  const auto x = random_values<float>(N * D);
  Array<float> self(x), out(std::vector<float>(3 * D, -1.f));
  Array<int64_t> indices(std::vector<int64_t>{4, 5, 0});
  index_select(queue(), TensorView::contiguous(out.data(), DType::float32, {3, D}),
               TensorView::contiguous(self.data(), DType::float32, {N, D}), 0,
               TensorView::contiguous(indices.data(), DType::int64, {3}));
  EXPECT_THROW(finish(), std::runtime_error);
  std::vector<float> expected(x.begin() + 4 * D, x.end());
  expected.resize(2 * D, -1.f);
  expected.insert(expected.end(), x.begin(), x.begin() + D);
  EXPECT_EQ(out.host(), expected);
}

template <class T>
void gather_matches(DType dtype) {
  const int64_t R = 67, S = 129, N = 43;
  std::vector<T> x(R * S);
  std::iota(x.begin(), x.end(), T(1));
  const auto index = from_the_front(random_index(R * N, S), S);
  Array<T> self(x), out(R * N);
  Array<int64_t> indices(index);
  gather(queue(), TensorView::contiguous(out.data(), dtype, {R, N}), TensorView::contiguous(self.data(), dtype, {R, S}),
         1, TensorView::contiguous(indices.data(), DType::int64, {R, N}));
  finish();
  std::vector<T> expected;
  for (int64_t i = 0; i < R * N; ++i) expected.push_back(x[i / N * S + index[i]]);
  EXPECT_EQ(out.host(), expected);
}

TEST(Index, GatherMovesEveryWidth) {
  gather_matches<uint8_t>(DType::uint8);
  gather_matches<int16_t>(DType::int16);
  gather_matches<float>(DType::float32);
  gather_matches<int64_t>(DType::int64);
}

TEST(Index, GatherFromTransposedWithInt32Indices) {
  const int64_t R = 13, S = 29, N = 17;
  const auto x = random_values<float>(R * S);
  std::vector<int> index(N * R);
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int>((i * 7) % S);
  Array<float> self(x), out(N * R);
  Array<int> indices(index);
  // self is [S, R] seen through the strides of an [R, S] array
  const std::array<int64_t, 2> sizes{S, R}, strides{1, S};
  gather(queue(), TensorView::contiguous(out.data(), DType::float32, {N, R}),
         TensorView::strided(self.data(), DType::float32, sizes, strides), 0,
         TensorView::contiguous(indices.data(), DType::int32, {N, R}));
  finish();
  std::vector<float> expected;
  for (int64_t n = 0; n < N; ++n)
    for (int64_t r = 0; r < R; ++r) expected.push_back(x[r * S + index[n * R + r]]);
  EXPECT_EQ(out.host(), expected);
}

TEST(Index, TwoIndicesReadAndWrite) {
  // out[n, d] = self[i[n], d, j[n]]
  const int64_t I = 11, Dd = 7, J = 13, N = 101;
  const auto x = random_values<float>(I * Dd * J);
  const auto i = random_index(N, I, 5), j = random_index(N, J, 6);
  Array<float> self(x), out(N * Dd);
  Array<int64_t> iv(i), jv(j);
  const std::array<int64_t, 2> shape{N, Dd}, self_strides{0, J}, index_strides{1, 0};
  const std::array<TensorView, 2> indices{TensorView::strided(iv.data(), DType::int64, shape, index_strides),
                                          TensorView::strided(jv.data(), DType::int64, shape, index_strides)};
  const std::array<int64_t, 2> sizes{I, J}, strides{Dd * J, 1};
  const AdvancedIndex at{TensorView::strided(self.data(), DType::float32, shape, self_strides), indices, sizes,
                         strides};
  index(queue(), TensorView::contiguous(out.data(), DType::float32, {N, Dd}), at);
  finish();
  std::vector<float> expected;
  for (int64_t n = 0; n < N; ++n)
    for (int64_t d = 0; d < Dd; ++d) expected.push_back(x[(wrap(i[n], I) * Dd + d) * J + wrap(j[n], J)]);
  EXPECT_EQ(out.host(), expected);

  for (bool deterministic : {false, true}) {
    Array<float> target(x);
    const auto v = random_values<float>(N * Dd, 9);
    Array<float> values(v);
    AdvancedIndex to = at;
    to.self.data = target.data();
    index_put(queue(), to, TensorView::contiguous(values.data(), DType::float32, {N, Dd}), true, deterministic);
    finish();
    std::vector<double> sums(x.begin(), x.end());
    for (int64_t n = 0; n < N; ++n)
      for (int64_t d = 0; d < Dd; ++d) sums[(wrap(i[n], I) * Dd + d) * J + wrap(j[n], J)] += v[n * Dd + d];
    EXPECT_LT(relative_error(target.host(), sums), 1e-6);
  }
}

TEST(Index, PutWritesTheLastValueWhenDeterministic) {
  const int64_t N = 5003, S = 97;
  const auto index = random_index(N, S);
  const auto v = random_values<float>(N);
  Array<float> self(std::vector<float>(S, 0.f)), source(v);
  Array<int64_t> indices(index);
  put(queue(), TensorView::contiguous(self.data(), DType::float32, {S}),
      TensorView::contiguous(indices.data(), DType::int64, {N}),
      TensorView::contiguous(source.data(), DType::float32, {N}), false, true);
  finish();
  std::vector<float> expected(S, 0.f);
  for (int64_t n = 0; n < N; ++n) expected[wrap(index[n], S)] = v[n];
  EXPECT_EQ(self.host(), expected);
}

TEST(Index, FillAndCopy) {
  const int64_t A = 3, S = 19, D = 23;
  const auto x = random_values<float>(A * S * D);
  const std::vector<int64_t> index{4, -1, 7};
  Array<float> self(x);
  Array<int64_t> indices(index);
  const TensorView sv = TensorView::contiguous(self.data(), DType::float32, {A, S, D});
  ElementBits bits;
  const float value = 2.5f;
  std::memcpy(&bits.low, &value, 4);
  index_fill(queue(), sv, 1, TensorView::contiguous(indices.data(), DType::int64, {3}), bits);
  const auto s = random_values<float>(A * 3 * D, 8);
  auto expected = x;
  for (int64_t a = 0; a < A; ++a)
    for (int64_t k : index)
      for (int64_t d = 0; d < D; ++d) expected[(a * S + wrap(k, S)) * D + d] = value;
  finish();
  EXPECT_EQ(self.host(), expected);
  Array<float> source(s);
  Array<int64_t> front(from_the_front(index, S));
  index_copy(queue(), sv, 1, TensorView::contiguous(front.data(), DType::int64, {3}),
             TensorView::contiguous(source.data(), DType::float32, {A, 3, D}), false);
  finish();
  for (int64_t a = 0; a < A; ++a)
    for (size_t n = 0; n < 3; ++n)
      for (int64_t d = 0; d < D; ++d) expected[(a * S + wrap(index[n], S)) * D + d] = s[(a * 3 + n) * D + d];
  EXPECT_EQ(self.host(), expected);
}

TEST(Index, OutOfRangeIsReportedAndNothingIsTouched) {
  std::vector<float> x(64, 1.f);
  Array<float> self(x), source(std::vector<float>(4, 9.f));
  Array<int64_t> indices(std::vector<int64_t>{2, 64, -65, int64_t(1) << 40});
  put(queue(), TensorView::contiguous(self.data(), DType::float32, {64}),
      TensorView::contiguous(indices.data(), DType::int64, {4}),
      TensorView::contiguous(source.data(), DType::float32, {4}), false, false);
  try {
    finish();
    FAIL() << "nothing was reported";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("index out of range in put_"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("with size 64"), std::string::npos) << error.what();
  }
  x[2] = 9.f;
  EXPECT_EQ(self.host(), x);
  EXPECT_NO_THROW(finish());  // reported once
  const std::vector<int64_t> good{0, 1, 2, 3};
  Array<int64_t> in_range(good);
  put(queue(), TensorView::contiguous(self.data(), DType::float32, {64}),
      TensorView::contiguous(in_range.data(), DType::int64, {4}),
      TensorView::contiguous(source.data(), DType::float32, {4}), false, false);
  EXPECT_NO_THROW(finish());
}

TEST(Index, NegativeIndicesOfGatherAreOutOfRange) {
  Array<float> self(std::vector<float>{1, 2, 3, 4}), out(std::vector<float>{-1, -1});
  Array<int64_t> i(std::vector<int64_t>{1, -1});
  gather(queue(), TensorView::contiguous(out.data(), DType::float32, {2}),
         TensorView::contiguous(self.data(), DType::float32, {4}), 0,
         TensorView::contiguous(i.data(), DType::int64, {2}));
  EXPECT_THROW(finish(), std::runtime_error);
  EXPECT_EQ(out.host(), (std::vector<float>{2, -1}));
}

TEST(Index, OneBadOfTwoIndicesSkipsTheElement) {
  Array<float> self(std::vector<float>{1, 2, 3, 4}), out(std::vector<float>{-1, -1});
  Array<int64_t> i(std::vector<int64_t>{1, 5}), j(std::vector<int64_t>{0, 1});
  const std::array<int64_t, 1> shape{2}, zero{0}, one{1};
  const std::array<TensorView, 2> indices{TensorView::strided(i.data(), DType::int64, shape, one),
                                          TensorView::strided(j.data(), DType::int64, shape, one)};
  const std::array<int64_t, 2> sizes{2, 2}, strides{2, 1};
  index(queue(), TensorView::contiguous(out.data(), DType::float32, {2}),
        {TensorView::strided(self.data(), DType::float32, shape, zero), indices, sizes, strides});
  EXPECT_THROW(finish(), std::runtime_error);
  EXPECT_EQ(out.host(), (std::vector<float>{3, -1}));
}

TEST(Index, FlipAndRoll) {
  const int64_t A = 3, B = 5, C = 7;
  const auto x = random_values<float>(A * B * C);
  Array<float> self(x), out(A * B * C);
  const TensorView sv = TensorView::contiguous(self.data(), DType::float32, {A, B, C}),
                   ov = TensorView::contiguous(out.data(), DType::float32, {A, B, C});
  const std::array<int, 2> dims{0, -1};
  flip(queue(), ov, sv, dims);
  std::vector<float> expected;
  for (int64_t a = 0; a < A; ++a)
    for (int64_t b = 0; b < B; ++b)
      for (int64_t c = 0; c < C; ++c) expected.push_back(x[((A - 1 - a) * B + b) * C + C - 1 - c]);
  EXPECT_EQ(out.host(), expected);
  const std::array<int64_t, 2> shifts{-1, 10};
  roll(queue(), ov, sv, shifts, dims);
  for (int64_t a = 0; a < A; ++a)
    for (int64_t b = 0; b < B; ++b)
      for (int64_t c = 0; c < C; ++c) expected[((a + A - 1) % A * B + b) * C + (c + 10) % C] = x[(a * B + b) * C + c];
  EXPECT_EQ(out.host(), expected);
}

TEST(Index, ZeroSizesDoNothing) {
  const TensorView empty = TensorView::contiguous(nullptr, DType::float32, {0, 4}),
                   none = TensorView::contiguous(nullptr, DType::int64, {0});
  Array<float> self(std::vector<float>{1, 2, 3, 4});
  index_select(queue(), empty, TensorView::contiguous(self.data(), DType::float32, {1, 4}), 0, none);
  put(queue(), TensorView::contiguous(self.data(), DType::float32, {4}), none,
      TensorView::contiguous(nullptr, DType::float32, {0}), true, true);
  finish();
  EXPECT_EQ(self.host(), (std::vector<float>{1, 2, 3, 4}));
}
