#include "ops/shape/shape.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

TEST(Concatenate, ManyInputsInEveryDimension) {
  for (int dim = 0; dim < 3; ++dim) {
    std::vector<Array<float>> arrays;
    std::vector<std::vector<float>> hosts;
    std::vector<TensorView> views;
    int64_t total = 0;
    std::array<int64_t, 3> sizes{3, 5, 131};
    for (int i = 0; i < 11; ++i) {
      sizes[dim] = i == 4 ? 0 : i % 3 + 1;
      total += sizes[dim];
      hosts.push_back(random_values<float>(sizes[0] * sizes[1] * sizes[2], i));
      arrays.emplace_back(hosts.back());
      views.push_back(TensorView::contiguous(arrays.back().data(), DType::float32, sizes));
    }
    sizes[dim] = total;
    Array<float> out(sizes[0] * sizes[1] * sizes[2]);
    concatenate(queue(), TensorView::contiguous(out.data(), DType::float32, sizes), views, dim);
    std::vector<float> expected(out.size());
    int64_t start = 0;
    for (size_t t = 0; t < views.size(); ++t) {
      const auto& s = views[t].sizes;
      for (int64_t i = 0; i < s[0] * s[1] * s[2]; ++i) {
        std::array<int64_t, 3> at{i / (s[1] * s[2]), i / s[2] % s[1], i % s[2]};
        at[dim] += start;
        expected[(at[0] * sizes[1] + at[1]) * sizes[2] + at[2]] = hosts[t][i];
      }
      start += s[dim];
    }
    EXPECT_EQ(out.host(), expected) << "dim " << dim;
  }
}

TEST(Concatenate, StridedInputAndWideElements) {
  std::vector<double> a{1, 2, 3, 4, 5, 6}, b{7, 8};
  Array<double> da(a), db(b), out(8);
  const std::array<int64_t, 2> sizes{2, 3}, transposed{1, 2};
  const TensorView inputs[] = {TensorView::strided(da.data(), DType::float64, sizes, transposed),
                               TensorView::contiguous(db.data(), DType::float64, {2, 1})};
  concatenate(queue(), TensorView::contiguous(out.data(), DType::float64, {2, 4}), inputs, -1);
  EXPECT_EQ(out.host(), (std::vector<double>{1, 3, 5, 7, 2, 4, 6, 8}));
}

TEST(Triangle, LowerAndUpper) {
  const int64_t B = 3, R = 17, C = 29;
  const auto x = random_values<float>(B * R * C);
  for (int64_t k : {-40, -16, -3, 0, 5, 28, 40})
    for (bool upper : {false, true}) {
      Array<float> self(x), out(x.size());
      const TensorView sv = TensorView::contiguous(self.data(), DType::float32, {B, R, C});
      triangle(queue(), TensorView::contiguous(out.data(), DType::float32, {B, R, C}), sv, k, upper);
      auto expected = x;
      for (int64_t i = 0; i < B * R * C; ++i) {
        const int64_t d = i % C - i / C % R;
        if (upper ? d < k : d > k) expected[i] = 0;
      }
      EXPECT_EQ(out.host(), expected) << k << upper;
      triangle(queue(), sv, sv, k, upper);
      EXPECT_EQ(self.host(), expected) << "in place " << k << upper;
    }
}

TEST(Triangle, IndicesMatchTheTriangle) {
  for (int64_t R : {1, 5, 9})
    for (int64_t C : {1, 4, 11})
      for (int64_t k : {-12, -4, -1, 0, 2, 12})
        for (bool upper : {false, true}) {
          std::vector<int64_t> rows, columns;
          for (int64_t i = 0; i < R * C; ++i) {
            const int64_t d = i % C - i / C;
            if (upper ? d < k : d > k) continue;
            rows.push_back(i / C);
            columns.push_back(i % C);
          }
          const int64_t n = static_cast<int64_t>(rows.size());
          Array<int64_t> out(2 * n);
          triangle_indices(queue(), TensorView::contiguous(out.data(), DType::int64, {2, n}), R, C, k, upper);
          rows.insert(rows.end(), columns.begin(), columns.end());
          EXPECT_EQ(n ? out.host() : rows, rows) << R << " " << C << " " << k << upper;
        }
}

TEST(Progression, ArangeAndLinspace) {
  Array<int64_t> whole(5);
  Progression p;
  p.integer_start = (int64_t(1) << 53) + 1;
  p.integer_step = -3;
  progression(queue(), TensorView::contiguous(whole.data(), DType::int64, {5}), ProgressionKind::arange, p);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(whole.host()[i], p.integer_start - 3 * i);
  Array<float> line(1001);
  p.start = -1;
  p.end = 1;
  p.step = 2.0 / 1000;
  progression(queue(), TensorView::contiguous(line.data(), DType::float32, {1001}), ProgressionKind::linspace, p);
  const auto host = line.host();
  EXPECT_EQ(host[0], -1.f);
  EXPECT_EQ(host[1000], 1.f);
  EXPECT_NEAR(host[500], 0.f, 1e-7);
  p.base = 2;
  p.start = 0, p.end = 4, p.step = 1;
  Array<float> powers(5);
  progression(queue(), TensorView::contiguous(powers.data(), DType::float32, {5}), ProgressionKind::logspace, p);
  EXPECT_LT(relative_error(powers.host(), std::vector<double>{1, 2, 4, 8, 16}), 1e-6);
}

TEST(Shape, EyeAndRepeat) {
  Array<float> matrix(15);
  eye(queue(), TensorView::contiguous(matrix.data(), DType::float32, {3, 5}));
  std::vector<float> expected(15, 0.f);
  expected[0] = expected[6] = expected[12] = 1;
  EXPECT_EQ(matrix.host(), expected);
  Array<int64_t> cumulative(std::vector<int64_t>{2, 2, 5, 6}), out(6);
  repeat_indices(queue(), TensorView::contiguous(out.data(), DType::int64, {6}),
                 TensorView::contiguous(cumulative.data(), DType::int64, {4}));
  EXPECT_EQ(out.host(), (std::vector<int64_t>{0, 0, 2, 2, 2, 3}));
}

TEST(Windows, Im2colAndCol2imAreAdjoint) {
  Windows w;
  w.kernel = {3, 2};
  w.dilation = {2, 1};
  w.padding = {1, 2};
  w.stride = {2, 3};
  w.image = {11, 13};
  const int64_t rows = 5;
  for (int d = 0; d < 2; ++d)
    w.count[d] = (w.image[d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1) / w.stride[d] + 1;
  const int64_t L = w.count[0] * w.count[1], K = 6, P = 11 * 13;
  const auto x = random_values<float>(rows * P), c = random_values<float>(rows * K * L, 2);
  Array<float> image(x), columns(rows * K * L), grads(c), back(rows * P);
  im2col(queue(), TensorView::contiguous(columns.data(), DType::float32, {rows, K, L}),
         TensorView::contiguous(image.data(), DType::float32, {rows, 11, 13}), w, rows);
  col2im(queue(), TensorView::contiguous(back.data(), DType::float32, {rows, 11, 13}),
         TensorView::contiguous(grads.data(), DType::float32, {rows, K, L}), w, rows);
  std::vector<float> expected(rows * K * L, 0.f);
  std::vector<double> sums(rows * P, 0.);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t l = 0; l < L; ++l) {
        const int64_t y = l / w.count[1] * 2 - 1 + k / 2 * 2, xx = l % w.count[1] * 3 - 2 + k % 2;
        if (y < 0 || y >= 11 || xx < 0 || xx >= 13) continue;
        expected[(r * K + k) * L + l] = x[r * P + y * 13 + xx];
        sums[r * P + y * 13 + xx] += c[(r * K + k) * L + l];
      }
  EXPECT_EQ(columns.host(), expected);
  EXPECT_LT(relative_error(back.host(), sums), 1e-6);
}

TEST(Windows, UnfoldBackwardSumsOverWindows) {
  const int64_t A = 3, N = 23, B = 5, size = 4, step = 3, W = (N - size) / step + 1;
  const auto g = random_values<float>(A * W * B * size);
  Array<float> grad(g), out(A * N * B);
  unfold_backward(queue(), TensorView::contiguous(out.data(), DType::float32, {A, N, B}),
                  TensorView::contiguous(grad.data(), DType::float32, {A, W, B, size}), 1, size, step);
  std::vector<double> expected(A * N * B, 0.);
  for (int64_t i = 0; i < A * W * B * size; ++i) {
    const int64_t s = i % size, b = i / size % B, w = i / (size * B) % W, a = i / (size * B * W);
    expected[(a * N + w * step + s) * B + b] += g[i];
  }
  EXPECT_LT(relative_error(out.host(), expected), 1e-6);
}
