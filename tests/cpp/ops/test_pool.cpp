#include "ops/pool/pool.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

int64_t volume(const std::array<int64_t, 3>& a) { return a[0] * a[1] * a[2]; }

// Input positions of output o on one axis, and the size for the mean.
std::vector<int64_t> window(const PoolProblem& p, int axis, int64_t o, int64_t* size) {
  std::vector<int64_t> positions;
  if (p.adaptive) {
    const int64_t last = ceil_div((o + 1) * p.input[axis], p.output[axis]);
    for (int64_t i = o * p.input[axis] / p.output[axis]; i < last; ++i) positions.push_back(i);
    *size = positions.size();
    return positions;
  }
  const int64_t start = o * p.stride[axis] - p.padding[axis];
  for (int64_t k = 0; k < p.kernel[axis]; ++k) {
    const int64_t i = start + k * p.dilation[axis];
    if (i >= 0 && i < p.input[axis]) positions.push_back(i);
  }
  *size = p.count_include_pad ? std::min(start + p.kernel[axis], p.input[axis] + p.padding[axis]) - start
                              : int64_t(positions.size());
  return positions;
}

struct Reference {
  std::vector<double> y, dx;
  std::vector<int64_t> index;
};

size_t place(const PoolProblem& p, int64_t n, int64_t c, int64_t i, int64_t plane) {
  return p.channels_last ? (n * plane + i) * p.channels + c : (n * p.channels + c) * plane + i;
}

Reference reference(const PoolProblem& p, const std::vector<float>& x, const std::vector<float>& g) {
  const int64_t in = volume(p.input), out = volume(p.output), planes = p.batch * p.channels;
  Reference r{std::vector<double>(planes * out), std::vector<double>(planes * in), std::vector<int64_t>(planes * out)};
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t o = 0; o < out; ++o) {
        int64_t sd, sh, sw;
        const auto ds = window(p, 0, o / p.output[2] / p.output[1], &sd),
                   hs = window(p, 1, o / p.output[2] % p.output[1], &sh), ws = window(p, 2, o % p.output[2], &sw);
        const double divisor = p.divisor ? p.divisor : sd * sh * sw;
        double best = -INFINITY, sum = 0;
        int64_t at = (ds[0] * p.input[1] + hs[0]) * p.input[2] + ws[0];
        const size_t to = place(p, n, c, o, out);
        for (int64_t d : ds)
          for (int64_t h : hs)
            for (int64_t w : ws) {
              const int64_t i = (d * p.input[1] + h) * p.input[2] + w;
              const double v = x[place(p, n, c, i, in)];
              if (v > best || std::isnan(v)) best = v, at = i;
              sum += v;
              if (p.kind == PoolKind::average) r.dx[place(p, n, c, i, in)] += g[to] / divisor;
            }
        r.index[to] = at;
        r.y[to] = p.kind == PoolKind::max ? best : sum / divisor;
        if (p.kind == PoolKind::max) r.dx[place(p, n, c, at, in)] += g[to];
      }
  return r;
}

void check(PoolProblem p) {
  for (PoolKind kind : {PoolKind::max, PoolKind::average})
    for (bool last : {false, true}) {
      p.kind = kind;
      p.channels_last = last;
      if (kind == PoolKind::average && p.dilation[2] != 1) continue;
      SCOPED_TRACE(::testing::Message() << "max " << (kind == PoolKind::max) << " channels_last " << last << " input "
                                        << p.input[0] << "x" << p.input[1] << "x" << p.input[2] << " kernel "
                                        << p.kernel[2] << " stride " << p.stride[2] << " adaptive " << p.adaptive);
      const size_t in = p.batch * p.channels * volume(p.input), out = p.batch * p.channels * volume(p.output);
      auto x = random_values<float>(in), g = random_values<float>(out, 2);
      for (float& v : x) v = std::round(v * 8);  // many equal values
      if (kind == PoolKind::max) x[in / 3] = NAN, x[in / 2] = -INFINITY;
      const Reference r = reference(p, x, g);
      Array<float> dx(x), dg(g), y(out), gx(in);
      Array<int64_t> index(out);
      pool_forward(queue(), p, dx.data(), y.data(), kind == PoolKind::max ? index.data() : nullptr);
      EXPECT_LT(relative_error(y.host(), r.y), 1e-6);
      if (kind == PoolKind::max) {
        EXPECT_EQ(index.host(), r.index);
      }
      pool_backward(queue(), p, dg.data(), kind == PoolKind::max ? index.data() : nullptr, gx.data());
      EXPECT_LT(relative_error(gx.host(), r.dx), 1e-5);
    }
}

PoolProblem fixed(int64_t n, int64_t c, std::array<int64_t, 3> in, std::array<int64_t, 3> k, std::array<int64_t, 3> s,
                  std::array<int64_t, 3> pad, std::array<int64_t, 3> dilation = {1, 1, 1}) {
  PoolProblem p;
  p.batch = n, p.channels = c, p.input = in, p.kernel = k, p.stride = s, p.padding = pad, p.dilation = dilation;
  for (int d = 0; d < 3; ++d) p.output[d] = (in[d] + 2 * pad[d] - dilation[d] * (k[d] - 1) - 1) / s[d] + 1;
  return p;
}

}  // namespace

TEST(Pool, FixedWindows) {
  check(fixed(2, 5, {1, 37, 41}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}));
  check(fixed(1, 17, {1, 14, 70}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}));
  check(fixed(2, 3, {1, 9, 35}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}));
  check(fixed(2, 3, {1, 23, 61}, {1, 5, 4}, {1, 3, 3}, {0, 2, 1}));
  check(fixed(1, 3, {1, 19, 53}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 2, 3}));
  check(fixed(1, 19, {1, 1, 103}, {1, 1, 5}, {1, 1, 2}, {0, 0, 2}));
  check(fixed(2, 3, {7, 11, 13}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}));
  check(fixed(3, 7, {1, 5, 5}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}));
}

TEST(Pool, CeilModeAndDivisors) {
  PoolProblem p = fixed(2, 3, {1, 12, 44}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1});
  p.output = {1, 7, 23};
  check(p);
  p.count_include_pad = false;
  check(p);
  p.divisor = 5;
  check(p);
}

TEST(Pool, Adaptive) {
  for (std::array<int64_t, 3> output : {std::array<int64_t, 3>{1, 1, 1}, {1, 3, 4}, {1, 11, 13}, {1, 13, 21}}) {
    PoolProblem p;
    p.batch = 2, p.channels = 19, p.adaptive = true, p.input = {1, 11, 13}, p.output = output;
    check(p);
  }
  PoolProblem p;
  p.batch = 1, p.channels = 3, p.adaptive = true, p.input = {5, 7, 9}, p.output = {2, 3, 9};
  check(p);
}

TEST(Pool, EmptyDoesNothing) {
  PoolProblem p = fixed(0, 3, {1, 8, 8}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0});
  pool_forward(queue(), p, nullptr, nullptr, nullptr);
  pool_backward(queue(), p, nullptr, nullptr, nullptr);
}

TEST(Pool, HalfRoundsOnce) {
  PoolProblem p = fixed(1, 1, {1, 1, 32}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1});
  p.kind = PoolKind::average;
  p.dtype = DType::bfloat16;
  std::vector<uint16_t> x(32, 0x3f80), g(32, 0x3f80);  // ones
  Array<uint16_t> dx(x), dg(g), y(32), gx(32);
  pool_forward(queue(), p, dx.data(), y.data(), nullptr);
  pool_backward(queue(), p, dg.data(), nullptr, gx.data());
  EXPECT_EQ(y.host()[5], 0x3f80);
  EXPECT_EQ(y.host()[0], 0x3f2b);  // 2/3
  EXPECT_EQ(gx.host()[5], 0x3f80);
  EXPECT_EQ(gx.host()[31], 0x3f2b);
}
