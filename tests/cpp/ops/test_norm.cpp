#include "ops/norm/batch_norm.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct BatchNormCase {
  int64_t n, c, p;
  bool rows;  // channels last
};

template <class T>
constexpr DType dtype_of = std::is_same_v<T, double> ? DType::float64 : DType::float32;

size_t at(const BatchNormCase& s, int64_t n, int64_t c, int64_t p) {
  return s.rows ? (n * s.p + p) * s.c + c : (n * s.c + c) * s.p + p;
}

TensorView view(const BatchNormCase& s, void* data, DType type) {
  const std::array<int64_t, 3> sizes{s.n, s.c, s.p},
      strides{s.rows ? s.p * s.c : s.c * s.p, s.rows ? 1 : s.p, s.rows ? s.c : 1};
  return TensorView::strided(data, type, sizes, strides);
}

struct Statistics {
  std::vector<double> mean, variance;
};

template <class T>
Statistics statistics(const BatchNormCase& s, const std::vector<T>& x) {
  Statistics r{std::vector<double>(s.c), std::vector<double>(s.c)};
  for (int64_t c = 0; c < s.c; ++c) {
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t p = 0; p < s.p; ++p) r.mean[c] += x[at(s, n, c, p)] / double(s.n * s.p);
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t p = 0; p < s.p; ++p) r.variance[c] += std::pow(x[at(s, n, c, p)] - r.mean[c], 2) / double(s.n * s.p);
  }
  return r;
}

template <class T>
void check_batch_norm(const BatchNormCase& s, bool training, bool affine) {
  SCOPED_TRACE(::testing::Message() << s.n << "x" << s.c << "x" << s.p << " rows " << s.rows << " training "
                                    << training);
  const size_t count = s.n * s.c * s.p;
  const DType type = dtype_of<T>;
  auto x = random_values<T>(count, 1, 2, 5), g = random_values<T>(count, 2), w = random_values<T>(s.c, 3),
       b = random_values<T>(s.c, 4);
  auto rm = random_values<T>(s.c, 5), rv = random_values<T>(s.c, 6, 0.5, 2);
  Array<T> dx(x), dg(g), dw(w), db(b), drm(rm), drv(rv), y(count), mean(s.c), invstd(s.c), gx(count), gw(s.c), gb(s.c);
  auto vector = [&](const Array<T>& a) { return TensorView::contiguous(a.data(), type, {s.c}); };
  const double eps = 1e-5, momentum = 0.2;
  BatchNormForward f{view(s, dx.data(), type),
                     view(s, y.data(), type),
                     {},
                     {},
                     vector(drm),
                     vector(drv),
                     vector(mean),
                     vector(invstd),
                     training,
                     momentum,
                     eps};
  if (affine) f.weight = vector(dw), f.bias = vector(db);
  batch_norm_forward(queue(), f);

  Statistics t = statistics(s, x);
  std::vector<double> expected(count), new_mean(s.c), new_var(s.c), k(s.c), inv(s.c);
  for (int64_t c = 0; c < s.c; ++c) {
    new_mean[c] = training ? (1 - momentum) * rm[c] + momentum * t.mean[c] : rm[c];
    new_var[c] = training ? (1 - momentum) * rv[c] + momentum * t.variance[c] * (s.n * s.p) / (s.n * s.p - 1.0) : rv[c];
    if (!training) t.mean[c] = rm[c], t.variance[c] = rv[c];
    inv[c] = 1 / std::sqrt(t.variance[c] + eps);
    k[c] = inv[c] * (affine ? w[c] : 1);
  }
  std::vector<double> sum(s.c), dot(s.c), egx(count), egw(s.c);
  auto each = [&](auto f) {
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t c = 0; c < s.c; ++c)
        for (int64_t p = 0; p < s.p; ++p) f(c, at(s, n, c, p));
  };
  each([&](int64_t c, size_t i) {
    expected[i] = (x[i] - t.mean[c]) * k[c] + (affine ? b[c] : 0);
    sum[c] += g[i];
    dot[c] += g[i] * (x[i] - t.mean[c]);
  });
  const double m = s.n * s.p, tolerance = type == DType::float64 ? 1e-11 : 2e-5;
  each([&](int64_t c, size_t i) {
    egx[i] = training ? k[c] * (g[i] - sum[c] / m - (x[i] - t.mean[c]) * dot[c] * inv[c] * inv[c] / m) : k[c] * g[i];
  });
  for (int64_t c = 0; c < s.c; ++c) egw[c] = dot[c] * inv[c];
  EXPECT_LT(relative_error(y.host(), expected), tolerance);
  EXPECT_LT(relative_error(drm.host(), new_mean), tolerance);
  EXPECT_LT(relative_error(drv.host(), new_var), tolerance);
  if (training) {
    EXPECT_LT(relative_error(mean.host(), t.mean), tolerance);
    EXPECT_LT(relative_error(invstd.host(), inv), tolerance);
  }
  BatchNormBackward r{
      view(s, dg.data(), type), f.x,        f.weight,   vector(drm), vector(drv), vector(mean), vector(invstd),
      view(s, gx.data(), type), vector(gw), vector(gb), training,    eps};
  batch_norm_backward(queue(), r);
  EXPECT_LT(relative_error(gx.host(), egx), 10 * tolerance);
  EXPECT_LT(relative_error(gw.host(), egw), 10 * tolerance);
  EXPECT_LT(relative_error(gb.host(), sum), 10 * tolerance);
}

const BatchNormCase cases[] = {{2, 67, 49, false}, {3, 5, 7, false},   {1, 3, 16411, false}, {5, 3, 4099, false},
                               {37, 131, 1, true}, {37, 5, 1, true},   {3, 67, 49, true},    {2, 3, 1031, true},
                               {2, 16, 5, true},   {3, 40, 256, false}};

}  // namespace

TEST(BatchNorm, TrainingMatchesReference) {
  for (const BatchNormCase& s : cases) check_batch_norm<float>(s, true, true);
  check_batch_norm<float>(cases[0], true, false);
}

TEST(BatchNorm, InferenceMatchesReference) {
  for (const BatchNormCase& s : cases) check_batch_norm<float>(s, false, true);
  check_batch_norm<float>(cases[6], false, false);
}

TEST(BatchNorm, Double) {
  if (!device().capabilities().fp64) GTEST_SKIP();
  for (const BatchNormCase& s : cases) check_batch_norm<double>(s, true, true);
}

TEST(BatchNorm, NaNStaysInItsChannel) {
  const BatchNormCase s{2, 9, 49, false};
  auto x = random_values<float>(2 * 9 * 49);
  x[at(s, 1, 4, 48)] = NAN;
  Array<float> dx(x), y(x.size());
  batch_norm_forward(
      queue(),
      {view(s, dx.data(), DType::float32), view(s, y.data(), DType::float32), {}, {}, {}, {}, {}, {}, true, 0.1, 1e-5});
  const auto host = y.host();
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t c = 0; c < 9; ++c)
      for (int64_t p = 0; p < 49; ++p) EXPECT_EQ(std::isnan(host[at(s, n, c, p)]), c == 4);
}

TEST(BatchNorm, RefusesWhatItCannotDo) {
  Array<float> x(24), y(24);
  const int64_t sizes[] = {2, 3, 2, 2}, strides[] = {1, 2, 12, 6};
  EXPECT_FALSE(batch_norm_takes(TensorView::strided(x.data(), DType::float32, sizes, strides)));
  EXPECT_THROW(batch_norm_forward(queue(), {TensorView::contiguous(x.data(), DType::int32, {2, 3, 4}), {}}),
               InvalidArgument);
  batch_norm_forward(queue(), {TensorView::contiguous(nullptr, DType::float32, {0, 3, 4}),
                               TensorView::contiguous(nullptr, DType::float32, {0, 3, 4})});
}
