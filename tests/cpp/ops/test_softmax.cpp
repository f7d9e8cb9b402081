#include "ops/softmax/softmax.h"
#include "support.h"

#include <algorithm>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

template <class T>
void check(int64_t outer, int64_t n, int64_t inner, double tolerance) {
  const DType type = std::is_same_v<T, double> ? DType::float64 : DType::float32;
  const size_t count = outer * n * inner;
  auto x = random_values<T>(count, 1, -9, 9), g = random_values<T>(count, 2);
  x[count - 1] = -INFINITY;
  x[0] = 100;
  for (bool log : {false, true}) {
    SCOPED_TRACE(::testing::Message() << outer << "x" << n << "x" << inner << " log " << log);
    std::vector<double> y(count), dx(count);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        auto at = [&](int64_t k) { return (o * n + k) * inner + i; };
        double top = -INFINITY, sum = 0, dot = 0;
        for (int64_t k = 0; k < n; ++k) top = std::max(top, double(x[at(k)]));
        for (int64_t k = 0; k < n; ++k) sum += std::exp(x[at(k)] - top);
        for (int64_t k = 0; k < n; ++k) {
          y[at(k)] = log ? x[at(k)] - top - std::log(sum) : std::exp(x[at(k)] - top) / sum;
          dot += log ? g[at(k)] : g[at(k)] * y[at(k)];
        }
        for (int64_t k = 0; k < n; ++k)
          dx[at(k)] = log ? g[at(k)] - std::exp(y[at(k)]) * dot : y[at(k)] * (g[at(k)] - dot);
      }
    Array<T> ax(x), ag(g), ay(count), adx(count);
    SoftmaxProblem p = softmax_problem(TensorView::contiguous(ax.data(), type, {outer, n, inner}), 1, type, log);
    softmax_forward(queue(), p, ax.data(), ay.data());
    EXPECT_LT(relative_error(ay.host(), y), tolerance);
    softmax_backward(queue(), p, ag.data(), ay.data(), adx.data());
    EXPECT_LT(relative_error(adx.host(), dx), 4 * tolerance);
  }
}

}  // namespace

TEST(Softmax, Rows) {
  for (int64_t n : {1, 10, 16, 31, 1000}) check<float>(37, n, 1, 5e-6);
  // the error is relative to the root mean square, which one large value dominates
  check<float>(37, 4099, 1, 2e-5);
  check<float>(3, 32003, 1, 5e-5);
}

// Every way in which a work-group of a GPU shares out a row, with and without vectors; a row of -infinity and one with
// NaN are NaN.
TEST(Softmax, RowsOfEveryShare) {
  for (int64_t n : {64, 508, 511, 2044, 2047, 4096, 8188, 8191, 16380, 32767, 32772}) check<float>(3, n, 1, 5e-5);
  for (const int64_t n : {2000, 40001}) {
    auto x = random_values<float>(4 * n);
    std::fill(x.begin() + n, x.begin() + 2 * n, -INFINITY);
    x[2 * n + 5] = NAN;
    std::fill(x.begin(), x.begin() + n - 9, -INFINITY);
    x[3 * n + 7] = INFINITY;
    Array<float> ax(x), ay(x.size());
    softmax_forward(
        queue(), softmax_problem(TensorView::contiguous(ax.data(), DType::float32, {4, n}), 1, DType::float32, false),
        ax.data(), ay.data());
    const auto y = ay.host();
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(y[i], y[i]);
      ASSERT_NE(y[n + i], y[n + i]);
      ASSERT_NE(y[2 * n + i], y[2 * n + i]);
    }
    EXPECT_NE(y[3 * n + 7], y[3 * n + 7]);
  }
}

TEST(Softmax, Columns) {
  check<float>(3, 21, 49, 2e-6);
  check<float>(2, 7, 5, 2e-6);
  check<float>(1, 19, 1031, 2e-6);
}

TEST(Softmax, Double) {
  if (!device().capabilities().fp64) GTEST_SKIP();
  check<double>(5, 1003, 1, 1e-13);
  check<double>(3, 21, 49, 1e-13);
}

TEST(Softmax, NaNAndInfinityFollowTheRow) {
  std::vector<float> x(4 * 20, 1.0f);
  x[3] = NAN;
  x[20 + 19] = INFINITY;
  for (int i = 40; i < 60; ++i) x[i] = -INFINITY;
  Array<float> ax(x), y(x.size());
  softmax_forward(
      queue(), softmax_problem(TensorView::contiguous(ax.data(), DType::float32, {4, 20}), -1, DType::float32, false),
      ax.data(), y.data());
  const auto host = y.host();
  EXPECT_TRUE(std::isnan(host[39]));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(std::isnan(host[i]));
    EXPECT_TRUE(std::isnan(host[40 + i]));
    EXPECT_FLOAT_EQ(host[60 + i], 0.05f);
  }
}

TEST(Softmax, LogSumExp) {
  struct Case {
    int64_t outer, n, inner;
  };
  for (const auto [outer, n, inner] :
       {Case{37, 1, 1}, Case{37, 31, 1}, Case{3, 40001, 1}, Case{20, 1000, 1}, Case{3, 21, 49}, Case{1, 19, 1031}}) {
    SCOPED_TRACE(::testing::Message() << outer << "x" << n << "x" << inner);
    auto x = random_values<float>(static_cast<size_t>(outer * n * inner), 1, -9, 9);
    for (int64_t k = 0; k < n; ++k) x[static_cast<size_t>(k * inner)] = -INFINITY;  // the first sum is 0
    x[static_cast<size_t>((outer - 1) * n * inner + inner - 1)] = outer % 2 ? NAN : INFINITY;
    std::vector<double> expected(static_cast<size_t>(outer * inner));
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += std::exp(double(x[static_cast<size_t>((o * n + k) * inner + i)]));
        expected[static_cast<size_t>(o * inner + i)] = std::log(sum);
      }
    Array<float> ax(x), y(expected.size());
    const TensorView view = TensorView::contiguous(ax.data(), DType::float32, {outer, n, inner});
    logsumexp(queue(), softmax_problem(view, 1, DType::float32, false), ax.data(), y.data());
    const auto host = y.host();
    for (size_t i = 0; i < host.size(); ++i) {
      if (std::isfinite(expected[i]))
        ASSERT_NEAR(host[i], expected[i], 8 * 1.2e-7 * std::max(1.0, std::abs(expected[i]))) << i;
      else if (std::isnan(expected[i]))
        ASSERT_TRUE(std::isnan(host[i])) << i;
      else
        ASSERT_EQ(host[i], static_cast<float>(expected[i])) << i;
    }
  }
}

TEST(Softmax, EmptyDoesNothing) {
  softmax_forward(queue(),
                  softmax_problem(TensorView::contiguous(nullptr, DType::float32, {3, 0}), 1, DType::float32, true),
                  nullptr, nullptr);
}
