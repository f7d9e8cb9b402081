// What C++ programs use: ocl/ops.h.
#include "ocl/ops.h"

#include "support.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

std::vector<float> numbers(size_t n, int seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  return values;
}

}  // namespace

TEST(Buffer, KeepsWhatIsWritten) {
  const std::vector<float> host = numbers(1000, 1);
  Buffer buffer(queue(), host);
  EXPECT_EQ(buffer.bytes(), 4000u);
  EXPECT_EQ(buffer.read<float>(), host);
  std::vector<float> part(10);
  buffer.read(part.data(), 40, 400);
  EXPECT_EQ(part, std::vector<float>(host.begin() + 100, host.begin() + 110));
  buffer.write(part.data(), 40);
  EXPECT_EQ(buffer.read<float>()[9], host[109]);
}

TEST(Buffer, MovesAndGivesBack) {
  const auto live = [] { return device().allocator().statistics().allocated_bytes[0].current; };
  const int64_t before = live();
  {
    Buffer first(queue(), 1 << 20);
    void* const address = first.data();
    Buffer second(std::move(first));
    EXPECT_EQ(second.data(), address);
    EXPECT_FALSE(first);
    second = Buffer(queue(), 512);
    EXPECT_EQ(live() - before, 512);
  }
  EXPECT_EQ(live(), before);
}

TEST(Buffer, RefusesWhatDoesNotFit) {
  Buffer buffer(queue(), DType::float32, {2, 3});
  EXPECT_EQ(buffer.tensor().shape_string(), "[2, 3]");
  float value = 0;
  EXPECT_THROW(buffer.write(&value, 4, 24), InvalidArgument);
  EXPECT_THROW(buffer.read(&value, 4, SIZE_MAX), InvalidArgument);
  EXPECT_THROW(buffer.view(DType::float32, {7}), InvalidArgument);
  EXPECT_THROW(buffer.view(DType::float32, {1}, 2), InvalidArgument);
  EXPECT_THROW(Buffer(queue(), DType::float32, {-1}), InvalidArgument);
  EXPECT_THROW(Buffer(queue(), DType::float32, {int64_t{1} << 40, int64_t{1} << 40}), InvalidArgument);
  EXPECT_EQ(Buffer(queue(), DType::float32, {0, 3}).bytes(), 0u);
}

TEST(Errors, AreOneFamily) {
  EXPECT_THROW(Device::get(Device::count()), Error);
  EXPECT_THROW(throw_error(CL_OUT_OF_RESOURCES, "a call"), Error);
  EXPECT_THROW(locate(&device()), Error);
  // What a kernel finds in its data comes with the next read.
  Buffer table(queue(), DType::float32, {4, 2}), index(queue(), std::vector<int64_t>{7}),
      rows(queue(), DType::float32, {1, 2});
  index_select(queue(), rows, table, 0, index.view(DType::int64, {1}));
  EXPECT_THROW(rows.read<float>(), KernelError);
}

TEST(Convolution, TypedPassesAreThoseOfTheReference) {
  const std::vector<float> x = numbers(2 * 4 * 6 * 5, 2), w = numbers(3 * 2 * 3 * 3 * 2, 3), b = numbers(6, 4);
  Buffer dx(queue(), x), dw(queue(), w), db(queue(), b);
  const ConvolutionOptions options{.stride = {1, 2, 1}, .padding = {0, 1, 1}, .groups = 2};
  const TensorView xs = dx.view(DType::float32, {2, 4, 6, 5}), ws = dw.view(DType::float32, {6, 2, 3, 3});
  const ConvProblem p = convolution_problem(xs, ws, options);
  EXPECT_EQ(output_sizes(p, 2), (std::vector<int64_t>{2, 6, 3, 5}));
  Buffer y(queue(), DType::float32, {2, 6, 3, 5}), kept(queue(), DType::float32, {2, 6, 3, 5});
  convolution_forward(queue(), xs, ws, db.view(DType::float32, {6}), y, options);
  const std::vector<float> found = y.read<float>();
  for (int64_t n = 0, at = 0; n < 2; ++n)
    for (int64_t o = 0; o < 6; ++o)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 5; ++j, ++at) {
          double sum = b[o];
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t u = 0; u < 3; ++u)
              for (int64_t v = 0; v < 3; ++v) {
                const int64_t r = 2 * i - 1 + u, s = j - 1 + v;
                if (r < 0 || r >= 6 || s < 0 || s >= 5) continue;
                sum += double{x[((n * 4 + o / 3 * 2 + c) * 6 + r) * 5 + s]} * w[((o * 2 + c) * 3 + u) * 3 + v];
              }
          ASSERT_NEAR(found[at], sum, 1e-5) << n << " " << o << " " << i << " " << j;
        }
  // A kept plan gives the same, and each algorithm by its name.
  for (const ConvAlgorithm& algorithm : conv_algorithms(ConvPass::forward)) {
    if (conv_route(algorithm, p, PlanTarget(device())).plan.refusal) {
      EXPECT_THROW(Convolution(device(), ConvPass::forward, p, algorithm.name), InvalidArgument);
      continue;
    }
    const Convolution plan(device(), ConvPass::forward, p, algorithm.name);
    EXPECT_STREQ(plan.algorithm(), algorithm.name);
    const auto peak = [] { return device().allocator().statistics().allocated_bytes[0]; };
    device().allocator().reset_peak();
    plan.run(queue(), {xs.data, ws.data, kept.data(), db.data()});
    EXPECT_EQ(peak().peak > peak().current, plan.workspace() > 0) << algorithm.name;
    const std::vector<float> again = kept.read<float>();
    for (size_t i = 0; i < again.size(); ++i) ASSERT_NEAR(again[i], found[i], 2e-4) << algorithm.name;
  }
  EXPECT_THROW(Convolution(device(), ConvPass::forward, p, "levitation"), InvalidArgument);
}

TEST(Convolution, GradientsAreAdjoint) {
  const std::vector<float> x = numbers(2 * 3 * 7 * 7, 5), w = numbers(4 * 3 * 3 * 3, 6), g = numbers(2 * 4 * 7 * 7, 7);
  Buffer dx(queue(), x), dw(queue(), w), dg(queue(), g);
  Buffer y(queue(), DType::float32, {2, 4, 7, 7}), to_x(queue(), DType::float32, {2, 3, 7, 7}),
      to_w(queue(), DType::float32, {4, 3, 3, 3});
  const ConvolutionOptions same{.padding = {0, 1, 1}};
  const TensorView xs = dx.view(DType::float32, {2, 3, 7, 7}), ws = dw.view(DType::float32, {4, 3, 3, 3}),
                   gs = dg.view(DType::float32, {2, 4, 7, 7});
  convolution_forward(queue(), xs, ws, {}, y, same);
  convolution_backward_data(queue(), gs, ws, to_x, same);
  convolution_backward_weight(queue(), gs, xs, to_w, same);
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  const double expected = dot(g, y.read<float>());
  EXPECT_GT(std::abs(expected), 0.1);
  EXPECT_NEAR(dot(x, to_x.read<float>()), expected, 1e-3);
  EXPECT_NEAR(dot(w, to_w.read<float>()), expected, 1e-3);
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  Buffer x(queue(), DType::float32, {1, 4, 5, 5}), w(queue(), DType::float32, {2, 4, 3, 3});
  Buffer narrow(queue(), DType::float32, {2, 3, 3, 3}), half(queue(), DType::float16, {2, 4, 3, 3});
  Buffer y(queue(), DType::float32, {1, 2, 3, 3}), wrong(queue(), DType::float32, {1, 2, 3, 4});
  convolution_forward(queue(), x, w, {}, y);
  EXPECT_THROW(convolution_forward(queue(), x, w, {}, wrong), InvalidArgument);
  EXPECT_THROW(convolution_forward(queue(), x, narrow, {}, y), InvalidArgument);
  EXPECT_THROW(convolution_forward(queue(), x, half, {}, y), InvalidArgument);
  EXPECT_THROW(convolution_forward(queue(), x, w, y, y), InvalidArgument);
  EXPECT_THROW(convolution_forward(queue(), x, w, {}, y, {.stride = {1, 0, 1}}), InvalidArgument);
  EXPECT_THROW(convolution_forward(queue(), x, w, {}, y, {.dilation = {1, 9, 9}}), InvalidArgument);
  EXPECT_THROW(convolution_forward(queue(), x, w, {}, y, {.groups = 3}), InvalidArgument);
}

TEST(Product, IsTheReference) {
  const std::vector<float> a = numbers(2 * 5 * 7, 8), b = numbers(2 * 7 * 3, 9);
  Buffer da(queue(), a), db(queue(), b), c(queue(), DType::float32, {2, 5, 3}),
      kept(queue(), DType::float32, {2, 5, 3});
  product(queue(), da.view(DType::float32, {2, 5, 7}), db.view(DType::float32, {2, 7, 3}), c);
  const std::vector<float> found = c.read<float>();
  for (int64_t n = 0, at = 0; n < 2; ++n)
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 3; ++j, ++at) {
        double sum = 0;
        for (int64_t k = 0; k < 7; ++k) sum += double{a[(n * 5 + i) * 7 + k]} * b[(n * 7 + k) * 3 + j];
        ASSERT_NEAR(found[at], sum, 1e-5);
      }
  GemmProblem p;
  p.batch = 2, p.m = 5, p.n = 3, p.k = 7;
  p.a = GemmProblem::row_major(5, 7), p.b = GemmProblem::row_major(7, 3), p.c = GemmProblem::row_major(5, 3);
  const Product plan(device(), p);
  EXPECT_FALSE(std::string(plan.algorithm()).empty());
  plan.run(queue(), {da.data(), db.data(), kept.data(), nullptr});
  const std::vector<float> again = kept.read<float>();
  for (size_t i = 0; i < again.size(); ++i) ASSERT_NEAR(again[i], found[i], 1e-5);
  EXPECT_THROW(product(queue(), c, db.view(DType::float32, {2, 7, 3}), c), InvalidArgument);
}
