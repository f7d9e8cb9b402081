#include "ops/loss/ctc.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// Probability of all paths of `labels` through exp(x), x [steps, classes], in float64: Graves' forward recursion
// without logarithms.
double probability(const std::vector<double>& x, int64_t steps, int64_t classes, const std::vector<int64_t>& labels) {
  std::vector<int64_t> states{0};  // class 0 is the blank
  for (int64_t label : labels) states.insert(states.end(), {label, 0});
  std::vector<double> before(states.size(), 0.0);
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<double> now(states.size(), 0.0);
    for (size_t s = 0; s < states.size(); ++s) {
      double reached = t == 0 ? (s < 2 ? 1 : 0) : before[s];
      if (t > 0 && s > 0) reached += before[s - 1];
      if (t > 0 && s > 1 && states[s] != 0 && states[s] != states[s - 2]) reached += before[s - 2];
      now[s] = reached * std::exp(x[t * classes + states[s]]);
    }
    before = now;
  }
  return before.back() + (states.size() > 1 ? before[before.size() - 2] : 0.0);
}

}  // namespace

TEST(Ctc, LossAndGradientMatchReference) {
  const int64_t steps = 9, classes = 6;
  const std::vector<std::vector<int64_t>> labels{
      {1, 2, 3}, {4, 4}, {}, {5}, {1, 1, 1, 1, 1, 1}};  // the last one cannot fit
  const std::vector<int64_t> lengths{9, 7, 5, 1, 8};
  const auto batch = static_cast<int64_t>(labels.size());
  Ctc p;
  p.steps = steps, p.batch = batch, p.classes = classes;
  p.step_stride = batch * classes, p.batch_stride = classes;
  p.longest = 6;
  std::vector<float> x = random_values<float>(steps * batch * classes, 1, -2, 2);
  for (int64_t row = 0; row < steps * batch; ++row) {  // normalised, as log_softmax leaves it
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[row * classes + c]);
    for (int64_t c = 0; c < classes; ++c) x[row * classes + c] -= static_cast<float>(std::log(sum));
  }
  std::vector<int64_t> targets, sequences;
  for (int64_t b = 0; b < batch; ++b) {
    sequences.insert(sequences.end(),
                     {lengths[b], static_cast<int64_t>(labels[b].size()), static_cast<int64_t>(targets.size())});
    targets.insert(targets.end(), labels[b].begin(), labels[b].end());
  }
  const std::vector<float> g = random_values<float>(batch, 5, 0.5, 2);
  std::vector<double> losses, gradient(x.size(), 0.0);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> own(lengths[b] * classes);
    for (int64_t t = 0; t < lengths[b]; ++t)
      for (int64_t c = 0; c < classes; ++c) own[t * classes + c] = x[(t * batch + b) * classes + c];
    const double whole = probability(own, lengths[b], classes, labels[b]);
    losses.push_back(-std::log(whole));
    for (size_t i = 0; i < own.size() && whole > 0; ++i) {
      auto moved = own;
      moved[i] = -INFINITY;  // the paths that do not pass here: what is missing does
      const double posterior = 1 - probability(moved, lengths[b], classes, labels[b]) / whole;
      gradient[(i / classes * batch + b) * classes + i % classes] = (std::exp(own[i]) - posterior) * g[b];
    }
  }
  for (const bool zero_infinity : {false, true}) {
    p.zero_infinity = zero_infinity;
    const std::vector<float> nothing(batch * steps * p.states(), -INFINITY);
    Array<float> log_probs(x), loss(batch), alpha(nothing), beta(nothing), grad(g), result(x.size());
    Array<int64_t> ids(targets), places(sequences);
    ctc_forward(queue(), p, loss.data(), alpha.data(), log_probs.data(), ids.data(), places.data());
    ctc_backward(queue(), p, result.data(), beta.data(), grad.data(), loss.data(), alpha.data(), log_probs.data(),
                 ids.data(), places.data());
    EXPECT_EQ(loss.host().back(), INFINITY);
    EXPECT_LT(relative_error(loss.host(), losses), 1e-5);
    auto actual = result.host(), expected = std::vector<float>(gradient.begin(), gradient.end());
    for (int64_t i = 0; i < steps * batch * classes; ++i)
      if (i / classes % batch == batch - 1) {  // the impossible sequence
        EXPECT_TRUE(i / classes / batch >= lengths.back() || std::isnan(actual[i]) == !zero_infinity);
        EXPECT_TRUE(!zero_infinity || actual[i] == 0);
        actual[i] = expected[i] = 0;
      }
    EXPECT_LT(relative_error(actual, expected), 2e-5);
  }
}
