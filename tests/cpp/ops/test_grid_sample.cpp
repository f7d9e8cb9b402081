#include "ops/grid_sample/grid_sample.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// The gradient of sum(output * g) by central differences of the forward pass in the direction of one element.
double loss(const GridSample& p, const std::vector<float>& input, const std::vector<float>& grid,
            const std::vector<float>& g) {
  Array<float> in(input), at(grid), out(g.size());
  grid_sample(queue(), p, out.data(), in.data(), at.data());
  const auto host = out.host();
  double sum = 0;
  for (size_t i = 0; i < g.size(); ++i) sum += static_cast<double>(host[i]) * g[i];
  return sum;
}

}  // namespace

TEST(GridSample, BilinearMatchesTheFormula) {
  GridSample p;
  p.batch = 2, p.channels = 3, p.points = 41;
  p.image = {7, 5, 1};
  const auto x = random_values<float>(2 * 3 * 35), grid = random_values<float>(2 * 41 * 2, 4, -1.3, 1.3);
  Array<float> input(x), at(grid), out(2 * 3 * 41);
  grid_sample(queue(), p, out.data(), input.data(), at.data());
  std::vector<double> expected;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < 41; ++i) {
        const double px = ((grid[(n * 41 + i) * 2] + 1.) * 7 - 1) / 2,
                     py = ((grid[(n * 41 + i) * 2 + 1] + 1.) * 5 - 1) / 2;
        double sum = 0;
        for (int dy = 0; dy < 2; ++dy)
          for (int dx = 0; dx < 2; ++dx) {
            const int xx = static_cast<int>(std::floor(px)) + dx, yy = static_cast<int>(std::floor(py)) + dy;
            if (xx < 0 || xx >= 7 || yy < 0 || yy >= 5) continue;
            sum += (1 - std::abs(px - xx)) * (1 - std::abs(py - yy)) * x[((n * 3 + c) * 5 + yy) * 7 + xx];
          }
        expected.push_back(sum);
      }
  EXPECT_LT(relative_error(out.host(), expected), 1e-5);
}

TEST(GridSample, GradientsMatchDifferences) {
  for (int dims : {2, 3})
    for (GridInterpolation interpolation : {GridInterpolation::bilinear, GridInterpolation::bicubic})
      for (GridPadding padding : {GridPadding::zeros, GridPadding::reflection})
        for (bool deterministic : {false, true}) {
          if (dims == 3 && interpolation == GridInterpolation::bicubic) continue;
          GridSample p;
          p.dims = dims;
          p.batch = 2, p.channels = 3, p.points = 19;
          p.image = {7, 5, dims == 3 ? 4 : 1};
          p.interpolation = interpolation;
          p.padding = padding;
          const int64_t plane = p.image[0] * p.image[1] * p.image[2];
          const auto x = random_values<float>(6 * plane), grid = random_values<float>(2 * 19 * dims, 4, -0.9, 0.9),
                     g = random_values<float>(6 * 19, 5);
          Array<float> input(x), at(grid), grad(g), gi(std::vector<float>(x.size(), 0.f)), gg(grid.size());
          grid_sample_backward(queue(), p, gi.data(), gg.data(), grad.data(), input.data(), at.data(), deterministic);
          const auto grad_input = gi.host(), grad_grid = gg.host();
          for (size_t i = 0; i < x.size(); i += 37) {
            auto up = x, down = x;
            up[i] += 0.5f, down[i] -= 0.5f;  // linear in the image
            EXPECT_NEAR(grad_input[i], loss(p, up, grid, g) - loss(p, down, grid, g), 1e-4);
          }
          for (size_t i = 0; i < grid.size(); i += 7) {
            auto up = grid, down = grid;
            up[i] += 2e-3f, down[i] -= 2e-3f;
            EXPECT_NEAR(grad_grid[i], (loss(p, x, up, g) - loss(p, x, down, g)) / 4e-3, 0.15);
          }
        }
}

TEST(GridSample, PointsFarOutsideAndNaNReadNothing) {
  GridSample p;
  p.points = 4;
  p.image = {3, 3, 1};
  Array<float> input(std::vector<float>(9, 1.f)), grid(std::vector<float>{1e30f, 0, -1e30f, 1e30f, NAN, 0, 0, 0}),
      out(4);
  grid_sample(queue(), p, out.data(), input.data(), grid.data());
  const auto host = out.host();
  EXPECT_EQ(host[0], 0.f);
  EXPECT_EQ(host[1], 0.f);
  EXPECT_TRUE(std::isnan(host[2]));  // its weights are NaN, as on the CPU
  EXPECT_EQ(host[3], 1.f);
}
