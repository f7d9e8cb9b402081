// Gradient of the input of 3x3 convolutions with stride 2 against direct sums in float64.
#include "ops/conv_support.h"

#include "ops/conv/strided_backward_data.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// even and odd sizes, both layouts (output width below and above 24), one to many images per vector
constexpr ConvShape shapes[] = {
    {2, 8, 16, 14, 14, 1, 1}, {1, 4, 5, 7, 7, 1, 1},   {3, 12, 7, 13, 9, 1, 1},   {1, 8, 16, 56, 56, 1, 1},
    {2, 4, 3, 49, 51, 1, 1},  {7, 4, 9, 2, 3, 1, 1},   {1, 16, 8, 1, 1, 1, 1},    {1, 4, 1, 5, 47, 1, 1},
    {1, 20, 11, 6, 48, 1, 1}, {2, 4, 2, 95, 81, 1, 1}, {23, 4, 33, 11, 10, 1, 1},
};

}  // namespace

TEST(ConvStridedBackwardData, MatchesDirectSums) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  std::string left_out;
  for (const ConvAlgorithm& algorithm : strided_backward_data_algorithms())
    for (const ConvShape& shape : shapes) {
      const ConvProblem p = problem_of(shape, 3, 2);
      if (too_large(algorithm, p)) {
        left_out += "\n" + describe(algorithm, p);
        continue;
      }
      ASSERT_EQ(refusal(algorithm, p), nullptr) << describe(algorithm, p);
      EXPECT_LE(error_of(algorithm, p), 1e-5) << describe(algorithm, p);
    }
  if (!left_out.empty()) GTEST_SKIP() << "too little local memory:" << left_out;
}

TEST(ConvStridedBackwardData, HalfStorageRoundsOnce) {
  if (!device().cpu_style()) GTEST_SKIP() << "needs a CPU device";
  std::string left_out;
  for (const ConvAlgorithm& algorithm : strided_backward_data_algorithms())
    for (const ConvShape& shape : {shapes[0], shapes[4]}) {
      const ConvProblem p = problem_of(shape, 3, 2, DType::bfloat16);
      if (too_large(algorithm, p)) {
        left_out += "\n" + describe(algorithm, p);
        continue;
      }
      EXPECT_LE(bfloat16_error_of(algorithm, p, 3e-5), 1) << describe(algorithm, p);
    }
  if (!left_out.empty()) GTEST_SKIP() << "too little local memory:" << left_out;
}

TEST(ConvStridedBackwardData, RefusesWithAReason) {
  const ConvAlgorithm& algorithm = strided_backward_data_algorithms()[0];
  EXPECT_NE(refusal(algorithm, problem_of({1, 6, 8, 14, 14, 1, 1}, 3, 2)), nullptr);
  EXPECT_NE(refusal(algorithm, problem_of({1, 8, 8, 14, 14, 0, 0}, 3, 2)), nullptr);
  EXPECT_NE(refusal(algorithm, problem_of({1, 8, 8, 14, 14, 1, 1}, 3, 1)), nullptr);
  EXPECT_NE(refusal(algorithm, problem_of({1, 8, 8, 14, 14, 1, 1}, 5, 2)), nullptr);
}
