#include "ops/upsample/upsample.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Tap {
  int64_t index;
  double weight;
};

std::vector<Tap> taps(const UpsampleProblem& p, int axis, int64_t o) {
  const int64_t in = p.input[axis], out = p.output[axis];
  if (!p.resampled[axis]) return {{o, 1}};
  const double step = p.scale_factor[axis] > 0 ? 1 / p.scale_factor[axis] : double(in) / out;
  if (p.mode == UpsampleMode::nearest) return {{std::min<int64_t>(o * step, in - 1), 1}};
  if (p.mode == UpsampleMode::nearest_exact) return {{std::min<int64_t>((o + 0.5) * step, in - 1), 1}};
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
    SCOPED_TRACE(::testing::Message() << "mode " << int(p.mode) << " align " << p.align_corners << " channels_last " << last << " width " << p.input[2] << " to "
                                      << p.output[2]);
    const int64_t I = p.input[0] * p.input[1] * p.input[2], O = p.output[0] * p.output[1] * p.output[2], planes = p.batch * p.channels;
    auto place = [&](int64_t n, int64_t c, int64_t i, int64_t size) { return last ? (n * size + i) * p.channels + c : (n * p.channels + c) * size + i; };
    const auto x = random_values<float>(planes * I), g = random_values<float>(planes * O, 2);
    std::vector<double> y(planes * O), dx(planes * I);
    for (int64_t n = 0; n < p.batch; ++n)
      for (int64_t c = 0; c < p.channels; ++c)
        for (int64_t o = 0; o < O; ++o)
          for (const Tap& d : taps(p, 0, o / p.output[2] / p.output[1]))
            for (const Tap& h : taps(p, 1, o / p.output[2] % p.output[1]))
              for (const Tap& w : taps(p, 2, o % p.output[2])) {
                const int64_t i = place(n, c, (d.index * p.input[1] + h.index) * p.input[2] + w.index, I), to = place(n, c, o, O);
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

UpsampleProblem problem(UpsampleMode mode, int64_t n, int64_t c, std::array<int64_t, 3> in, std::array<int64_t, 3> out, bool align = false) {
  UpsampleProblem p;
  p.mode = mode, p.batch = n, p.channels = c, p.input = in, p.output = out, p.align_corners = align;
  for (int d = 0; d < 3; ++d) p.resampled[d] = in[d] != 1 || out[d] != 1;
  return p;
}

}  // namespace

TEST(Upsample, MatchesReference) {
  for (UpsampleMode mode : {UpsampleMode::nearest, UpsampleMode::nearest_exact, UpsampleMode::linear, UpsampleMode::cubic}) {
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
