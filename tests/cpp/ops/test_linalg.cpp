#include "ops/linalg/linalg.h"
#include "support.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Shape {
  int64_t batch, rows, columns;
  int64_t size() const { return batch * rows * columns; }
};

template <class T>
Matrices view(const Array<T>& a, Shape s) {
  return {a.data(),  sizeof(T) == 8 ? DType::float64 : DType::float32,
          s.batch,   s.rows,
          s.columns, s.rows * s.columns,
          s.columns, 1};
}

// [batch] products of a [m, k] and b [k, n].
std::vector<double> multiply(const std::vector<double>& a, const std::vector<double>& b, int64_t batch, int64_t m,
                             int64_t k, int64_t n) {
  std::vector<double> c(batch * m * n, 0.0);
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j) c[(s * m + i) * n + j] += a[(s * m + i) * k + l] * b[(s * k + l) * n + j];
  return c;
}

template <class T>
std::vector<double> widen(const std::vector<T>& x) {
  return {x.begin(), x.end()};
}

template <class T>
constexpr double precision = sizeof(T) == 8 ? 1e-13 : 1e-5;

bool refuses_float64() { return !device().capabilities().fp64; }

template <class T>
void check_cholesky() {
  const int64_t n = 23, batch = 3;
  auto root = widen(random_values<T>(batch * n * n));
  std::vector<T> a(batch * n * n, 0);
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = i == j ? 1 : 0;
        for (int64_t k = 0; k < n; ++k) sum += root[(s * n + i) * n + k] * root[(s * n + j) * n + k];
        a[(s * n + i) * n + j] = static_cast<T>(sum);
      }
  a[1 * n * n + 4 * n + 4] = -100;  // the second matrix is not positive definite
  Array<T> factor(a);
  Array<int32_t> info(std::vector<int32_t>(batch, 0));
  cholesky(queue(), view(factor, {batch, n, n}), info.data(), 10);
  EXPECT_EQ(info.host(), (std::vector<int32_t>{0, 10 + 4 + 1, 0}));
  auto l = widen(factor.host()), l_transposed = l;
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        if (j > i) l[(s * n + i) * n + j] = 0;
        l_transposed[(s * n + j) * n + i] = j > i ? 0 : l[(s * n + i) * n + j];
      }
  const auto product = multiply(l, l_transposed, batch, n, n, n);
  for (const int64_t s : {0, 2}) {
    const auto part = [&](auto& x) { return std::vector<double>(x.begin() + s * n * n, x.begin() + (s + 1) * n * n); };
    EXPECT_LT(relative_error(part(product), part(a)), 10 * precision<T>);
  }
}

template <class T>
void check_lu(Shape s) {
  SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.columns);
  const int64_t steps = std::min(s.rows, s.columns);
  const auto a = random_values<T>(s.size());
  Array<T> packed(a), exchanged(a);
  Array<int32_t> pivots(s.batch * steps), info(std::vector<int32_t>(s.batch, 0));
  Array<int64_t> permutation(s.batch * s.rows);
  lu(queue(), view(packed, s), pivots.data(), steps, info.data());
  EXPECT_EQ(info.host(), std::vector<int32_t>(s.batch, 0));
  const auto factors = packed.host();
  std::vector<double> l(s.batch * s.rows * steps, 0.0), u(s.batch * steps * s.columns, 0.0);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.columns; ++j) {
        const double value = factors[(b * s.rows + i) * s.columns + j];
        EXPECT_TRUE(j >= i || std::abs(value) <= 1 + 1e-6);  // partial pivoting
        (j < i ? l[(b * s.rows + i) * steps + j] : u[(b * steps + i) * s.columns + j]) = value;
        if (i == j) l[(b * s.rows + i) * steps + j] = 1;
      }
  // P A by the exchanges, and by the permutation that they make.
  swap_rows(queue(), view(exchanged, s), pivots.data(), steps, 0, steps);
  const auto moved = exchanged.host();
  EXPECT_LT(relative_error(multiply(l, u, s.batch, s.rows, steps, s.columns), widen(moved)), 10 * precision<T>);
  std::vector<int64_t> rows(s.batch * s.rows);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i) % s.rows;
  Array<int64_t> order(rows);
  unpack_pivots(queue(), pivots.data(), order.data(), s.batch, steps, s.rows);
  rows = order.host();
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.columns; ++j)
        EXPECT_EQ(moved[(b * s.rows + i) * s.columns + j], a[(b * s.rows + rows[b * s.rows + i]) * s.columns + j]);
  swap_rows(queue(), view(exchanged, s), pivots.data(), steps, 0, steps, true);
  EXPECT_EQ(exchanged.host(), a);
}

template <class T>
void check_triangular(bool upper, bool unit, bool transposed) {
  SCOPED_TRACE(::testing::Message() << "upper " << upper << " unit " << unit << " transposed " << transposed);
  const int64_t n = 19, columns = 37, batch = 2;
  auto t = random_values<T>(batch * n * n, 7);
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < n; ++i) t[(s * n + i) * n + i] += t[(s * n + i) * n + i] < 0 ? -3 : 3;
  for (T& value : t) value /= 4;
  std::vector<double> whole(t.size(), 0.0);
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double value = transposed ? t[(s * n + j) * n + i] : t[(s * n + i) * n + j];
        whole[(s * n + i) * n + j] = i == j ? (unit ? 1 : value) : (j > i) == upper ? value : 0;
      }
  const auto x = random_values<T>(batch * n * columns, 9);
  const auto b = multiply(whole, widen(x), batch, n, n, columns);
  Array<T> matrix(t), result(std::vector<T>(b.begin(), b.end()));
  const Matrices view_of_t = view(matrix, {batch, n, n});
  solve_triangular(queue(), transposed ? view_of_t.transposed() : view_of_t, view(result, {batch, n, columns}), upper,
                   unit);
  EXPECT_LT(relative_error(result.host(), x), 200 * precision<T>);
}

}  // namespace

TEST(Linalg, Cholesky) {
  check_cholesky<float>();
  if (!refuses_float64()) check_cholesky<double>();
}

TEST(Linalg, LuWithPartialPivoting) {
  for (const Shape s : {Shape{2, 17, 17}, Shape{3, 24, 9}, Shape{1, 5, 31}, Shape{2, 1, 1}}) {
    check_lu<float>(s);
    if (!refuses_float64()) check_lu<double>(s);
  }
}

TEST(Linalg, LuNamesTheFirstZeroPivot) {
  std::vector<float> a{1, 2, 3, 2, 4, 6, 1, 1, 5};  // the second row is twice the first
  a.insert(a.end(), {0, 0, 0, 0, 1, 0, 0, 0, 1});
  Array<float> packed(a);
  Array<int32_t> pivots(6), info(std::vector<int32_t>{0, 0});
  lu(queue(), view(packed, {2, 3, 3}), pivots.data(), 3, info.data());
  EXPECT_EQ(info.host(), (std::vector<int32_t>{3, 1}));
}

TEST(Linalg, TriangularSolve) {
  for (const bool upper : {false, true})
    for (const bool unit : {false, true})
      for (const bool transposed : {false, true}) check_triangular<float>(upper, unit, transposed);
  if (!refuses_float64()) check_triangular<double>(true, false, false);
}
