#include "support.h"

#include "ops/scan/scan.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Case {
  std::vector<int64_t> sizes, strides;
  int dim;
};

std::vector<Case> cases() {
  return {
      {{1}, {1}, 0},
      {{1009}, {1}, 0},
      {{100003}, {1}, 0},
      {{501}, {3}, 0},
      {{7, 131}, {131, 1}, 1},
      {{7, 131}, {131, 1}, 0},
      {{2, 9000}, {9000, 1}, 1},
      {{5003, 19}, {19, 1}, 0},
      {{3, 50, 40}, {2000, 40, 1}, 1},
      {{300, 5}, {5, 1}, 1},
      {{4, 5, 6}, {1, 24, 4}, 1},
      {{20000, 3}, {3, 1}, 0},
      {{13, 101}, {202, 2}, 0},
  };
}

int64_t extent_of(const Case& c) {
  int64_t n = 1;
  for (size_t d = 0; d < c.sizes.size(); ++d) n += (c.sizes[d] - 1) * c.strides[d];
  return n;
}

// f(input offset, offset of the same element in a row-major output, position along the dimension), in scan order per
// row.
template <class F>
void walk(const Case& c, F&& f) {
  int64_t rows = 1;
  const int dims = static_cast<int>(c.sizes.size());
  for (int d = 0; d < dims; ++d)
    if (d != c.dim) rows *= c.sizes[d];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < c.sizes[c.dim]; ++i) {
      int64_t rest = row, offset = 0, dense = 0, stride = 1;
      for (int d = dims - 1; d >= 0; --d) {
        const int64_t k = d == c.dim ? i : rest % c.sizes[d];
        if (d != c.dim) rest /= c.sizes[d];
        offset += k * c.strides[d];
        dense += k * stride;
        stride *= c.sizes[d];
      }
      f(offset, dense, i);
    }
}

int64_t numel(const Case& c) {
  int64_t n = 1;
  for (int64_t size : c.sizes) n *= size;
  return n;
}

template <class F>
void compare(Scan op, double tolerance, double low, double high, F&& combine) {
  for (const Case& c : cases()) {
    const auto values = random_values<float>(extent_of(c), 1, low, high);
    std::vector<double> want(numel(c));
    double state = 0;
    walk(c, [&](int64_t from, int64_t to, int64_t i) {
      want[to] = state = i == 0 ? values[from] : combine(state, double(values[from]));
    });
    Array<float> x(values), y(want.size());
    scan(queue(), op, TensorView::strided(x.data(), DType::float32, c.sizes, c.strides), c.dim,
         TensorView::contiguous(y.data(), DType::float32, c.sizes));
    EXPECT_LT(relative_error(y.host(), want), tolerance) << c.sizes[0] << " dim " << c.dim;
  }
}

}  // namespace

TEST(Scan, CumulativeSum) {
  compare(Scan::cumsum, 2e-6, -1, 1, [](double a, double b) { return a + b; });
}
TEST(Scan, CumulativeProduct) {
  compare(Scan::cumprod, 1e-4, 0.999, 1.001, [](double a, double b) { return a * b; });
}
TEST(Scan, LogCumulativeSumExp) {
  compare(Scan::logcumsumexp, 1e-5, -5, 5,
          [](double a, double b) { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); });
}

TEST(Scan, CumulativeMaximumTakesTheLastOfTies) {
  for (bool with_nan : {false, true})
    for (const Case& c : cases()) {
      auto values = random_values<float>(extent_of(c));
      for (float& value : values) value = std::round(value * 9);
      for (size_t i = 90; with_nan && i < values.size(); i += 171) values[i] = NAN;
      std::vector<float> want(numel(c));
      std::vector<int64_t> want_index(numel(c));
      float state = 0;
      int64_t at = 0;
      walk(c, [&](int64_t from, int64_t to, int64_t i) {
        const float v = values[from];
        if (i == 0 || std::isnan(v) || (!std::isnan(state) && v >= state)) state = v, at = i;
        want[to] = state;
        want_index[to] = at;
      });
      Array<float> x(values), y(want.size());
      Array<int64_t> index(want.size());
      scan(queue(), Scan::cummax, TensorView::strided(x.data(), DType::float32, c.sizes, c.strides), c.dim,
           TensorView::contiguous(y.data(), DType::float32, c.sizes),
           TensorView::contiguous(index.data(), DType::int64, c.sizes));
      EXPECT_EQ(relative_error(y.host(), want), 0) << c.sizes[0] << " dim " << c.dim;
      EXPECT_EQ(index.host(), want_index) << c.sizes[0] << " dim " << c.dim;
    }
}

TEST(Scan, IntegersInPlace) {
  for (const Case& c : cases()) {
    const auto values = random_values<int64_t>(numel(c), 4, -1e9, 1e9);
    Case dense = c;
    int64_t stride = 1;
    for (int d = static_cast<int>(c.sizes.size()) - 1; d >= 0; --d) dense.strides[d] = stride, stride *= c.sizes[d];
    std::vector<int64_t> want(values.size());
    int64_t state = 0;
    walk(dense,
         [&](int64_t from, int64_t to, int64_t i) { want[to] = state = i == 0 ? values[from] : state + values[from]; });
    Array<int64_t> x(values);
    const TensorView view = TensorView::contiguous(x.data(), DType::int64, c.sizes);
    scan(queue(), Scan::cumsum, view, c.dim, view);
    EXPECT_EQ(x.host(), want);
  }
}

TEST(Scan, EmptyAndMismatch) {
  const TensorView empty = TensorView::contiguous(nullptr, DType::float32, {0, 3});
  scan(queue(), Scan::cumsum, empty, 0, empty);
  EXPECT_THROW(scan(queue(), Scan::cumsum, empty, 0, TensorView::contiguous(nullptr, DType::float32, {0, 2})),
               InvalidArgument);
}
