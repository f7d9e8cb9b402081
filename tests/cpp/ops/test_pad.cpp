#include "ops/pad/pad.h"
#include "support.h"

#include <algorithm>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

void check(bool reflect, int64_t planes, std::array<int64_t, 3> in, std::array<int64_t, 3> left,
           std::array<int64_t, 3> right) {
  SCOPED_TRACE(::testing::Message() << "reflect " << reflect << " width " << in[2] << " left " << left[2] << " right "
                                    << right[2]);
  PadProblem p{reflect, DType::float32, planes, in, {}, left};
  for (int d = 0; d < 3; ++d) p.output[d] = in[d] + left[d] + right[d];
  const int64_t I = in[0] * in[1] * in[2], O = p.output[0] * p.output[1] * p.output[2];
  auto source = [&](int axis, int64_t o) {
    const int64_t i = o - left[axis], last = in[axis] - 1;
    return reflect ? (i < 0 ? -i : i > last ? 2 * last - i : i) : std::clamp<int64_t>(i, 0, last);
  };
  const auto x = random_values<float>(planes * I), g = random_values<float>(planes * O, 2);
  std::vector<double> y(planes * O), dx(planes * I);
  for (int64_t n = 0; n < planes; ++n)
    for (int64_t o = 0; o < O; ++o) {
      const int64_t i =
          (source(0, o / p.output[2] / p.output[1]) * in[1] + source(1, o / p.output[2] % p.output[1])) * in[2] +
          source(2, o % p.output[2]);
      y[n * O + o] = x[n * I + i];
      dx[n * I + i] += g[n * O + o];
    }
  Array<float> ax(x), ag(g), ay(planes * O), adx(planes * I);
  pad_forward(queue(), p, ax.data(), ay.data());
  EXPECT_EQ(relative_error(ay.host(), y), 0);
  pad_backward(queue(), p, ag.data(), adx.data());
  EXPECT_LT(relative_error(adx.host(), dx), 1e-5);
}

}  // namespace

TEST(Pad, MatchesReference) {
  for (bool reflect : {true, false}) {
    check(reflect, 3, {1, 1, 103}, {0, 0, 5}, {0, 0, 17});
    check(reflect, 5, {1, 13, 61}, {0, 3, 2}, {0, 1, 4});
    check(reflect, 2, {5, 7, 11}, {2, 3, 4}, {4, 6, 10});
    check(reflect, 2, {1, 9, 50}, {0, -2, -3}, {0, 1, 2});
    check(reflect, 2, {1, 3, 40}, {0, 2, 2}, {0, 2, -5});
  }
  check(false, 2, {1, 2, 3}, {0, 5, 9}, {0, 1, 40});
}
