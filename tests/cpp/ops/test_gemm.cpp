#include "support.h"

#include "ops/gemm/gemm.h"
#include "ops/gemm/panel_plan.h"

#include <complex>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// Element types of the tests as bits, converted by hand.
template <class T>
struct Element;
template <>
struct Element<float> {
  static constexpr DType dtype = DType::float32;
  static constexpr double tolerance = 2e-5;
  static float from(double v) { return static_cast<float>(v); }
  static double to(float v) { return v; }
};
template <>
struct Element<double> {
  static constexpr DType dtype = DType::float64;
  static constexpr double tolerance = 1e-13;
  static double from(double v) { return v; }
  static double to(double v) { return v; }
};
struct BFloat16 {
  uint16_t bits;
};
template <>
struct Element<BFloat16> {
  static constexpr DType dtype = DType::bfloat16;
  static constexpr double tolerance = 2e-2;
  static BFloat16 from(double v) {
    float f = static_cast<float>(v);
    uint32_t b;
    std::memcpy(&b, &f, 4);
    return {static_cast<uint16_t>((b + 0x7fff + ((b >> 16) & 1)) >> 16)};
  }
  static double to(BFloat16 v) {
    uint32_t b = uint32_t{v.bits} << 16;
    float f;
    std::memcpy(&f, &b, 4);
    return f;
  }
};
template <>
struct Element<_Float16> {
  static constexpr DType dtype = DType::float16;
  static constexpr double tolerance = 3e-3;
  static _Float16 from(double v) { return static_cast<_Float16>(v); }
  static double to(_Float16 v) { return static_cast<double>(v); }
};
template <>
struct Element<int32_t> {
  static constexpr DType dtype = DType::int32;
  static constexpr double tolerance = 0;
  static int32_t from(double v) { return static_cast<int32_t>(v * 10); }
  static double to(int32_t v) { return v; }
};

enum class Layout { row_major, transposed, gaps };  // gaps: neither stride is 1

MatrixStrides strides_of(Layout layout, int64_t rows, int64_t columns) {
  switch (layout) {
    case Layout::row_major: return {rows * (columns + 3), columns + 3, 1};
    case Layout::transposed: return {columns * (rows + 1), 1, rows + 1};
    default: return {rows * columns * 6, columns * 6, 2};
  }
}
size_t extent(const MatrixStrides& s, int64_t batch, int64_t rows, int64_t columns) {
  return rows * columns == 0 ? 1 : 1 + (batch - 1) * s[0] + (rows - 1) * s[1] + (columns - 1) * s[2];
}

struct Case {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Layout a = Layout::row_major, b = Layout::row_major, c = Layout::row_major;
  double alpha = 1, beta = 0;
  bool bias = false;  // d is a row, broadcast; otherwise d is c
  Activation activation = Activation::none;
};

template <class T>
void check(const Case& t, const GemmAlgorithm* algorithm = nullptr) {
  using E = Element<T>;
  if (E::dtype == DType::float64 && !device().capabilities().fp64) GTEST_SKIP();
  GemmProblem p;
  p.dtype = E::dtype;
  p.batch = t.batch, p.m = t.m, p.n = t.n, p.k = t.k;
  p.a = strides_of(t.a, t.m, t.k), p.b = strides_of(t.b, t.k, t.n), p.c = strides_of(t.c, t.m, t.n);
  p.alpha = t.alpha, p.beta = t.beta, p.activation = t.activation;
  p.d = t.bias ? MatrixStrides{0, 0, 1} : p.c;
  auto fill = [](size_t n, unsigned seed) {
    std::vector<T> out;
    for (double v : random_values<double>(n, seed)) out.push_back(E::from(v));
    return out;
  };
  const auto ha = fill(extent(p.a, t.batch, t.m, t.k), 1), hb = fill(extent(p.b, t.batch, t.k, t.n), 2);
  const auto hc = fill(extent(p.c, t.batch, t.m, t.n), 3), hd = fill(t.n, 4);
  Array<T> a(ha), b(hb), d(hd);
  Array<T> c = t.beta == 0 || t.bias ? Array<T>(hc.size()) : Array<T>(hc);  // NaN where it must not be read
  const auto before = c.host();
  GemmOperands o{a.data(), b.data(), c.data(), t.bias ? d.data() : c.data()};
  if (algorithm) {
    canonicalize(p, o);
    const GemmPlan plan = algorithm->plan(p, PlanTarget(device()));
    if (plan.refusal) return;
    Workspace workspace(queue(), plan.workspace);
    plan.run(queue(), p, o, workspace.data());
  } else {
    gemm(queue(), p, o);
  }
  p.a = strides_of(t.a, t.m, t.k), p.b = strides_of(t.b, t.k, t.n), p.c = strides_of(t.c, t.m, t.n);
  const auto out = c.host();
  std::vector<double> actual, expected;
  std::vector<char> written(out.size(), 0);
  std::vector<double> wide_b;
  for (T v : hb) wide_b.push_back(E::to(v));
  for (int64_t z = 0; z < t.batch; ++z)
    for (int64_t i = 0; i < t.m; ++i) {
      std::vector<double> sum(t.n, 0.0);
      for (int64_t l = 0; l < t.k; ++l) {
        const double x = E::to(ha[z * p.a[0] + i * p.a[1] + l * p.a[2]]);
        for (int64_t j = 0; j < t.n; ++j) sum[j] += x * wide_b[z * p.b[0] + l * p.b[1] + j * p.b[2]];
      }
      for (int64_t j = 0; j < t.n; ++j) {
        const size_t at = z * p.c[0] + i * p.c[1] + j * p.c[2];
        double v = t.alpha * sum[j];
        if (t.beta != 0) v += t.beta * E::to(t.bias ? hd[j] : hc[at]);
        if (t.activation == Activation::relu) v = v < 0 ? 0 : v;
        if (t.activation == Activation::gelu) v = 0.5 * v * (1 + std::erf(v * std::sqrt(0.5)));
        actual.push_back(E::to(out[at]));
        expected.push_back(v);
        written[at] = 1;
      }
    }
  EXPECT_LE(relative_error(actual, expected), E::tolerance)
      << (algorithm ? algorithm->name : "gemm") << " " << info(E::dtype).name << " batch " << t.batch << " m " << t.m
      << " n " << t.n << " k " << t.k << " layouts " << int(t.a) << int(t.b) << int(t.c) << " beta " << t.beta
      << " bias " << t.bias;
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_TRUE(written[i] || std::memcmp(&out[i], &before[i], sizeof(T)) == 0) << "wrote outside of c at " << i;
}

const int64_t sizes[][3] = {{1, 1, 1},       {7, 5, 3},      {16, 32, 16},  {17, 33, 65},  {1, 67, 131}, {67, 1, 131},
                            {13, 97, 5},     {101, 77, 301}, {251, 61, 17}, {31, 523, 37}, {5, 3, 1009}, {64, 64, 200},
                            {16, 300, 2049}, {3, 517, 100},  {90, 150, 16}, {45, 1090, 31}};

template <class T>
void all_layouts(const GemmAlgorithm* algorithm) {
  for (const auto& [m, n, k] : sizes)
    for (Layout a : {Layout::row_major, Layout::transposed, Layout::gaps})
      for (Layout b : {Layout::row_major, Layout::transposed, Layout::gaps})
        check<T>({.m = m, .n = n, .k = k, .a = a, .b = b}, algorithm);
}

}  // namespace

TEST(Gemm, EveryAlgorithmTakesEveryLayout) {
  for (const GemmAlgorithm& algorithm : gemm_algorithms()) all_layouts<float>(&algorithm);
}

TEST(Gemm, EveryAlgorithmHasEpilogueAndBatch) {
  for (const GemmAlgorithm& algorithm : gemm_algorithms())
    for (const auto& [m, n, k] : sizes) {
      check<float>({.m = m, .n = n, .k = k, .alpha = 0.5, .beta = 2}, &algorithm);
      check<float>({.m = m, .n = n, .k = k, .c = Layout::transposed, .alpha = -1, .beta = 1}, &algorithm);
      check<float>({.m = m, .n = n, .k = k, .c = Layout::gaps, .beta = 0.25}, &algorithm);
      check<float>({.m = m, .n = n, .k = k, .b = Layout::transposed, .beta = 1, .bias = true}, &algorithm);
      check<float>({.m = m, .n = n, .k = k, .beta = 1, .bias = true, .activation = Activation::relu}, &algorithm);
      check<float>({.batch = 3, .m = m, .n = n, .k = k, .beta = 1, .bias = true, .activation = Activation::gelu},
                   &algorithm);
      check<float>({.batch = 5, .m = m, .n = n, .k = k, .a = Layout::transposed, .beta = 1}, &algorithm);
    }
}

TEST(Gemm, OtherTypes) {
  for (const GemmAlgorithm& algorithm : gemm_algorithms()) {
    for (const auto& [m, n, k] : sizes) {
      for (Layout b : {Layout::row_major, Layout::transposed, Layout::gaps}) {
        check<double>({.m = m, .n = n, .k = k, .a = b, .b = b}, &algorithm);
        check<BFloat16>({.m = m, .n = n, .k = k, .b = b}, &algorithm);
        check<BFloat16>({.m = m, .n = n, .k = k, .a = Layout::transposed, .b = b}, &algorithm);
        check<_Float16>({.m = m, .n = n, .k = k, .a = b, .b = b}, &algorithm);
      }
      check<double>({.batch = 2, .m = m, .n = n, .k = k, .alpha = 0.5, .beta = 2}, &algorithm);
      check<BFloat16>({.batch = 2, .m = m, .n = n, .k = k, .c = Layout::transposed, .beta = 1}, &algorithm);
      check<_Float16>({.m = m, .n = n, .k = k, .beta = 1, .bias = true, .activation = Activation::relu}, &algorithm);
    }
  }
}

TEST(Gemm, LargeTiles) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{521, 617, 401}, {500, 1100, 193}, {40, 2000, 700}, {29, 1000, 700}})
    for (Layout b : {Layout::row_major, Layout::transposed}) {
      check<float>({.m = m, .n = n, .k = k, .b = b, .alpha = 0.5, .beta = 1});
      check<BFloat16>({.m = m, .n = n, .k = k, .b = b, .alpha = 0.5, .beta = 1});
    }
  // Several slabs of k for several tasks, rows of a read where they lie and packed.
  for (Layout a : {Layout::row_major, Layout::transposed}) {
    check<float>({.m = 260, .n = 1100, .k = 1100, .a = a, .alpha = 0.5, .beta = 1});
    check<double>({.batch = 3,
                   .m = 140,
                   .n = 270,
                   .k = 700,
                   .a = a,
                   .b = Layout::transposed,
                   .beta = 1,
                   .bias = true,
                   .activation = Activation::relu});
    check<_Float16>({.m = 150, .n = 530, .k = 1500, .a = a});
  }
  // Few columns and a long k: slices of k, added in a second step.
  for (Layout b : {Layout::row_major, Layout::transposed}) {
    check<float>({.m = 1, .n = 1, .k = 100003, .b = b, .beta = 1});
    check<float>({.batch = 2, .m = 5, .n = 3, .k = 40009, .b = b, .alpha = 0.5, .beta = 1, .bias = true});
    check<double>({.m = 3, .n = 70, .k = 30011, .b = b});
  }
  check<float>({.m = 2048, .n = 1088, .k = 8, .a = Layout::transposed});
  check<double>({.m = 300, .n = 555, .k = 401, .a = Layout::transposed});
}

TEST(Gemm, TilesWithLocalMemoryAndSlices) {
  const GemmAlgorithm* simt = nullptr;
  for (const GemmAlgorithm& algorithm : gemm_algorithms())
    if (std::string(algorithm.name) == "simt") simt = &algorithm;
  ASSERT_NE(simt, nullptr);
  for (Layout a : {Layout::row_major, Layout::transposed})
    for (Layout b : {Layout::row_major, Layout::transposed}) {
      check<float>({.m = 391, .n = 1030, .k = 77, .a = a, .b = b, .alpha = 0.5, .beta = 1}, simt);
      check<float>(
          {.m = 70, .n = 50, .k = 3001, .a = a, .b = b, .beta = 1, .bias = true, .activation = Activation::relu}, simt);
      check<double>({.batch = 2, .m = 20, .n = 33, .k = 1500, .a = a, .b = b}, simt);
    }
}

TEST(Gemm, Integers) {
  for (const auto& [m, n, k] : sizes)
    check<int32_t>({.m = m, .n = n, .k = k, .b = Layout::transposed, .alpha = 3, .beta = -2});
}

TEST(Gemm, Complex) {
  using C = std::complex<float>;
  Array<C> a(std::vector<C>{{1, 2}, {3, -1}}), b(std::vector<C>{{0, 1}, {2, 2}}), c(std::vector<C>{{5, 5}});
  GemmProblem p;
  p.dtype = DType::complex64;
  p.m = p.n = 1, p.k = 2;
  p.a = {2, 2, 1}, p.b = {2, 1, 1}, p.c = p.d = {1, 1, 1};
  p.alpha = {0, 1}, p.beta = {2, 0};
  gemm(queue(), p, {a.data(), b.data(), c.data(), c.data()});
  const C sum = C(1, 2) * C(0, 1) + C(3, -1) * C(2, 2);
  EXPECT_EQ(c.host()[0], C(0, 1) * sum + C(10, 10));
}

TEST(Gemm, EmptyReductionGivesBetaD) {
  for (const GemmAlgorithm& algorithm : gemm_algorithms()) {
    check<float>({.m = 19, .n = 37, .k = 0, .alpha = 2, .beta = 3}, &algorithm);
    check<float>({.m = 19, .n = 37, .k = 0}, &algorithm);
  }
  GemmProblem empty;
  empty.n = 5;
  EXPECT_NO_THROW(gemm(queue(), empty, {}));
}

TEST(Gemm, NaNStaysInItsRow) {
  std::vector<float> ha(50 * 40, 1.0f), hb(40 * 70, 2.0f);
  ha[7 * 40 + 39] = NAN;
  for (const GemmAlgorithm& algorithm : gemm_algorithms()) {
    Array<float> a(ha), b(hb), c(50 * 70);
    GemmProblem p;
    p.m = 50, p.n = 70, p.k = 40;
    p.a = GemmProblem::row_major(50, 40), p.b = GemmProblem::row_major(40, 70),
    p.c = p.d = GemmProblem::row_major(50, 70);
    const GemmPlan plan = algorithm.plan(p, PlanTarget(device()));
    if (plan.refusal) continue;
    Workspace workspace(queue(), plan.workspace);
    plan.run(queue(), p, {a.data(), b.data(), c.data(), nullptr}, workspace.data());
    const auto out = c.host();
    for (int i = 0; i < 50; ++i)
      for (int j = 0; j < 70; ++j) {
        if (i == 7)
          ASSERT_TRUE(std::isnan(out[i * 70 + j])) << algorithm.name;
        else
          ASSERT_EQ(out[i * 70 + j], 80.0f) << algorithm.name << " " << i << " " << j;
      }
  }
}

TEST(Gemm, SplitCoversAndFits) {
  for (int units : {1, 2, 7, 64})
    for (int64_t m : {1, 15, 240, 241, 5000})
      for (int64_t n : {1, 33, 512, 9999})
        for (int64_t k : {0, 1, 192, 193, 4096}) {
          const PanelTile tile = panel_tile(1 << 20, DType::float32);
          const PanelSplit split = split_panels(tile, 1, m, n, k, units, units % 2);
          EXPECT_LE(split.block, split.mc);
          // with the padding of panels of 8 rows and of 32 columns, in elements of pairs and of single numbers
          for (const int pair : {1, 2}) {
            const int64_t depth = split.kc / pair, most = tile.kc / pair;
            EXPECT_LE(split.block / 8 * (8 * depth + 16), tile.mc / 8 * (8 * most + 16));
            EXPECT_LE(split.nc / 32 * (32 * depth + 16), tile.nc / 32 * (32 * most + 16));
          }
          EXPECT_LE(split.kc, tile.kc);
          EXPECT_GT(split.block, 0);
          EXPECT_EQ(split.block % 16, 0);
          EXPECT_GT(split.kc, 0);
          EXPECT_EQ(split.mc % 16, 0);
          EXPECT_EQ(split.nc % 32, 0);
        }
  // Both of two units get the same work.
  const PanelSplit square = split_panels(panel_tile(1 << 20, DType::float32), 1, 512, 512, 512, 2, false);
  EXPECT_EQ(ceil_div(512, square.mc) * ceil_div(512, square.nc) % 2, 0);
  // Rows that are not packed may be read by several tasks; columns are packed once.
  EXPECT_EQ(split_panels(panel_tile(1 << 20, DType::float32), 1, 256, 256, 256, 2, true).nc, 128);
}
