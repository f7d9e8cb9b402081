#include "ops/pool/fractional.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

TEST(FractionalPool, MatchesReference) {
  FractionalPoolProblem p;
  p.planes = 5, p.input = {7, 11, 13}, p.output = {3, 1, 4}, p.kernel = {2, 3, 2}, p.sample = {2, 0, 1}, p.axes = 3;
  const auto x = random_values<float>(5 * 7 * 11 * 13), u = random_values<float>(5 * 3, 2, 0, 0.999f);
  auto start = [&](int64_t plane, int axis, int o) {
    const int room = p.input[axis] - p.kernel[axis];
    if (o == p.output[axis] - 1) return room;
    const float alpha = float(room) / float(p.output[axis] - 1), sample = u[plane * 3 + p.sample[axis]];
    return int((float(o) + sample) * alpha) - int(sample * alpha);
  };
  std::vector<float> y;
  std::vector<int64_t> places;
  for (int64_t plane = 0; plane < 5; ++plane)
    for (int d = 0; d < 3; ++d)
      for (int w = 0; w < 4; ++w) {
        int64_t best = -1;
        const float* in = x.data() + plane * 7 * 11 * 13;
        for (int a = 0; a < 2; ++a)
          for (int b = 0; b < 3; ++b)
            for (int c = 0; c < 2; ++c) {
              const int64_t at = ((start(plane, 0, d) + a) * 11 + start(plane, 1, 0) + b) * 13 + start(plane, 2, w) + c;
              if (best < 0 || in[at] > in[best]) best = at;
            }
        y.push_back(in[best]);
        places.push_back(best);
      }
  Array<float> ax(x), au(u), ay(y.size());
  Array<int64_t> ai(places.size());
  fractional_max_pool(queue(), p, ax.data(), au.data(), ay.data(), ai.data());
  EXPECT_EQ(ay.host(), y);
  EXPECT_EQ(ai.host(), places);
}
