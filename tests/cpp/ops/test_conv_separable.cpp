// Blocks of mobile networks in one call against the convolutions one after the other in float64.
#include "ops/conv_support.h"

#include "ops/conv/separable.h"
#include "ops/conv/separable_plan.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

using Kind = ConvActivation::Kind;
using Doubles = std::vector<double>;

double activated(const ConvActivation& how, double v) {
  const double hard = std::clamp(v + 3, 0.0, 6.0) / 6, soft = 1 / (1 + std::exp(-v));
  switch (how.kind) {
    case Kind::hardswish: return v * hard;
    case Kind::silu: return v * soft;
    case Kind::hardsigmoid: return hard;
    case Kind::sigmoid: return soft;
    default: return std::min<double>(std::max<double>(v, how.low), how.high);
  }
}

// A matrix [rows, k], its bias, and both packed.
struct Matrix {
  int64_t rows, k;
  std::vector<float> w, bias;

  Matrix(int64_t rows, int64_t k, unsigned seed)
      : rows(rows), k(k), w(random_values<float>(rows * k, seed)), bias(random_values<float>(rows, seed + 100)) {
    for (float& each : w) each /= std::sqrt(static_cast<float>(k));
  }
  std::vector<float> packed(int64_t whole) const {
    const int64_t depth = round_up(k, whole);
    std::vector<float> result(round_up(rows, separable_panel) * depth, 0.0f);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i)
        result[(r / separable_panel * depth + i) * separable_panel + r % separable_panel] = w[r * k + i];
    return result;
  }
  std::vector<float> packed_bias() const {
    std::vector<float> result(bias);
    result.resize(round_up(rows, separable_panel), 0.0f);
    return result;
  }
  std::vector<float> transposed() const {
    std::vector<float> result(w.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i) result[i * rows + r] = w[r * k + i];
    return result;
  }
  // of `count` rows of k numbers
  Doubles times(const Doubles& x, const ConvActivation& how) const {
    const int64_t count = static_cast<int64_t>(x.size()) / k;
    Doubles y(count * rows);
    for (int64_t p = 0; p < count; ++p)
      for (int64_t r = 0; r < rows; ++r) {
        double sum = bias[r];
        for (int64_t i = 0; i < k; ++i) sum += x[p * k + i] * w[r * k + i];
        y[p * rows + r] = activated(how, sum);
      }
    return y;
  }
};

struct Block {
  SeparableProblem p;
  Matrix expand, depthwise, squeeze, excite, project;

  explicit Block(const SeparableProblem& problem)
      : p(problem),
        expand(p.width, p.sources, 1),
        depthwise(p.width, p.kernel * p.kernel, 2),
        squeeze(p.hidden, p.width, 3),
        excite(p.width, std::max<int64_t>(1, p.hidden), 4),
        project(p.results, p.width, 5) {}

  Doubles filtered(const Doubles& x) const {
    Doubles y(p.batch * p.out_h * p.out_w * p.width);
    for (int64_t n = 0; n < p.batch; ++n)
      for (int64_t pixel = 0; pixel < p.out_h * p.out_w; ++pixel)
        for (int64_t c = 0; c < p.width; ++c) {
          double sum = depthwise.bias[c];
          for (int64_t tap = 0; tap < p.kernel * p.kernel; ++tap) {
            const int64_t i = pixel / p.out_w * p.stride - p.pad_h + tap / p.kernel,
                          j = pixel % p.out_w * p.stride - p.pad_w + tap % p.kernel;
            if (i < 0 || i >= p.in_h || j < 0 || j >= p.in_w) continue;
            sum += x[((n * p.in_h + i) * p.in_w + j) * p.width + c] * depthwise.w[c * p.kernel * p.kernel + tap];
          }
          y[(n * p.out_h * p.out_w + pixel) * p.width + c] = activated(p.filtered, sum);
        }
    return y;
  }
  void excite_in_place(Doubles& y) const {
    const int64_t pixels = p.out_h * p.out_w;
    Doubles mean(p.batch * p.width, 0.0);
    for (size_t i = 0; i < y.size(); ++i)
      mean[static_cast<int64_t>(i) / (pixels * p.width) * p.width + i % p.width] += y[i] / static_cast<double>(pixels);
    const Doubles scale = excite.times(squeeze.times(mean, p.squeezed), p.gate);
    for (size_t i = 0; i < y.size(); ++i)
      y[i] *= scale[static_cast<int64_t>(i) / (pixels * p.width) * p.width + i % p.width];
  }
  Doubles reference(const std::vector<float>& input) const {
    const Doubles x(input.begin(), input.end());
    Doubles y = filtered(p.expand ? expand.times(x, p.expanded) : x);
    if (p.hidden) excite_in_place(y);
    y = project.times(y, p.projected);
    if (p.residual)
      for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
    return y;
  }
  double error() const {
    const auto x = random_values<float>(p.batch * p.in_h * p.in_w * p.sources, 7);
    const Guarded dx(x), dy(std::vector<float>(p.batch * p.out_h * p.out_w * p.results, NAN)), e(expand.packed(1)),
        eb(expand.packed_bias()), d(depthwise.packed(1)), db(depthwise.packed_bias()), s(squeeze.w), sb(squeeze.bias),
        g(excite.transposed()), gb(excite.bias), o(project.packed(p.hidden ? 1 : separable_panel)),
        ob(project.packed_bias());
    separable_convolution(queue(), p,
                          {dx.data(), e.data(), eb.data(), d.data(), db.data(), s.data(), sb.data(), g.data(),
                           gb.data(), o.data(), ob.data(), dy.data()});
    EXPECT_TRUE(dy.intact() && dx.intact());
    return relative_error(dy.host(), reference(x));
  }
};

SeparableProblem problem(int64_t batch, int64_t sources, int64_t width, int64_t results, int64_t size, int64_t kernel,
                         int64_t stride) {
  SeparableProblem p;
  p.batch = batch, p.sources = sources, p.width = width, p.results = results;
  p.in_h = size, p.in_w = size + 3, p.kernel = kernel, p.stride = stride, p.pad_h = p.pad_w = kernel / 2;
  p.out_h = (p.in_h + 2 * p.pad_h - kernel) / stride + 1, p.out_w = (p.in_w + 2 * p.pad_w - kernel) / stride + 1;
  p.expand = sources != width;
  p.residual = stride == 1 && sources == results;
  return p;
}

const ConvActivation activations[] = {{},           {Kind::limits, 0, 6}, {Kind::hardswish},
                                      {Kind::silu}, {Kind::hardsigmoid},  {Kind::sigmoid}};

// Sums of so many terms in float32; the activations between them add a few roundings.
double bound(double terms) { return 4 * std::numeric_limits<float>::epsilon() * std::sqrt(terms); }
double bound(const SeparableProblem& p) {
  return bound(static_cast<double>(p.sources + p.kernel * p.kernel + p.hidden + (p.hidden ? 2 : 1) * p.width));
}

bool runs(const SeparableProblem& p) { return separable_refuses(p, PlanTarget(device())) == nullptr; }

}  // namespace

TEST(ConvSeparable, MatchesTheConvolutionsOneByOne) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  int ran = 0;
  for (const int64_t hidden : {0, 7, 20})
    for (const int64_t kernel : {3, 5, 7})
      for (const int64_t stride : {1, 2})
        for (const auto& [sources, width, results] :
             {std::array<int64_t, 3>{16, 16, 24}, {8, 40, 8}, {24, 72, 24}, {5, 33, 65}}) {
          SeparableProblem p = problem(3, sources, width, results, 11, kernel, stride);
          p.hidden = hidden;
          p.expanded = p.filtered = activations[(kernel + stride) % 4];
          p.projected = activations[(hidden + stride) % 3];
          p.squeezed = activations[1], p.gate = activations[4 + hidden % 2];
          if (!runs(p)) continue;
          ++ran;
          EXPECT_LE(Block(p).error(), bound(p)) << hidden << ", kernel " << kernel << ", stride " << stride << ", "
                                                << sources << " -> " << width << " -> " << results;
        }
  EXPECT_GT(ran, 0);
}

TEST(ConvSeparable, EachActivation) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvActivation& how : activations) {
    SeparableProblem p = problem(2, 8, 40, 8, 6, 3, 1);
    p.expanded = p.filtered = p.projected = how;
    EXPECT_LE(Block(p).error(), bound(p)) << "kind " << static_cast<int>(how.kind);
  }
}

// One image is shared by several tasks: bands and parts give the same.
TEST(ConvSeparable, CutsOfAllKinds) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const int64_t batch : {1, 2, 8, 17})
    for (const int64_t size : {1, 4, 7, 29}) {
      SeparableProblem p = problem(batch, 24, 136, 24, size, 3, 1);
      p.expanded = p.filtered = {Kind::limits, 0, 6};
      EXPECT_LE(Block(p).error(), bound(p)) << batch << " images of " << size;
      p.hidden = 9;
      EXPECT_LE(Block(p).error(), bound(p)) << batch << " excited images of " << size;
    }
}

TEST(ConvSeparable, PlansFitTheDevice) {
  for (const int64_t units : {1, 2, 8, 64})
    for (const uint64_t memory : {uint64_t{64} << 10, uint64_t{256} << 10, uint64_t{1} << 20})
      for (const int64_t batch : {1, 8}) {
        PlanTarget target;
        target.compute_units = units, target.local_memory = memory;
        const SeparableProblem p = problem(batch, 32, 192, 32, 28, 3, 1);
        const SeparableCut cut = separable_cut(p, target);
        ASSERT_GT(cut.band, 0) << units << " units, " << memory;
        EXPECT_LE(cut.local_bytes(), memory);
        EXPECT_GE(cut.band * cut.bands, p.out_h);
        EXPECT_GE(cut.chunks * cut.parts * separable_panel, p.width);
        EXPECT_GE(batch * cut.bands * cut.parts, std::min<int64_t>(units, batch));
      }
}

TEST(ConvSeparable, RefusesWhatItCannot) {
  PlanTarget target;
  SeparableProblem p = problem(1, 8, 40, 8, 9, 3, 1);
  EXPECT_EQ(separable_refuses(p, target), nullptr);
  p.kernel = 4;
  EXPECT_NE(separable_refuses(p, target), nullptr);
  p = problem(1, 8, 40, 8, 9, 3, 3);
  EXPECT_NE(separable_refuses(p, target), nullptr);
  p = problem(1, 8, 40, 8, 100000, 3, 1);
  EXPECT_NE(separable_refuses(p, target), nullptr);
  target.cpu_style = false;
  EXPECT_NE(separable_refuses(problem(1, 8, 40, 8, 9, 3, 1), target), nullptr);
}

TEST(ConvSeparable, PointwiseWithScaleAndResidual) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const auto& [images, pixels, sources, results] :
       {std::array<int64_t, 4>{1, 1, 5, 3}, {2, 49, 72, 24}, {3, 100, 40, 129}, {8, 49, 33, 32}})
    for (const bool scaled : {false, true})
      for (const bool residual : {false, true}) {
        const Matrix w(results, sources, 1);
        const auto x = random_values<float>(images * pixels * sources, 2),
                   scale = random_values<float>(images * sources, 3),
                   other = random_values<float>(images * pixels * results, 4);
        const ConvActivation how{Kind::limits, -0.5f, 0.75f};
        Doubles rows(x.begin(), x.end());
        for (size_t i = 0; scaled && i < rows.size(); ++i)
          rows[i] *= scale[static_cast<int64_t>(i) / (pixels * sources) * sources + i % sources];
        Doubles expected = w.times(rows, how);
        for (size_t i = 0; residual && i < expected.size(); ++i) expected[i] += other[i];
        const Guarded dx(x), dw(w.packed(1)), db(w.packed_bias()), ds(scale), dr(other),
            dy(std::vector<float>(expected.size(), NAN));
        packed_pointwise(
            queue(), {images, pixels, sources, results, how},
            {dx.data(), dw.data(), db.data(), scaled ? ds.data() : nullptr, residual ? dr.data() : nullptr, dy.data()});
        EXPECT_TRUE(dy.intact());
        EXPECT_LE(relative_error(dy.host(), expected), bound(static_cast<double>(sources)))
            << images << " x " << pixels << ", " << scaled << residual;
      }
}
