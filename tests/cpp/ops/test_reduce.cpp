#include "support.h"

#include "ops/reduce/plan.h"
#include "ops/reduce/reduce.h"

#include <cmath>
#include <numeric>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

using Shape = std::vector<int64_t>;

struct Case {
  Shape sizes, strides;
  DimMask dims;
};

// Shapes that hit every class: inner, column, strided, several dimensions, broadcast, splits and remainders.
std::vector<Case> cases() {
  return {
      {{1009}, {1}, 1},
      {{70001}, {1}, 1},
      {{300007}, {1}, 1},
      {{50}, {3}, 1},
      {{13, 101}, {101, 1}, 1},
      {{13, 101}, {101, 1}, 2},
      {{13, 101}, {101, 1}, 3},
      {{13, 101}, {1, 13}, 1},
      {{3000, 7}, {7, 1}, 1},
      {{20011, 67}, {67, 1}, 1},
      {{37, 1031}, {1031, 1}, 1},
      {{3, 60013}, {60013, 1}, 2},
      {{3000, 7}, {7, 1}, 2},
      {{101, 49}, {49, 1}, 2},
      {{67, 250}, {251, 1}, 2},
      {{70, 3001}, {3001, 1}, 1},
      {{520, 2100}, {2100, 1}, 1},
      {{5, 7, 11}, {77, 11, 1}, 5},
      {{5, 7, 11}, {77, 11, 1}, 2},
      {{8, 5, 7, 9}, {315, 63, 9, 1}, 13},
      {{8, 5, 7, 9}, {315, 1, 45, 5}, 13},
      {{40, 3, 50, 53}, {7950, 2650, 53, 1}, 13},
      {{6, 10, 14}, {600, 40, 2}, 2},
      {{6, 10, 14}, {600, 40, 2}, 4},
      {{6, 10, 14}, {600, 40, 2}, 7},
      {{4, 100}, {0, 1}, 1},
      {{100, 4}, {1, 0}, 2},
      {{1, 1}, {1, 1}, 3},
      {{}, {}, 0},
      {{17, 19}, {19, 1}, 0},
      {{2, 3, 4, 5, 6}, {1, 2, 6, 24, 120}, 21},
      {{2, 3, 4, 5, 6}, {1, 2, 6, 24, 120}, 10},
  };
}

int64_t extent_of(const Case& c) {
  int64_t n = 1;
  for (size_t d = 0; d < c.sizes.size(); ++d) n += (c.sizes[d] - 1) * c.strides[d];
  return n;
}

// Calls f(output number, reduced number, element offset) for every element, both in row-major order.
template <class F>
void walk(const Case& c, F&& f) {
  int64_t numel = 1;
  for (int64_t size : c.sizes) numel *= size;
  for (int64_t i = 0; i < numel; ++i) {
    int64_t rest = i, offset = 0, o = 0, r = 0, o_scale = 1, r_scale = 1;
    for (int d = static_cast<int>(c.sizes.size()) - 1; d >= 0; --d) {
      const int64_t k = rest % c.sizes[d];
      rest /= c.sizes[d];
      offset += k * c.strides[d];
      if (c.dims >> d & 1)
        r += k * r_scale, r_scale *= c.sizes[d];
      else
        o += k * o_scale, o_scale *= c.sizes[d];
    }
    f(o, r, offset);
  }
}

Shape kept_sizes(const Case& c) {
  Shape sizes;
  for (size_t d = 0; d < c.sizes.size(); ++d)
    if (!(c.dims >> d & 1)) sizes.push_back(c.sizes[d]);
  return sizes;
}

int64_t product(const Shape& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

std::string describe(const Case& c) {
  std::string text;
  for (size_t d = 0; d < c.sizes.size(); ++d)
    text += std::to_string(c.sizes[d]) + "/" + std::to_string(c.strides[d]) + " ";
  return text + "dims " + std::to_string(c.dims);
}

// op over `values` (with 5 elements of offset) into a contiguous output of type Y.
template <class Y, class X>
std::vector<Y> run(Reduction op, const Case& c, const std::vector<X>& values, DType in, DType out,
                   double parameter = 0) {
  Array<X> x(values);
  const Shape kept = kept_sizes(c);
  Array<Y> y(static_cast<size_t>(product(kept)));
  reduce(queue(), op, TensorView::strided(x.data() + 5, in, c.sizes, c.strides), c.dims,
         TensorView::contiguous(y.data(), out, kept), parameter);
  return y.host();
}

template <class X, class F>
std::vector<double> expected(const Case& c, const std::vector<X>& values, double identity, F&& f) {
  std::vector<double> y(product(kept_sizes(c)), identity);
  walk(c, [&](int64_t o, int64_t, int64_t offset) { y[o] = f(y[o], static_cast<double>(values[offset + 5])); });
  return y;
}

}  // namespace

TEST(Reduce, SumOfEveryClass) {
  for (const Case& c : cases()) {
    const auto values = random_values<float>(extent_of(c) + 5);
    const auto want = expected(c, values, 0, [](double a, double x) { return a + x; });
    EXPECT_LT(relative_error(run<float>(Reduction::sum, c, values, DType::float32, DType::float32), want), 2e-6)
        << describe(c);
  }
}

TEST(Reduce, SumIsAccurate) {
  const Case c{{5000003}, {1}, 1};
  const auto values = random_values<float>(extent_of(c) + 5, 3, 0, 1);
  const auto want = expected(c, values, 0, [](double a, double x) { return a + x; });
  EXPECT_LT(relative_error(run<float>(Reduction::sum, c, values, DType::float32, DType::float32), want), 3e-7);
  const Case rows{{100003, 20}, {20, 1}, 1};
  const auto matrix = random_values<float>(extent_of(rows) + 5, 3, 0, 1);
  const auto want_rows = expected(rows, matrix, 0, [](double a, double x) { return a + x; });
  EXPECT_LT(relative_error(run<float>(Reduction::sum, rows, matrix, DType::float32, DType::float32), want_rows), 3e-7);
}

// Rows that begin at whole vectors: GPUs read four neighbours at once, a last part singly. The greatest value appears
// twice, NaN in one row.
TEST(Reduce, AlignedRows) {
  for (const int64_t n : {1024, 4096, 4100, 33000, 300004}) {
    const int64_t rows = 5;
    auto values = random_values<float>(rows * n, n);
    for (int64_t r = 0; r < rows; ++r) values[r * n + n / 3] = values[r * n + n - 1 - r] = 2;
    values[3 * n + n / 2] = NAN;
    Array<float> x(values), sums(static_cast<size_t>(rows)), maxima(static_cast<size_t>(rows));
    Array<int64_t> first(static_cast<size_t>(rows));
    const TensorView xv = TensorView::contiguous(x.data(), DType::float32, {rows, n}),
                     to = TensorView::contiguous(sums.data(), DType::float32, {rows});
    reduce(queue(), Reduction::sum, xv, 2, to);
    reduce(queue(), Reduction::amax, xv, 2, TensorView::contiguous(maxima.data(), DType::float32, {rows}));
    reduce(queue(), Reduction::argmax, xv, 2, {}, 0, TensorView::contiguous(first.data(), DType::int64, {rows}));
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, magnitude = 0;
      for (int64_t i = 0; i < n; ++i) sum += values[r * n + i], magnitude += std::abs(values[r * n + i]);
      if (r == 3) {
        EXPECT_TRUE(std::isnan(sums.host()[r]) && std::isnan(maxima.host()[r]));
      } else {
        EXPECT_LT(std::abs(sums.host()[r] - sum), 1e-6 * magnitude) << n;
        EXPECT_EQ(maxima.host()[r], 2);
      }
      EXPECT_EQ(first.host()[r], r == 3 ? n / 2 : n / 3) << n;
    }
  }
  std::vector<int16_t> small(2 * 5000);
  for (size_t i = 0; i < small.size(); ++i) small[i] = static_cast<int16_t>(i % 701 - 300);
  Array<int16_t> x(small);
  Array<int64_t> sums(static_cast<size_t>(2));
  reduce(queue(), Reduction::sum, TensorView::contiguous(x.data(), DType::int16, {2, 5000}), 2,
         TensorView::contiguous(sums.data(), DType::int64, {2}));
  for (int64_t r = 0; r < 2; ++r)
    EXPECT_EQ(sums.host()[r], std::accumulate(small.begin() + r * 5000, small.begin() + (r + 1) * 5000, int64_t{0}));
}

TEST(Reduce, MaxPropagatesNaN) {
  for (const Case& c : cases()) {
    auto values = random_values<float>(extent_of(c) + 5);
    for (size_t i = 11; i < values.size(); i += 997) values[i] = NAN;
    const auto larger = [](double a, double x) { return std::isnan(a) || std::isnan(x) ? NAN : std::max(a, x); };
    const auto want = expected(c, values, -INFINITY, larger);
    EXPECT_EQ(relative_error(run<float>(Reduction::amax, c, values, DType::float32, DType::float32), want), 0)
        << describe(c);
  }
}

TEST(Reduce, ArgmaxIsFirstAndPrefersNaN) {
  for (bool with_nan : {false, true})
    for (const Case& c : cases()) {
      auto values = random_values<float>(extent_of(c) + 5);
      for (float& value : values) value = std::round(value * 20);  // many ties
      for (size_t i = 11; with_nan && i < values.size(); i += 331) values[i] = NAN;
      const Shape kept = kept_sizes(c);
      std::vector<int64_t> want(product(kept), -1);
      std::vector<float> best(want.size());
      walk(c, [&](int64_t o, int64_t r, int64_t offset) {
        const float v = values[offset + 5];
        // elements come in row-major order of the reduced dimensions for every output
        if (want[o] < 0 || v > best[o] || (std::isnan(v) && !std::isnan(best[o]))) want[o] = r, best[o] = v;
      });
      Array<float> x(values), y(want.size());
      Array<int64_t> index(want.size());
      reduce(queue(), Reduction::argmax, TensorView::strided(x.data() + 5, DType::float32, c.sizes, c.strides), c.dims,
             TensorView::contiguous(y.data(), DType::float32, kept), 0,
             TensorView::contiguous(index.data(), DType::int64, kept));
      EXPECT_EQ(index.host(), want) << describe(c);
      EXPECT_EQ(relative_error(y.host(), best), 0) << describe(c);
    }
}

TEST(Reduce, ArgminOfAllInfinite) {
  const Case c{{3, 100}, {100, 1}, 2};
  Array<float> x(std::vector<float>(300, INFINITY));
  Array<int64_t> index(3);
  reduce(queue(), Reduction::argmin, TensorView::contiguous(x.data(), DType::float32, {3, 100}), 2, {}, 0,
         TensorView::contiguous(index.data(), DType::int64, {3}));
  EXPECT_EQ(index.host(), std::vector<int64_t>(3, 0));
}

TEST(Reduce, IntegersAccumulateIn64Bits) {
  for (const Case& c : cases()) {
    const auto values = random_values<int8_t>(extent_of(c) + 5, 1, -100, 100);
    const auto want = expected(c, values, 0, [](double a, double x) { return a + x; });
    EXPECT_EQ(relative_error(run<int64_t>(Reduction::sum, c, values, DType::int8, DType::int64), want), 0)
        << describe(c);
    const auto largest = expected(c, values, -1e9, [](double a, double x) { return std::max(a, x); });
    EXPECT_EQ(relative_error(run<int8_t>(Reduction::amax, c, values, DType::int8, DType::int8), largest), 0)
        << describe(c);
  }
}

TEST(Reduce, LogicalAndCounts) {
  for (const Case& c : cases()) {
    auto values = random_values<float>(extent_of(c) + 5);
    for (size_t i = 0; i < values.size(); i += 3) values[i] = 0;
    const auto count = expected(c, values, 0, [](double a, double x) { return a + (x != 0); });
    const auto all = expected(c, values, 1, [](double a, double x) { return a && x != 0; });
    const auto any = expected(c, values, 0, [](double a, double x) { return a || x != 0; });
    EXPECT_EQ(relative_error(run<int64_t>(Reduction::count_nonzero, c, values, DType::float32, DType::int64), count), 0)
        << describe(c);
    EXPECT_EQ(relative_error(run<uint8_t>(Reduction::all, c, values, DType::float32, DType::boolean), all), 0)
        << describe(c);
    EXPECT_EQ(relative_error(run<uint8_t>(Reduction::any, c, values, DType::float32, DType::boolean), any), 0)
        << describe(c);
  }
}

TEST(Reduce, Norms) {
  for (const Case& c : cases()) {
    const auto values = random_values<float>(extent_of(c) + 5);
    const auto check = [&](Reduction op, double p, auto combine, auto finish, double identity = 0) {
      auto want = expected(c, values, identity, combine);
      for (double& value : want) value = finish(value);
      EXPECT_LT(relative_error(run<float>(op, c, values, DType::float32, DType::float32, p), want), 5e-6)
          << describe(c) << " p " << p;
    };
    const auto same = [](double a) { return a; };
    check(Reduction::norm_1, 1, [](double a, double x) { return a + std::abs(x); }, same);
    check(Reduction::norm_2, 2, [](double a, double x) { return a + x * x; }, [](double a) { return std::sqrt(a); });
    check(Reduction::norm_inf, 0, [](double a, double x) { return std::max(a, std::abs(x)); }, same);
    check(Reduction::norm_negative_inf, 0, [](double a, double x) { return std::min(a, std::abs(x)); }, same, INFINITY);
    check(
        Reduction::norm_p, 3, [](double a, double x) { return a + std::pow(std::abs(x), 3); },
        [](double a) { return std::cbrt(a); });
  }
}

TEST(Reduce, DoubleAndComplex) {
  if (!device().capabilities().fp64) GTEST_SKIP() << "no fp64";
  for (const Case& c : cases()) {
    const auto values = random_values<double>(extent_of(c) + 5);
    const auto want = expected(c, values, 0, [](double a, double x) { return a + x; });
    EXPECT_LT(relative_error(run<double>(Reduction::sum, c, values, DType::float64, DType::float64), want), 1e-13)
        << describe(c);
  }
  for (const Case& c : cases()) {
    const int64_t n = extent_of(c) + 5, outputs = product(kept_sizes(c));
    const auto values = random_values<float>(2 * n);
    std::vector<double> want(2 * outputs, 0);
    walk(c, [&](int64_t o, int64_t, int64_t at) {
      want[2 * o] += values[2 * (at + 5)];
      want[2 * o + 1] += values[2 * (at + 5) + 1];
    });
    Array<float> x(values), y(static_cast<size_t>(2 * outputs));
    reduce(queue(), Reduction::sum, TensorView::strided(x.data() + 10, DType::complex64, c.sizes, c.strides), c.dims,
           TensorView::contiguous(y.data(), DType::complex64, kept_sizes(c)));
    EXPECT_LT(relative_error(y.host(), want), 5e-6) << describe(c);
  }
}

TEST(Reduce, EmptyRangeGivesIdentity) {
  Array<float> y(4);
  const TensorView x = TensorView::contiguous(nullptr, DType::float32, {4, 0});
  reduce(queue(), Reduction::sum, x, 2, TensorView::contiguous(y.data(), DType::float32, {4}));
  EXPECT_EQ(y.host(), std::vector<float>(4, 0));
  reduce(queue(), Reduction::prod, x, 2, TensorView::contiguous(y.data(), DType::float32, {4, 1}));
  EXPECT_EQ(y.host(), std::vector<float>(4, 1));
  EXPECT_THROW(reduce(queue(), Reduction::sum, x, 2, TensorView::contiguous(y.data(), DType::float32, {3})),
               InvalidArgument);
}

TEST(Reduce, StridedOutputAndConversion) {
  const auto values = random_values<float>(6 * 10);
  Array<float> x(values);
  Array<int32_t> y(std::vector<int32_t>(20, -7));
  reduce(queue(), Reduction::count_nonzero, TensorView::contiguous(x.data(), DType::float32, {6, 10}), 1,
         TensorView::strided(y.data(), DType::int32, std::vector<int64_t>{1, 10}, std::vector<int64_t>{99, 2}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(y.host()[i], i % 2 ? -7 : 6);
}

TEST(Moments, VarianceAndMean) {
  for (const Case& c : cases()) {
    const auto values = random_values<float>(extent_of(c) + 5, 2, 9, 11);
    const Shape kept = kept_sizes(c);
    const size_t outputs = product(kept);
    const double n = static_cast<double>(product(c.sizes)) / outputs;
    auto mean = expected(c, values, 0, [](double a, double x) { return a + x; });
    for (double& value : mean) value /= n;
    std::vector<double> variance(outputs, 0);
    walk(c, [&](int64_t o, int64_t, int64_t at) {
      variance[o] += (values[at + 5] - mean[o]) * (values[at + 5] - mean[o]);
    });
    for (double& value : variance) value /= std::max(0.0, n - 1);
    Array<float> x(values), v(outputs), m(outputs);
    moments(queue(), TensorView::strided(x.data() + 5, DType::float32, c.sizes, c.strides), c.dims, 1, false,
            TensorView::contiguous(v.data(), DType::float32, kept),
            TensorView::contiguous(m.data(), DType::float32, kept));
    EXPECT_LT(relative_error(m.host(), mean), 1e-6) << describe(c);
    EXPECT_LT(relative_error(v.host(), variance), 1e-5) << describe(c);
  }
}

TEST(ReducePlan, StripsOfColumns) {
  const ReduceTarget target{true, 4, 1024};
  const auto plan = [&](int64_t rows, int64_t columns) {
    int dummy = 0;
    const TensorView x = TensorView::contiguous(nullptr, DType::float32, {rows, columns});
    return plan_reduce(x, 1, TensorView::contiguous(&dummy, DType::float32, {columns}), {}, false, target);
  };
  const ReducePlan small = plan(512, 520);  // a strip for every unit, nothing to add up afterwards
  EXPECT_EQ(small.shape.lanes, 144);
  EXPECT_EQ(small.tasks, 4);
  EXPECT_EQ(small.shape.splits, 1);
  const ReducePlan narrow = plan(4096, 70);  // too few strips of a sensible width
  EXPECT_EQ(narrow.shape.lanes, 64);
  EXPECT_GT(narrow.shape.splits, 1);
  const ReducePlan large = plan(4096, 3000);
  EXPECT_EQ(large.shape.lanes, 1024);
  EXPECT_EQ(large.tasks, 3 * large.shape.splits);
  EXPECT_GT(large.shape.splits, 1);
}

TEST(ReducePlan, CollapsesAndClassifies) {
  const TensorView x = TensorView::contiguous(nullptr, DType::float32, {8, 16, 4, 5});
  const ReduceTarget target{true, 4, 256};
  const auto plan = [&](DimMask dims, std::initializer_list<int64_t> sizes) {
    int dummy = 0;
    return plan_reduce(x, dims, TensorView::contiguous(&dummy, DType::float32, sizes), {}, false, target);
  };
  EXPECT_EQ(plan(12, {8, 16}).kind, ReduceKind::inner);
  EXPECT_EQ(plan(12, {8, 16}).shape.kept, 1);
  EXPECT_EQ(plan(12, {8, 16}).shape.reduced, 1);
  EXPECT_EQ(plan(13, {16}).shape.reduced, 2);
  EXPECT_EQ(plan(3, {4, 5}).kind, ReduceKind::column);
  EXPECT_EQ(plan(3, {4, 5}).shape.reduced_size[0], 128);
  const TensorView large = TensorView::contiguous(nullptr, DType::float32, {1 << 20});
  int dummy = 0;
  const ReducePlan whole = plan_reduce(large, 1, TensorView::contiguous(&dummy, DType::float32, {}), {}, false, target);
  EXPECT_GE(whole.tasks, 4);
  EXPECT_EQ(whole.tasks % 4, 0);
  EXPECT_GE(whole.shape.splits * whole.shape.chunk, 1 << 20);
}
