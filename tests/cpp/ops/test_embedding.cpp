#include "ops/embedding/embedding.h"
#include "ops/core/device_errors.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

std::vector<int64_t> random_index(size_t n, int64_t limit, unsigned seed = 3) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int64_t> distribution(0, limit - 1);
  std::vector<int64_t> values(n);
  for (int64_t& value : values) value = distribution(engine);
  return values;
}

}  // namespace

TEST(Embedding, BackwardSumsLookups) {
  const int64_t rows = 101, width = 83, n = 307;
  auto k = random_index(n, rows - 20);  // the last rows are never used: zeros
  for (int64_t i = 0; i < 60; ++i) k[i * 5] = 7;
  const auto g = random_values<float>(n * width);
  for (bool deterministic : {false, true})
    for (bool by_frequency : {false, true}) {
      Array<float> grad(g), table(rows * width);
      Array<int64_t> indices(k);
      EmbeddingGradient how;
      how.padding = 3;
      how.by_frequency = by_frequency;
      embedding_backward(queue(), TensorView::contiguous(table.data(), DType::float32, {rows, width}),
                         TensorView::contiguous(grad.data(), DType::float32, {n, width}),
                         TensorView::contiguous(indices.data(), DType::int64, {n}), how, deterministic);
      std::vector<double> expected(rows * width, 0.), counts(rows, 0.);
      for (int64_t i : k) counts[i] += 1;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < width && k[i] != 3; ++c)
          expected[k[i] * width + c] += g[i * width + c] / (by_frequency ? counts[k[i]] : 1);
      EXPECT_LT(relative_error(table.host(), expected), 1e-5);
    }
}

TEST(Embedding, NoLookupsGiveZeros) {
  Array<float> table(15);
  embedding_backward(queue(), TensorView::contiguous(table.data(), DType::float32, {3, 5}),
                     TensorView::contiguous(nullptr, DType::float32, {0, 5}),
                     TensorView::contiguous(nullptr, DType::int64, {0}), {}, false);
  EXPECT_EQ(table.host(), std::vector<float>(15, 0.f));
}

TEST(Embedding, Bags) {
  const int64_t rows = 31, width = 45, n = 200, bags = 17;
  const auto w = random_values<float>(rows * width);
  const auto k = random_index(n, rows);
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b < bags; ++b) offsets.push_back(b * b * n / (bags * bags));  // the first two are short or empty
  offsets[1] = 0;
  for (BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    Array<float> table(w), out(bags * width);
    Array<int64_t> indices(k), starts(offsets), bag(n), size(bags), best(bags * width);
    EmbeddingBag problem{TensorView::contiguous(table.data(), DType::float32, {rows, width}),
                         TensorView::contiguous(indices.data(), DType::int64, {n}),
                         TensorView::contiguous(starts.data(), DType::int64, {bags})};
    problem.mode = mode;
    problem.bags = bags;
    problem.padding = 5;
    embedding_bag(queue(), problem, TensorView::contiguous(out.data(), DType::float32, {bags, width}),
                  TensorView::contiguous(bag.data(), DType::int64, {n}),
                  TensorView::contiguous(size.data(), DType::int64, {bags}),
                  TensorView::contiguous(best.data(), DType::int64, {bags, width}));
    std::vector<double> expected(bags * width, 0.);
    const auto sizes = size.host(), positions = bag.host();
    for (int64_t b = 0; b < bags; ++b) {
      const int64_t to = b + 1 < bags ? offsets[b + 1] : n;
      int64_t count = 0;
      for (int64_t p = offsets[b]; p < to; ++p) {
        EXPECT_EQ(positions[p], b);
        if (k[p] == 5) continue;
        for (int64_t c = 0; c < width; ++c) {
          double& e = expected[b * width + c];
          const double value = w[k[p] * width + c];
          e = mode == BagMode::max ? (count == 0 ? value : std::max(e, value)) : e + value;
        }
        ++count;
      }
      EXPECT_EQ(sizes[b], count);
      if (mode == BagMode::mean && count)
        for (int64_t c = 0; c < width; ++c) expected[b * width + c] /= static_cast<double>(count);
    }
    EXPECT_LT(relative_error(out.host(), expected), 2e-6) << static_cast<int>(mode);
  }
}

TEST(Embedding, RenormScalesOnlyUsedRows) {
  Array<float> table(std::vector<float>{3, 4, 30, 40, 0.3f, 0.4f});
  Array<int64_t> indices(std::vector<int64_t>{0, 2, 0});
  embedding_renorm(queue(), TensorView::contiguous(table.data(), DType::float32, {3, 2}),
                   TensorView::contiguous(indices.data(), DType::int64, {3}), 1, 2);
  EXPECT_LT(relative_error(table.host(), std::vector<double>{0.6, 0.8, 30, 40, 0.3, 0.4}), 1e-6);
}

TEST(Embedding, BagWeightsBackward) {
  const int64_t rows = 31, width = 45, n = 200, bags = 17, padding = 5;
  const auto w = random_values<float>(rows * width), g = random_values<float>(bags * width, 2);
  const auto k = random_index(n, rows), b = random_index(n, bags, 4);
  Array<float> table(w), grad(g), result(n);
  Array<int64_t> indices(k), bag(b);
  embedding_bag_weights_backward(queue(), TensorView::contiguous(result.data(), DType::float32, {n}),
                                 TensorView::contiguous(grad.data(), DType::float32, {bags, width}),
                                 TensorView::contiguous(table.data(), DType::float32, {rows, width}),
                                 TensorView::contiguous(indices.data(), DType::int64, {n}),
                                 TensorView::contiguous(bag.data(), DType::int64, {n}), padding);
  std::vector<double> expected(n, 0.0);
  for (int64_t p = 0; p < n; ++p)
    for (int64_t c = 0; c < width && k[p] != padding; ++c)
      expected[p] += double(g[b[p] * width + c]) * w[k[p] * width + c];
  EXPECT_LT(relative_error(result.host(), expected), 5e-6);
}
