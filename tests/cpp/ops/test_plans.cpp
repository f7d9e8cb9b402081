// Planning: quick for any number of compute units, done once for a problem, and right for other numbers than this
// device's.
#include "ops/conv_cases.h"
#include "ops/conv_support.h"
#include "support.h"

#include "ops/conv/combine.h"
#include "ops/conv/gather.h"
#include "ops/conv/splits.h"
#include "ops/conv/winograd.h"
#include "ops/core/plan_table.h"
#include "ops/gemm/gemm.h"

#include <chrono>
#include <limits>
#include <map>
#include <string>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

constexpr int64_t unit_counts[] = {1, 2, 4, 16, 64, 192};
constexpr ConvPass passes[] = {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight};
constexpr double most_microseconds = 50;

// Of the benchmark (benchmarks/cases.py): images, channels, edge, outputs, kernel, stride, groups, dilation, depth.
struct Layer {
  int64_t images, channels, edge, outputs, kernel, stride, groups, dilation = 1, depth = 1;
};

constexpr Layer layers[] = {
    {8, 3, 224, 64, 7, 2, 1},      {8, 64, 56, 64, 3, 1, 1},     {8, 64, 56, 128, 3, 2, 1},
    {8, 128, 28, 128, 3, 1, 1},    {8, 256, 14, 256, 3, 1, 1},   {8, 512, 7, 512, 3, 1, 1},
    {8, 64, 56, 256, 1, 1, 1},     {8, 256, 14, 1024, 1, 1, 1},  {8, 64, 27, 192, 5, 1, 1},
    {8, 96, 56, 96, 3, 1, 96},     {8, 144, 56, 144, 3, 2, 144}, {8, 384, 14, 384, 3, 1, 384},
    {8, 960, 7, 960, 3, 1, 960},   {2, 64, 224, 64, 3, 1, 1},    {4, 384, 14, 384, 7, 1, 384},
    {4, 128, 28, 128, 3, 1, 1, 2}, {64, 512, 1, 512, 3, 1, 1},   {2, 64, 28, 64, 3, 1, 1, 1, 8},
    {8, 256, 28, 256, 3, 1, 32},   {4, 32, 28, 32, 7, 1, 1},     {2, 64, 128, 3, 3, 1, 1},
};

// 1x1 convolutions of ResNet-50 and MobileNet-V2: channels, edge, outputs, stride.
constexpr std::array<int64_t, 4> pointwise_layers[] = {
    {64, 56, 64, 1},    {64, 56, 256, 1},   {256, 56, 64, 1},    {256, 56, 128, 1},  {256, 56, 512, 2},
    {128, 28, 512, 1},  {512, 28, 128, 1},  {512, 28, 256, 1},   {512, 28, 1024, 2}, {256, 14, 1024, 1},
    {1024, 14, 256, 1}, {1024, 14, 512, 1}, {1024, 14, 2048, 2}, {512, 7, 2048, 1},  {2048, 7, 512, 1},
    {32, 112, 16, 1},   {16, 112, 96, 1},   {144, 56, 24, 1},    {192, 28, 32, 1},   {384, 14, 64, 1},
    {576, 14, 96, 1},   {960, 7, 160, 1},   {320, 7, 1280, 1},
};

ConvProblem problem_of(const Layer& l) {
  ConvProblem p;
  p.batch = l.images, p.groups = l.groups, p.in_channels = l.channels, p.out_channels = l.outputs;
  const int64_t padding = l.kernel / 2 * l.dilation,
                out = (l.edge + 2 * padding - l.dilation * (l.kernel - 1) - 1) / l.stride + 1;
  const bool volume = l.depth > 1;
  p.input = {l.depth, l.edge, l.edge}, p.output = {l.depth, out, out};
  p.kernel = {volume ? l.kernel : 1, l.kernel, l.kernel}, p.padding = {volume ? padding : 0, padding, padding};
  p.stride = {1, l.stride, l.stride}, p.dilation = {1, l.dilation, l.dilation};
  return p;
}

std::vector<ConvProblem> all_convolutions() {
  std::vector<ConvProblem> problems;
  for (const Layer& layer : layers) problems.push_back(problem_of(layer));
  for (int64_t batch : {4, 32})
    for (const auto& [channels, edge, outputs, stride] : pointwise_layers)
      problems.push_back(problem_of(Layer{batch, channels, edge, outputs, 1, stride, 1}));
  for (const ConvCase& c : conv_cases) problems.push_back(ocl::testing::problem_of(c));
  const size_t contiguous = problems.size();
  for (size_t i = 0; i < contiguous; ++i) {
    problems.push_back(problems[i]);
    problems.back().channels_last = true;
  }
  return problems;
}

// The least of several, because other programs may take the processor in between.
template <class Work>
double microseconds(const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int repetition = 0; repetition < 20 && least > most_microseconds / 2; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least =
        std::min(least, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

// CPUs of both sizes of local memory, and a GPU; none of them is there.
std::vector<PlanTarget> targets() {
  std::vector<PlanTarget> all(3);
  all[1].local_memory = 256 << 10, all[1].vector_floats = 16;
  all[2].cpu_style = false, all[2].is_gpu = true, all[2].local_memory = 48 << 10, all[2].max_work_group = 1024;
  return all;
}

}  // namespace

TEST(Plans, ConvolutionsArePlannedQuicklyForAnyNumberOfUnits) {
  const auto problems = all_convolutions();
  for (PlanTarget target : targets())
    for (const int64_t units : unit_counts) {
      target.compute_units = units;
      for (const ConvProblem& p : problems)
        for (const ConvPass pass : passes)
          for (const ConvAlgorithm& algorithm : conv_algorithms(pass))
            EXPECT_LT(microseconds([&] { algorithm.plan(p, target); }), most_microseconds)
                << describe(algorithm, p) << ", " << units << " units";
    }
}

TEST(Plans, ProductsArePlannedQuicklyForAnyNumberOfUnits) {
  for (PlanTarget target : targets())
    for (const int64_t units : unit_counts) {
      target.compute_units = units;
      for (const auto& [batch, m, n, k] : std::initializer_list<std::array<int64_t, 4>>{{1, 1, 1, 1},
                                                                                        {1, 32, 144, 6272},
                                                                                        {1, 512, 512, 512},
                                                                                        {1, 4096, 4096, 4096},
                                                                                        {1, 4096, 4096, 16},
                                                                                        {1, 50000, 30000, 64},
                                                                                        {1, 8, 4096, 25088},
                                                                                        {96, 197, 197, 64},
                                                                                        {1, 100352, 64, 256},
                                                                                        {3, 521, 617, 401}}) {
        GemmProblem p;
        p.batch = batch, p.m = m, p.n = n, p.k = k;
        p.c = p.d = GemmProblem::row_major(m, n);
        for (const bool turned : {false, true}) {
          p.a = turned ? GemmProblem::transposed(m, k) : GemmProblem::row_major(m, k);
          p.b = turned ? GemmProblem::transposed(k, n) : GemmProblem::row_major(k, n);
          for (const GemmAlgorithm& algorithm : gemm_algorithms())
            EXPECT_LT(microseconds([&] { algorithm.plan(p, target); }), most_microseconds)
                << algorithm.name << " " << batch << "x" << m << "x" << n << "x" << k << ", " << units << " units";
        }
      }
    }
}

// More units need more tasks, and more tasks pack their operands again or leave sums to be added: what the tasks take
// together may not grow with the units more than they gain.
TEST(Plans, ManyUnitsDoNotMultiplyTheWorkOfWeightGradients) {
  constexpr int64_t packing = 10, storing = 50;  // in products of a pixel, as measured (ops/conv/combine.cpp)
  PlanTarget target;
  std::map<int64_t, int64_t> all;
  for (const auto& [channels, edge, outputs, stride] : pointwise_layers) {
    if (stride != 1) continue;
    const ConvProblem p = problem_of(Layer{4, channels, edge, outputs, 1, 1, 1});
    const Gather g = flatten_pointwise(forward_gather(p));
    const int64_t pixels = p.batch * p.out_pixels();
    for (const int64_t units : unit_counts) {
      target.compute_units = units;
      const WeightTiles t = choose_weight_tiles(g, target, 1);
      const int64_t tiles = ceil_div(outputs, t.channels) * ceil_div(channels, t.columns);
      EXPECT_GE(t.share * t.parts, pixels);
      EXPECT_LE(t.local_bytes, target.local_memory);
      if (units <= 16) {
        EXPECT_GE(2 * tiles * t.parts, units) << channels << " to " << outputs << ", " << units << " units";
      }
      all[units] += tiles * (pixels * (t.channels * t.columns + packing * (t.channels + t.columns)) +
                             (t.parts > 1 ? storing * t.parts * t.channels * t.columns : 0));
    }
  }
  for (const int64_t units : unit_counts)
    EXPECT_LE(all[units], all[2] * (units <= 64 ? 115 : 125) / 100) << units << " units";
}

TEST(Plans, TheThriftiestSplitEndsAboutAsEarlyAsTheEarliest) {
  struct Split {
    int64_t end, work;
  };
  EXPECT_EQ(thriftiest(std::vector<Split>{{100, 400}, {109, 300}, {111, 200}, {105, 350}}).work, 300);
  EXPECT_EQ(thriftiest(std::vector<Split>{{100, 400}, {100, 400}}).end, 100);
}

// A schedule that is played through cannot end before the work is done, nor later than in rounds of the largest task.
TEST(Plans, EndsThatAreEstimatedAreNearThosePlayedThrough) {
  for (const int64_t cores : {1, 2, 3, 4})
    for (const int64_t pixel_tasks : {1, 2, 5, 12})
      for (const int64_t channel_tasks : {1, 3, 8}) {
        const Tasks tasks{pixel_tasks, channel_tasks, 2, {{100, 60}, {40, 30}}};
        int64_t work = 0;
        for (int64_t i = 0; i < pixel_tasks; ++i)
          for (int64_t j = 0; j < channel_tasks; ++j) work += 2 * tasks.cost_of(i, j);
        const int64_t least = ceil_div(work, cores), rounds = 100 * ceil_div(tasks.count(), cores);
        for (const int64_t end :
             {played_end(tasks, cores, false), played_end(tasks, cores, true), estimated_end(tasks, cores)}) {
          EXPECT_GE(end, least) << cores << " cores, " << pixel_tasks << " x " << channel_tasks;
          EXPECT_LE(end, rounds) << cores << " cores, " << pixel_tasks << " x " << channel_tasks;
        }
      }
}

// The numbers of a plan are those of its target alone: workspaces, tasks and local memory belong together.
TEST(Plans, ResultsAreRightForAnyNumberOfUnits) {
  const ConvProblem problems[] = {ocl::testing::problem_of({2, 40, 72, 14, 13, 0, 0}, 1),
                                  ocl::testing::problem_of({2, 24, 40, 15, 17, 1, 1}, 3),
                                  ocl::testing::problem_of({2, 16, 24, 14, 14, 1, 1}, 3, 2),
                                  ocl::testing::problem_of({2, 3, 16, 33, 35, 3, 3}, 7, 2)};
  PlanTarget target(device());
  for (const int64_t units : {1, 16, 192}) {
    target.compute_units = units;
    for (ConvProblem p : problems)
      for (const bool channels_last : {false, true}) {
        p.channels_last = channels_last;
        for (const ConvPass pass : passes)
          for (const ConvAlgorithm& algorithm : conv_algorithms(pass)) {
            if (algorithm.plan(p, target).refusal) continue;
            EXPECT_LE(error_of(algorithm, p, true, target), 1e-4)
                << describe(algorithm, p) << ", " << units << " units";
          }
      }
  }
}

TEST(Plans, ASecondLaunchPlansNothing) {
  for (const ConvCase& c : {conv_cases[0], conv_cases[2], conv_cases[4], conv_cases[14]}) {
    ConvProblem p = ocl::testing::problem_of(c);
    for (const bool channels_last : {false, true}) {
      p.channels_last = channels_last;
      const Array<float> x(p.x_numel()), w(p.w_numel()), y(p.y_numel());
      for (const ConvPass pass : passes) {
        convolution(queue(), pass, p, {x.data(), w.data(), y.data()});
        const uint64_t first = plans_made();
        EXPECT_GT(first, 0u);
        convolution(queue(), pass, p, {x.data(), w.data(), y.data()});
        EXPECT_EQ(plans_made(), first) << c.name << " pass " << int(pass);
      }
    }
  }
  GemmProblem p;
  p.m = 33, p.n = 47, p.k = 29;
  p.a = GemmProblem::row_major(33, 29), p.b = GemmProblem::row_major(29, 47),
  p.c = p.d = GemmProblem::row_major(33, 47);
  const Array<float> a(33 * 29), b(29 * 47), c(33 * 47);
  gemm(queue(), p, {a.data(), b.data(), c.data(), nullptr});
  const uint64_t first = plans_made();
  p.alpha = 3;  // a number, not a plan
  gemm(queue(), p, {a.data(), b.data(), c.data(), nullptr});
  EXPECT_EQ(plans_made(), first);
  p.beta = 1;  // c is read
  gemm(queue(), p, {a.data(), b.data(), c.data(), c.data()});
  EXPECT_EQ(plans_made(), first + 1);
  queue().finish();
}

TEST(Plans, ModesAreOtherProblems) {
  const ConvProblem p = ocl::testing::problem_of({2, 64, 64, 28, 28, 1, 1}, 3);
  const Array<float> x(random_values<float>(p.x_numel())), w(random_values<float>(p.w_numel(), 2)), y(p.y_numel());
  const auto planned = [&] {
    const uint64_t before = plans_made();
    convolution(queue(), ConvPass::forward, p, {x.data(), w.data(), y.data()});
    return plans_made() - before;
  };
  const WinogradMode mode = winograd_mode();
  planned();
  set_winograd_mode(mode == WinogradMode::off ? WinogradMode::precise : WinogradMode::off);
  EXPECT_EQ(planned(), 1u);
  EXPECT_EQ(planned(), 0u);
  set_winograd_mode(mode);
  EXPECT_EQ(planned(), 0u);
  queue().finish();
}

TEST(Plans, BadProblemsAreRefusedEveryTime) {
  ConvProblem p = ocl::testing::problem_of({2, 5, 6, 9, 9, 1, 1}, 3);
  p.groups = 2;  // 5 channels
  for (int repetition = 0; repetition < 2; ++repetition)
    EXPECT_THROW(convolution(queue(), ConvPass::forward, p, {}), InvalidArgument);
}

TEST(Plans, TheTableIsBoundedAndKeepsWhatIsUsed) {
  struct Key {
    int64_t number;
    bool operator==(const Key&) const = default;
    size_t hash() const { return Hasher().add(static_cast<uint64_t>(number)).value(); }
  };
  PlanTable<Key, int64_t> table;
  std::map<int64_t, int> made;
  const auto get = [&](int64_t number) { return *table.get(Key{number}, [&] { return ++made[number], 2 * number; }); };
  const auto many = static_cast<int64_t>(5 * table.capacity);
  for (int64_t i = 1; i <= many; ++i) {
    EXPECT_EQ(get(i), 2 * i);
    EXPECT_EQ(get(0), 0);
  }
  EXPECT_EQ(made[0], 1) << "used all the time";
  EXPECT_EQ(get(1), 2);
  EXPECT_EQ(made[1], 2) << "not used for long";
  EXPECT_EQ(get(many), 2 * many);
  EXPECT_EQ(made[many], 1);
  EXPECT_THROW(table.get(Key{-1}, []() -> int64_t { throw std::runtime_error("no plan"); }), std::runtime_error);
  EXPECT_EQ(get(-1), -2);
}
