#include "ops/norm/layer_norm.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// Reference over `rows` rows of n elements; element i of a row has parameter number channel(row, i).
struct Reference {
  std::vector<double> y, dx, dw, db;

  template <class T, class Channel>
  Reference(int64_t rows, int64_t n, int64_t parameters, bool rms, double eps, const std::vector<T>& x,
            const std::vector<T>& g, const std::vector<T>& w, const std::vector<T>& b, Channel channel)
      : y(rows * n), dx(rows * n), dw(parameters), db(parameters) {
    for (int64_t r = 0; r < rows; ++r) {
      double mean = 0, var = 0, sum = 0, dot = 0;
      for (int64_t i = 0; i < n && !rms; ++i) mean += x[r * n + i] / double(n);
      for (int64_t i = 0; i < n; ++i) var += std::pow(x[r * n + i] - mean, 2) / double(n);
      const double rstd = 1 / std::sqrt(var + eps);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t c = channel(r, i);
        const double h = (x[r * n + i] - mean) * rstd, u = double(g[r * n + i]) * w[c];
        y[r * n + i] = h * w[c] + (rms ? 0 : b[c]);
        dw[c] += g[r * n + i] * h;
        db[c] += g[r * n + i];
        sum += u / n;
        dot += u * h / n;
      }
      for (int64_t i = 0; i < n; ++i) {
        const double h = (x[r * n + i] - mean) * rstd, u = double(g[r * n + i]) * w[channel(r, i)];
        dx[r * n + i] = rstd * (u - (rms ? 0 : sum) - h * dot);
      }
    }
  }
};

template <class T>
void check_layer(int64_t rows, int64_t n, bool rms, double tolerance) {
  SCOPED_TRACE(::testing::Message() << rows << "x" << n << " rms " << rms);
  const DType type = std::is_same_v<T, double> ? DType::float64 : DType::float32;
  const auto x = random_values<T>(rows * n, 1, 1, 3), g = random_values<T>(rows * n, 2), w = random_values<T>(n, 3),
             b = random_values<T>(n, 4);
  const Reference r(rows, n, n, rms, 1e-5, x, g, w, b, [](int64_t, int64_t i) { return i; });
  Array<T> ax(x), ag(g), aw(w), ab(b), y(rows * n), mean(rows), rstd(rows), dx(rows * n), dw(n), db(n);
  const LayerNormProblem p{type, type, rows, n, rms, 1e-5};
  layer_norm_forward(queue(), p, ax.data(), aw.data(), rms ? nullptr : ab.data(), y.data(), rms ? nullptr : mean.data(),
                     rstd.data());
  EXPECT_LT(relative_error(y.host(), r.y), tolerance);
  layer_norm_backward(queue(), p, ag.data(), ax.data(), mean.data(), rstd.data(), aw.data(), dx.data(), dw.data(),
                      rms ? nullptr : db.data());
  EXPECT_LT(relative_error(dx.host(), r.dx), 10 * tolerance);
  EXPECT_LT(relative_error(dw.host(), r.dw), 10 * tolerance);
  if (!rms) {
    EXPECT_LT(relative_error(db.host(), r.db), 10 * tolerance);
  }
}

void check_group(int64_t batch, int64_t channels, int64_t inner, int64_t groups) {
  SCOPED_TRACE(::testing::Message() << batch << "x" << channels << "x" << inner << " groups " << groups);
  const int64_t count = batch * channels * inner, members = channels / groups;
  const auto x = random_values<float>(count, 1, 1, 3), g = random_values<float>(count, 2),
             w = random_values<float>(channels, 3), b = random_values<float>(channels, 4);
  const Reference r(batch * groups, members * inner, channels, false, 1e-5, x, g, w, b,
                    [&](int64_t row, int64_t i) { return row % groups * members + i / inner; });
  Array<float> ax(x), ag(g), aw(w), ab(b), y(count), mean(batch * groups), rstd(batch * groups), dx(count),
      dw(channels), db(channels);
  const GroupNormProblem p{DType::float32, DType::float32, batch, channels, inner, groups, 1e-5};
  group_norm_forward(queue(), p, ax.data(), aw.data(), ab.data(), y.data(), mean.data(), rstd.data());
  EXPECT_LT(relative_error(y.host(), r.y), 1e-5);
  group_norm_backward(queue(), p, ag.data(), ax.data(), mean.data(), rstd.data(), aw.data(), dx.data(), dw.data(),
                      db.data());
  EXPECT_LT(relative_error(dx.host(), r.dx), 1e-4);
  EXPECT_LT(relative_error(dw.host(), r.dw), 1e-4);
  EXPECT_LT(relative_error(db.host(), r.db), 1e-4);
}

}  // namespace

TEST(LayerNorm, MatchesReference) {
  for (bool rms : {false, true})
    for (auto [rows, n] : {std::pair<int64_t, int64_t>{37, 64}, {5, 7}, {131, 1003}, {1, 4099}, {1031, 33}})
      check_layer<float>(rows, n, rms, 1e-5);
}

TEST(LayerNorm, Double) {
  if (!device().capabilities().fp64) GTEST_SKIP();
  check_layer<double>(17, 1003, false, 1e-12);
}

TEST(GroupNorm, MatchesReference) {
  check_group(2, 32, 49, 4);
  check_group(3, 6, 5, 3);
  check_group(1, 8, 1031, 1);
  check_group(5, 12, 1, 4);
}
