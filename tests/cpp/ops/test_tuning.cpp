#include "ops/conv_support.h"
#include "support.h"

#include "base/os.h"
#include "ops/conv/winograd.h"
#include "ops/core/plan_table.h"
#include "ops/core/tuning.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gemm/gemm.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// A cache folder of its own for the length of a test.
class Tuning : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* value = std::getenv("TORCH_OCL_CACHE_DIR");
    before_ = value ? value : "";
    folder_ = std::filesystem::temp_directory_path() /
              ("torch_ocl_tuning_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    os::set_environment("TORCH_OCL_CACHE_DIR", folder_.string().c_str());
    tuning::clear(device());
    tuning::set_measuring(true);
  }
  void TearDown() override {
    tuning::set_measuring(false);
    tuning::clear(device());
    os::set_environment("TORCH_OCL_CACHE_DIR", before_.empty() ? nullptr : before_.c_str());
    std::filesystem::remove_all(folder_);
    tuning::clear(device());
  }

  std::string stored() const {
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "tuning")) {
      std::ifstream file(entry.path());
      text.append(std::istreambuf_iterator<char>(file), {});
    }
    return text;
  }

  std::filesystem::path folder_;
  std::string before_;
};

// Writes `value` everywhere, `times` times.
std::function<void()> filling(void* data, int64_t numel, float value, int times) {
  return [=] {
    for (int i = 0; i < times; ++i) queue().fill(data, &value, sizeof value, static_cast<size_t>(numel) * sizeof value);
  };
}

}  // namespace

TEST_F(Tuning, KeepsTheQuickestWhoseResultIsRight) {
  constexpr int64_t numel = 1 << 18;
  Workspace data(queue(), numel * sizeof(float));
  const tuning::Candidate candidates[] = {
      {"slow", filling(data.data(), numel, 2, 40)},
      {"wrong", filling(data.data(), numel, 3, 1)},
      {"not finite", filling(data.data(), numel, std::numeric_limits<float>::quiet_NaN(), 1)},
      {"failing", [] { throw std::runtime_error("no such kernel"); }},
      {"quick", filling(data.data(), numel, 2, 1)},
  };
  tuning::Problem problem("fill", DType::float32);
  problem.add(numel);
  EXPECT_EQ(tuning::choice(device(), problem), "");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(tuning::measure(queue(), problem, candidates, {data.data(), DType::float32, numel}), "quick");
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* left_out : {"wrong", "not finite", "failing"})
    EXPECT_NE(said.find(std::string("leaves ") + left_out + " out"), std::string::npos) << said;
  EXPECT_EQ(tuning::choice(device(), problem), "quick");
  EXPECT_NE(stored().find("fill float32 262144\tquick\n"), std::string::npos) << stored();
}

TEST_F(Tuning, AnAlternativeNeedsAClearGain) {
  constexpr int64_t numel = 1 << 18;
  Workspace data(queue(), numel * sizeof(float));
  tuning::Problem problem("fill", DType::float32);
  const tuning::Candidate candidates[] = {{"default", filling(data.data(), numel, 2, 1)},
                                          {"slower", filling(data.data(), numel, 2, 20)}};
  EXPECT_EQ(tuning::measure(queue(), problem, candidates, {data.data(), DType::float32, numel}), "default");
}

TEST_F(Tuning, ReadsItsFileAndSkipsWhatItCannotRead) {
  tuning::Problem known("family", DType::float32), unknown("family", DType::float64);
  known.add(1).add(-2);
  unknown.add(1).add(-2);
  Workspace data(queue(), 64);
  const tuning::Candidate two[] = {{"one", filling(data.data(), 16, 1, 1)}, {"two", filling(data.data(), 16, 1, 1)}};
  EXPECT_EQ(tuning::measure(queue(), known, std::span(two).first(1), {data.data(), DType::float32, 16}), "one");
  EXPECT_EQ(tuning::choice(device(), known), "") << "a single candidate needs no measurement";
  tuning::measure(queue(), known, two, {data.data(), DType::float32, 16});
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "tuning")) file = entry.path();
  std::ofstream(file, std::ios::trunc)
      << "rubbish\n\t\n# family float32 1 -2\tcomment\nfamily float32 1 -2\tother\nfamily float64 1 -2\t";
  os::set_environment("TORCH_OCL_CACHE_DIR", (folder_.string() + "_elsewhere").c_str());
  tuning::clear(device());  // forgets what is in memory
  EXPECT_EQ(tuning::choice(device(), known), "");
  tuning::clear(device());
  os::set_environment("TORCH_OCL_CACHE_DIR", folder_.string().c_str());
  EXPECT_EQ(tuning::choice(device(), known), "other");
  EXPECT_EQ(tuning::choice(device(), unknown), "");
}

TEST_F(Tuning, ConvolutionsAreMeasuredOnceAndRight) {
  const ConvProblem p = problem_of({2, 16, 24, 10, 9, 1, 1}, 3);
  const auto x = random_values<float>(p.x_numel(), 1), w = random_values<float>(p.w_numel(), 2),
             y = random_values<float>(p.y_numel(), 3);
  for (ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight}) {
    std::string table;
    for (int repetition = 0; repetition < 2; ++repetition) {
      const Array<float> dx(x), dw(w), dy(y);
      convolution(queue(), pass, p, {dx.data(), dw.data(), dy.data()});
      const auto result = pass == ConvPass::forward         ? dy.host()
                          : pass == ConvPass::backward_data ? dx.host()
                                                            : dw.host();
      const auto expected = reference(pass, p, x, w, y, {});
      for (size_t i = 0; i < result.size(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-3) << i;
      if (repetition == 1) {
        EXPECT_EQ(tuning::table(device()), table) << "measured twice";
      }
      table = tuning::table(device());
    }
  }
  if (!device().cpu_style()) GTEST_SKIP() << "one algorithm only: nothing to measure, results were right";
  const std::string text = stored();
  for (const char* problem : {"conv_forward float32 0 2 1 16 24 1 10 9", "conv_backward_data float32 0 2",
                              "conv_backward_weight float32 0 2"})
    EXPECT_NE(text.find(problem), std::string::npos) << text;
}

TEST_F(Tuning, ProductsThatAddToTheirOwnResultAreMeasuredAside) {
  constexpr int64_t n = 96;
  const Array<float> a(std::vector<float>(n * n, 0.5f)), c(std::vector<float>(n * n, 3.0f));
  GemmProblem p;
  p.m = p.n = p.k = n;
  p.a = p.b = p.c = p.d = GemmProblem::row_major(n, n);
  p.beta = 1;
  gemm(queue(), p, {a.data(), a.data(), c.data(), c.data()});
  for (float value : c.host()) ASSERT_EQ(value, 3.0f + 0.25f * n);
  if (!device().cpu_style()) GTEST_SKIP() << "one algorithm only: nothing to measure, the sums were right";
  EXPECT_NE(stored().find("gemm float32 1 96 96 96"), std::string::npos) << stored();
}

// A copy into the other order of filters, another Winograd: what is quickest may be another.
TEST_F(Tuning, ProblemsDifferByOrderOfFiltersAndByMode) {
  if (!device().cpu_style()) GTEST_SKIP() << "one algorithm only: nothing to measure";
  ConvProblem p = problem_of({2, 16, 24, 10, 9, 1, 1}, 3);
  const Array<float> x(p.x_numel()), w(p.w_numel()), y(p.y_numel());
  const auto rows = [&] {
    const std::string text = tuning::table(device());
    int64_t count = 0;
    for (size_t at = text.find("conv_forward"); at != std::string::npos; at = text.find("conv_forward", at + 1))
      ++count;
    return count;
  };
  const int64_t before = rows();
  convolution(queue(), ConvPass::forward, p, {x.data(), w.data(), y.data()});
  EXPECT_EQ(rows(), before + 1);
  p.filters_last = true;
  convolution(queue(), ConvPass::forward, p, {x.data(), w.data(), y.data()});
  EXPECT_EQ(rows(), before + 2);
  const WinogradMode mode = winograd_mode();
  set_winograd_mode(WinogradMode::off);
  convolution(queue(), ConvPass::forward, p, {x.data(), w.data(), y.data()});
  set_winograd_mode(mode);
  EXPECT_EQ(rows(), before + 3);
}

// A problem that was planned already takes the choice that is made later, and gives it up when it is forgotten.
TEST_F(Tuning, KeptPlansFollowTheChoices) {
  if (!device().cpu_style()) GTEST_SKIP() << "one algorithm only: nothing to measure";
  tuning::set_measuring(false);
  const ConvProblem p = problem_of({2, 16, 24, 11, 9, 1, 1}, 3);
  const Array<float> x(random_values<float>(p.x_numel())), w(random_values<float>(p.w_numel())), y(p.y_numel());
  const auto run = [&] { convolution(queue(), ConvPass::forward, p, {x.data(), w.data(), y.data()}); };
  run();
  const uint64_t first = plans_made();
  run();
  EXPECT_EQ(plans_made(), first);
  tuning::set_measuring(true);
  run();
  EXPECT_NE(tuning::table(device()).find("conv_forward float32 0 2 1 16 24 1 11 9"), std::string::npos);
  tuning::set_measuring(false);
  run();
  const uint64_t measured = plans_made();
  EXPECT_GT(measured, first);
  run();
  EXPECT_EQ(plans_made(), measured);
  tuning::clear(device());
  run();
  EXPECT_EQ(plans_made(), measured + 1);
}

TEST_F(Tuning, ResultsOfAnotherVersionAreLeftAlone) {
  tuning::Problem known("family", DType::float32);
  Workspace data(queue(), 64);
  const tuning::Candidate two[] = {{"one", filling(data.data(), 16, 1, 1)}, {"two", filling(data.data(), 16, 1, 1)}};
  const std::string_view chosen = tuning::measure(queue(), known, two, {data.data(), DType::float32, 16});
  EXPECT_EQ(tuning::choice(device(), known), chosen);
  const auto file = std::filesystem::directory_iterator(folder_ / "tuning")->path();
  std::ofstream(file, std::ios::trunc) << "# torch_ocl tuning 1\nfamily float32\tother\n";
  os::set_environment("TORCH_OCL_CACHE_DIR", (folder_.string() + "_elsewhere").c_str());
  tuning::clear(device());  // forgets what is in memory
  os::set_environment("TORCH_OCL_CACHE_DIR", folder_.string().c_str());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(tuning::choice(device(), known), "");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("are not used"), std::string::npos) << said;
}
