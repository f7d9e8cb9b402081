#include "ops/loss/nll.h"
#include "ops/loss/range.h"
#include "ops/core/device_errors.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

void check(int64_t batch, int64_t classes, int64_t inner, bool weighted) {
  for (LossReduction reduction : {LossReduction::none, LossReduction::mean, LossReduction::sum}) {
    SCOPED_TRACE(::testing::Message() << batch << "x" << classes << "x" << inner << " weighted " << weighted
                                      << " reduction " << int(reduction));
    const size_t count = batch * classes * inner, elements = batch * inner;
    auto x = random_values<float>(count, 1, -9, 0), w = random_values<float>(classes, 2, 0.5, 2),
         g = random_values<float>(elements, 3);
    std::vector<int64_t> target(elements);
    for (size_t i = 0; i < elements; ++i) target[i] = (i * 7 + 3) % classes;
    NllProblem p{DType::float32, batch, classes, inner, classes * inner, inner, 1, 2, reduction};
    std::vector<double> loss(elements), dx(count);
    double sum = 0, weights = 0;
    for (int pass = 0; pass < 2; ++pass)
      for (size_t i = 0; i < elements; ++i) {
        const int64_t t = target[i];
        if (t == p.ignore_index) continue;
        const double v = weighted ? w[t] : 1;
        const size_t at = (i / inner * classes + t) * inner + i % inner;
        if (pass == 0)
          loss[i] = -v * x[at], sum += loss[i], weights += v;
        else
          dx[at] = -v * (reduction == LossReduction::none  ? g[i]
                         : reduction == LossReduction::sum ? g[0]
                                                           : g[0] / weights);
      }
    Array<float> ax(x), aw(w), ag(g), y(reduction == LossReduction::none ? elements : 1), total(1), adx(count);
    Array<int64_t> at(target);
    nll_forward(queue(), p, ax.data(), at.data(), weighted ? aw.data() : nullptr, y.data(), total.data());
    if (reduction != LossReduction::none) loss = {reduction == LossReduction::sum ? sum : sum / weights};
    EXPECT_LT(relative_error(y.host(), loss), 5e-6);
    EXPECT_NEAR(total.host()[0], reduction == LossReduction::none ? 0 : weights, 4e-6 * weights + 1e-9);
    nll_backward(queue(), p, ag.data(), at.data(), weighted ? aw.data() : nullptr, total.data(), adx.data());
    EXPECT_LT(relative_error(adx.host(), dx), 1e-5);
  }
}

}  // namespace

TEST(NllLoss, MatchesReference) {
  check(37, 10, 1, false);
  check(37, 1003, 1, true);
  check(20011, 5, 1, true);
  check(3, 7, 1031, true);
  check(2, 21, 5, false);
}

TEST(NllLoss, WrongTargetIsNaNAndReadsNothing) {
  Array<float> x(random_values<float>(6)), y(2), total(1), dx(6), g(std::vector<float>{1, 1});
  Array<int64_t> target(std::vector<int64_t>{1, int64_t{1} << 40});
  NllProblem p{DType::float32, 2, 3, 1, 3, 1, 1, -100, LossReduction::none};
  nll_forward(queue(), p, x.data(), target.data(), nullptr, y.data(), total.data());
  queue().finish();
  EXPECT_THROW(check_device_errors(queue()), std::runtime_error);
  EXPECT_EQ(y.host()[0], -x.host()[1]);
  EXPECT_TRUE(std::isnan(y.host()[1]));
  nll_backward(queue(), p, g.data(), target.data(), nullptr, total.data(), dx.data());
  EXPECT_EQ(dx.host(), (std::vector<float>{0, -1, 0, 0, 0, 0}));
}

TEST(NllLoss, WithoutElements) {
  Array<float> y(1), total(1);
  NllProblem p{DType::float32, 0, 3, 1, 3, 1, 1, -100, LossReduction::mean};
  nll_forward(queue(), p, nullptr, nullptr, nullptr, y.data(), total.data());
  EXPECT_TRUE(std::isnan(y.host()[0]));
  p.reduction = LossReduction::sum;
  nll_forward(queue(), p, nullptr, nullptr, nullptr, y.data(), total.data());
  EXPECT_EQ(y.host()[0], 0);
}

TEST(UnitRange, ReportsWhatLiesOutside) {
  const ErrorSite site("outside", ErrorSite::Kind::message);
  for (const size_t count : {1, 3, 20011}) {
    for (const float wrong : {-1e-6f, 1.5f, NAN, 1.0f}) {
      std::vector<float> values = random_values<float>(count, 1, 0, 1);
      values[count / 2] = wrong;
      Array<float> x(values);
      check_unit_range(queue(), DType::float32, x.data(), static_cast<int64_t>(count), site);
      queue().finish();
      if (wrong == 1.0f)
        EXPECT_NO_THROW(check_device_errors(queue()));
      else
        EXPECT_THROW(check_device_errors(queue()), std::runtime_error) << count << " elements, " << wrong;
    }
  }
}
