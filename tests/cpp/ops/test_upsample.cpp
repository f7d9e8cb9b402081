#include "ops/upsample/bytes.h"
#include "support.h"

#include <algorithm>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Tap {
  int64_t index;
  double weight;
};

double widened_filter(UpsampleMode mode, double x) {
  x = std::abs(x);
  const double a = -0.5, pi = 3.14159265358979323846;
  if (mode == UpsampleMode::linear_antialias) return std::max(0.0, 1 - x);
  if (mode == UpsampleMode::cubic_antialias)
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
  return x == 0 ? 1 : x < 3 ? std::sin(pi * x) / (pi * x) * std::sin(pi * x / 3) / (pi * x / 3) : 0;
}

// Every input within the filter's reach, weights of sum 1.
std::vector<Tap> widened_taps(const UpsampleProblem& p, double step, int64_t in, int64_t o) {
  std::vector<Tap> result;
  double sum = 0;
  for (int64_t i = 0; i < in; ++i)
    if (const double w = widened_filter(p.mode, (i + 0.5 - (o + 0.5) * step) / std::max(step, 1.0)); w != 0)
      result.push_back({i, w}), sum += w;
  for (Tap& tap : result) tap.weight /= sum;
  return result;
}

std::vector<Tap> taps(const UpsampleProblem& p, int axis, int64_t o) {
  const int64_t in = p.input[axis], out = p.output[axis];
  if (!p.resampled[axis]) return {{o, 1}};
  const double step = p.scale_factor[axis] > 0 ? 1 / p.scale_factor[axis] : double(in) / out;
  if (p.mode == UpsampleMode::nearest) return {{std::min<int64_t>(o * step, in - 1), 1}};
  if (p.mode == UpsampleMode::nearest_exact) return {{std::min<int64_t>((o + 0.5) * step, in - 1), 1}};
  if (p.mode >= UpsampleMode::linear_antialias) return widened_taps(p, step, in, o);
  double at = p.align_corners ? (out > 1 ? o * double(in - 1) / (out - 1) : 0) : (o + 0.5) * step - 0.5;
  if (p.mode == UpsampleMode::linear) {
    at = std::max(at, 0.0);
    const int64_t first = std::min<int64_t>(at, in - 1);
    return {{first, 1 - (at - first)}, {std::min(first + 1, in - 1), at - first}};
  }
  const int64_t first = std::floor(at);
  const double t = at - first, a = -0.75;
  auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const double w[] = {far(1 + t), near(t), near(1 - t), far(2 - t)};
  std::vector<Tap> result;
  for (int k = 0; k < 4; ++k) result.push_back({std::clamp<int64_t>(first - 1 + k, 0, in - 1), w[k]});
  return result;
}

void check(UpsampleProblem p) {
  for (bool last : {false, true}) {
    p.channels_last = last;
    SCOPED_TRACE(::testing::Message() << "mode " << int(p.mode) << " align " << p.align_corners << " channels_last "
                                      << last << " width " << p.input[2] << " to " << p.output[2]);
    const int64_t I = p.input[0] * p.input[1] * p.input[2], O = p.output[0] * p.output[1] * p.output[2],
                  planes = p.batch * p.channels;
    auto place = [&](int64_t n, int64_t c, int64_t i, int64_t size) {
      return last ? (n * size + i) * p.channels + c : (n * p.channels + c) * size + i;
    };
    const auto x = random_values<float>(planes * I), g = random_values<float>(planes * O, 2);
    std::vector<double> y(planes * O), dx(planes * I);
    for (int64_t n = 0; n < p.batch; ++n)
      for (int64_t c = 0; c < p.channels; ++c)
        for (int64_t o = 0; o < O; ++o)
          for (const Tap& d : taps(p, 0, o / p.output[2] / p.output[1]))
            for (const Tap& h : taps(p, 1, o / p.output[2] % p.output[1]))
              for (const Tap& w : taps(p, 2, o % p.output[2])) {
                const int64_t i = place(n, c, (d.index * p.input[1] + h.index) * p.input[2] + w.index, I),
                              to = place(n, c, o, O);
                const double weight = d.weight * h.weight * w.weight;
                y[to] += weight * x[i];
                dx[i] += weight * g[to];
              }
    Array<float> ax(x), ag(g), ay(planes * O), adx(planes * I);
    upsample_forward(queue(), p, ax.data(), ay.data());
    EXPECT_LT(relative_error(ay.host(), y), 1e-4);  // positions are computed in float32
    upsample_backward(queue(), p, ag.data(), adx.data());
    EXPECT_LT(relative_error(adx.host(), dx), 1e-4);
  }
}

UpsampleProblem problem(UpsampleMode mode, int64_t n, int64_t c, std::array<int64_t, 3> in, std::array<int64_t, 3> out,
                        bool align = false) {
  UpsampleProblem p;
  p.mode = mode, p.batch = n, p.channels = c, p.input = in, p.output = out, p.align_corners = align;
  for (int d = 0; d < 3; ++d) p.resampled[d] = in[d] != 1 || out[d] != 1;
  return p;
}

}  // namespace

TEST(Upsample, MatchesReference) {
  for (UpsampleMode mode :
       {UpsampleMode::nearest, UpsampleMode::nearest_exact, UpsampleMode::linear, UpsampleMode::cubic}) {
    check(problem(mode, 2, 3, {1, 7, 11}, {1, 14, 22}));
    check(problem(mode, 1, 19, {1, 13, 29}, {1, 5, 7}));
    check(problem(mode, 1, 2, {1, 1, 37}, {1, 1, 101}));
    if (mode != UpsampleMode::cubic) check(problem(mode, 2, 3, {3, 4, 5}, {5, 8, 7}));
  }
  check(problem(UpsampleMode::linear, 2, 3, {1, 7, 11}, {1, 14, 23}, true));
  check(problem(UpsampleMode::cubic, 2, 3, {1, 7, 11}, {1, 14, 23}, true));
  check(problem(UpsampleMode::linear, 1, 3, {1, 9, 9}, {1, 1, 1}, true));
}

TEST(Upsample, ScaleFactorIsUsed) {
  UpsampleProblem p = problem(UpsampleMode::linear, 1, 3, {1, 10, 10}, {1, 17, 17});
  p.scale_factor = {0, 1.75, 1.75};
  check(p);
}

TEST(Upsample, AntialiasMatchesReference) {
  for (UpsampleMode mode :
       {UpsampleMode::linear_antialias, UpsampleMode::cubic_antialias, UpsampleMode::lanczos_antialias}) {
    check(problem(mode, 2, 3, {1, 23, 11}, {1, 5, 22}));
    check(problem(mode, 1, 19, {1, 13, 29}, {1, 17, 7}));
  }
}

TEST(Upsample, BytesAreWeightedByAxis) {
  for (bool last : {false, true})
    for (UpsampleMode mode : {UpsampleMode::linear, UpsampleMode::cubic, UpsampleMode::linear_antialias}) {
      UpsampleProblem p = problem(mode, 2, 3, {1, 13, 23}, {1, 29, 7});
      p.dtype = DType::uint8, p.channels_last = last;
      const auto random = random_values<float>(2 * 3 * 13 * 23, 1, 0, 255);
      const std::vector<uint8_t> x(random.begin(), random.end());
      const ByteTable across = byte_table(p, 2), down = byte_table(p, 1);
      auto resample = [](const ByteTable& t, int64_t o, auto&& at) {
        int sum = 1 << (t.precision - 1);
        for (int k = 0; k < t.taps; ++k)
          if (const int w = t.weight[o * t.taps + k]) sum += w * at(t.first[o] + k);
        return std::clamp(sum >> t.precision, 0, 255);
      };
      auto place = [&](int64_t n, int64_t c, int64_t h, int64_t w, int64_t H, int64_t W) {
        return last ? ((n * H + h) * W + w) * 3 + c : ((n * 3 + c) * H + h) * W + w;
      };
      std::vector<uint8_t> expected(2 * 3 * 29 * 7);
      for (int64_t n = 0; n < 2; ++n)
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t h = 0; h < 29; ++h)
            for (int64_t w = 0; w < 7; ++w)
              expected[place(n, c, h, w, 29, 7)] = resample(down, h, [&](int64_t row) {
                return resample(across, w, [&](int64_t column) { return int{x[place(n, c, row, column, 13, 23)]}; });
              });
      Array<uint8_t> ax(x), ay(expected.size());
      upsample_bytes(queue(), p, ax.data(), ay.data());
      EXPECT_EQ(ay.host(), expected);
    }
}
