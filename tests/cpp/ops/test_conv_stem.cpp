// Convolutions of images with few channels against direct sums in float64.
#include "ops/conv_support.h"

#include "ops/conv/stem.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Case {
  ConvShape shape;
  int64_t kernel, stride;
};

constexpr Case cases[] = {
    {{2, 3, 16, 37, 41, 3, 3}, 7, 2},  {{1, 3, 9, 8, 9, 5, 4}, 7, 2},    {{1, 3, 24, 59, 67, 2, 2}, 11, 4},
    {{1, 3, 12, 11, 11, 0, 0}, 11, 4}, {{3, 3, 32, 23, 29, 1, 1}, 3, 2}, {{2, 3, 67, 64, 3, 0, 1}, 3, 2},
    {{2, 1, 8, 28, 28, 1, 1}, 3, 1},   {{17, 1, 10, 9, 9, 0, 0}, 3, 1},  {{1, 1, 64, 5, 300, 1, 1}, 3, 1},
    {{1, 4, 40, 31, 19, 2, 0}, 4, 4},  {{5, 2, 35, 11, 53, 0, 3}, 5, 2}, {{2, 3, 10, 21, 61, 3, 3}, 7, 2},
    {{1, 2, 8, 9, 16, 1, 1}, 3, 1},  // rows in whole vectors
};

std::vector<ConvAlgorithm> algorithms() {
  std::vector<ConvAlgorithm> all(stem_algorithms().begin(), stem_algorithms().end());
  all.insert(all.end(), stem_backward_data_algorithms().begin(), stem_backward_data_algorithms().end());
  return all;
}

// The memory orders that it takes.
std::vector<bool> orders(const ConvAlgorithm& algorithm) {
  return algorithm.pass == ConvPass::backward_data ? std::vector<bool>{false} : std::vector<bool>{false, true};
}

}  // namespace

TEST(ConvStem, MatchesDirectSums) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  std::string left_out;
  for (const ConvAlgorithm& algorithm : algorithms())
    for (const Case& each : cases)
      for (bool channels_last : orders(algorithm)) {
        ConvProblem p = problem_of(each.shape, each.kernel, each.stride);
        p.channels_last = channels_last;
        if (too_large(algorithm, p)) {
          left_out += "\n" + describe(algorithm, p);
          continue;
        }
        ASSERT_EQ(refusal(algorithm, p), nullptr) << describe(algorithm, p);
        EXPECT_LE(error_of(algorithm, p), 2e-5) << describe(algorithm, p);
      }
  if (!left_out.empty()) GTEST_SKIP() << "too little local memory:" << left_out;
}

TEST(ConvStem, HalfStorageRoundsOnce) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  std::string left_out;
  for (const ConvAlgorithm& algorithm : algorithms())
    for (const Case& each : {cases[0], cases[5]})
      for (bool channels_last : orders(algorithm)) {
        ConvProblem p = problem_of(each.shape, each.kernel, each.stride, DType::bfloat16);
        p.channels_last = channels_last;
        if (too_large(algorithm, p)) {
          left_out += "\n" + describe(algorithm, p);
          continue;
        }
        EXPECT_LE(bfloat16_error_of(algorithm, p, 3e-5), 1) << describe(algorithm, p);
      }
  if (!left_out.empty()) GTEST_SKIP() << "too little local memory:" << left_out;
}

TEST(ConvStem, RefusesWithAReason) {
  for (const ConvAlgorithm& algorithm : algorithms()) {
    const auto reason = [&](const ConvShape& shape, int64_t kernel, int64_t stride) {
      return refusal(algorithm, problem_of(shape, kernel, stride));
    };
    EXPECT_NE(reason({1, 5, 64, 32, 32, 1, 1}, 3, 1), nullptr);
    EXPECT_NE(reason({1, 3, 4, 32, 32, 1, 1}, 3, 1), nullptr);
    EXPECT_NE(reason({1, 3, 64, 32, 32, 1, 1}, 3, 3), nullptr);
    EXPECT_NE(reason({1, 3, 64, 3, 2000000, 1, 1}, 3, 1), nullptr);
  }
}

TEST(ConvStem, NewShapesBuildNothing) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  for (const ConvAlgorithm& algorithm : algorithms()) error_of(algorithm, problem_of({1, 3, 8, 20, 20, 1, 1}, 3, 2));
  const BuildCounts before = build_counts();
  for (const ConvAlgorithm& algorithm : algorithms()) error_of(algorithm, problem_of({2, 3, 24, 31, 17, 0, 2}, 3, 2));
  EXPECT_EQ(before.built + before.loaded, build_counts().built + build_counts().loaded);
}
