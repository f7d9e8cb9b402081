#include "support.h"

#include "ops/foreach/foreach.h"

#include <functional>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

const std::vector<size_t> sizes{1, 63, 0, 64, 4099, 16384, 50021, 7};

struct Lists {
  std::vector<Array<float>> out, a, b, c;
  std::vector<MultiTensorRow> rows;
  explicit Lists(double low = 0.25, double high = 2) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      out.emplace_back(std::vector<float>(sizes[i] + 16, -9.f));
      a.emplace_back(random_values<float>(sizes[i], 3 * i + 1, low, high));
      b.emplace_back(random_values<float>(sizes[i], 3 * i + 2, low, high));
      c.emplace_back(random_values<float>(sizes[i], 3 * i + 3, low, high));
      rows.push_back(
          {int64_t(sizes[i]), 0.3 + 0.1 * double(i), {out[i].data(), a[i].data(), b[i].data(), c[i].data()}});
    }
  }
};

using Function = std::function<double(double, double, double, double)>;

void check(Foreach op, const Function& f, double low = 0.25, double high = 2) {
  Lists lists(low, high);
  foreach (queue(), op, DType::float32, lists.rows);
  for (size_t t = 0; t < sizes.size(); ++t) {
    const auto out = lists.out[t].host(), a = lists.a[t].host(), b = lists.b[t].host(), c = lists.c[t].host();
    for (size_t i = 0; i < sizes[t]; ++i) {
      const double expected = f(a[i], b[i], c[i], float(lists.rows[t].scalar));
      ASSERT_NEAR(out[i], expected, 2e-6 * std::abs(expected) + 1e-6) << int(op) << " " << t << " " << i;
    }
    for (size_t i = sizes[t]; i < out.size(); ++i) ASSERT_EQ(out[i], -9.f) << int(op) << " " << t;
  }
}

}  // namespace

TEST(Foreach, Operators) {
  using D = double;
  check(Foreach::add_scalar, [](D a, D, D, D s) { return a + s; });
  check(Foreach::sub_scalar, [](D a, D, D, D s) { return a - s; });
  check(Foreach::mul_scalar, [](D a, D, D, D s) { return a * s; });
  check(Foreach::div_scalar, [](D a, D, D, D s) { return a / s; });
  check(Foreach::clamp_min_scalar, [](D a, D, D, D s) { return std::max(a, s); });
  check(Foreach::clamp_max_scalar, [](D a, D, D, D s) { return std::min(a, s); });
  check(Foreach::pow_scalar, [](D a, D, D, D s) { return std::pow(a, s); });
  check(Foreach::scalar_pow, [](D a, D, D, D s) { return std::pow(s, a); });
  check(Foreach::add, [](D a, D b, D, D s) { return a + s * b; });
  check(Foreach::sub, [](D a, D b, D, D s) { return a - s * b; });
  check(Foreach::mul, [](D a, D b, D, D) { return a * b; });
  check(Foreach::div, [](D a, D b, D, D) { return a / b; });
  check(Foreach::clamp_min, [](D a, D b, D, D) { return std::max(a, b); });
  check(Foreach::clamp_max, [](D a, D b, D, D) { return std::min(a, b); });
  check(Foreach::pow, [](D a, D b, D, D) { return std::pow(a, b); });
  check(Foreach::addcmul, [](D a, D b, D c, D s) { return a + s * b * c; });
  check(Foreach::addcdiv, [](D a, D b, D c, D s) { return a + s * b / c; });
  check(Foreach::lerp, [](D a, D b, D c, D) { return a + c * (b - a); }, -1, 1);
  check(Foreach::lerp_scalar, [](D a, D b, D, D s) { return a + s * (b - a); });
  check(Foreach::copy, [](D a, D, D, D) { return a; });
  check(Foreach::fill, [](D, D, D, D s) { return s; });
  check(Foreach::neg, [](D a, D, D, D) { return -a; });
  check(Foreach::abs, [](D a, D, D, D) { return std::abs(a); }, -1, 1);
  check(Foreach::sign, [](D a, D, D, D) { return a > 0 ? 1 : a < 0 ? -1 : 0; }, -1, 1);
  check(Foreach::sqrt, [](D a, D, D, D) { return std::sqrt(a); });
  check(Foreach::rsqrt, [](D a, D, D, D) { return 1 / std::sqrt(a); });
  check(Foreach::reciprocal, [](D a, D, D, D) { return 1 / a; });
  check(Foreach::square, [](D a, D, D, D) { return a * a; });
  check(Foreach::exp, [](D a, D, D, D) { return std::exp(a); });
  check(Foreach::log, [](D a, D, D, D) { return std::log(a); });
  check(Foreach::sigmoid, [](D a, D, D, D) { return 1 / (1 + std::exp(-a)); }, -3, 3);
  check(Foreach::tanh, [](D a, D, D, D) { return std::tanh(a); }, -3, 3);
}

TEST(Foreach, ClampKeepsNaN) {
  Array<float> a(std::vector<float>{NAN, 1, -1, INFINITY}), y(4);
  std::vector<MultiTensorRow> rows{{4, 0, {y.data(), a.data()}}};
  foreach (queue(), Foreach::clamp_min_scalar, DType::float32, rows);
  auto host = y.host();
  EXPECT_TRUE(std::isnan(host[0]) && host[1] == 1 && host[2] == 0 && std::isinf(host[3]));
  rows[0].scalar = NAN;
  foreach (queue(), Foreach::clamp_max_scalar, DType::float32, rows);
  for (float v : y.host()) EXPECT_TRUE(std::isnan(v));
}

TEST(Foreach, InPlaceWithScalarOnTheDevice) {
  Lists lists;
  Array<float> scalar(std::vector<float>{3});
  std::vector<std::vector<float>> before;
  for (size_t t = 0; t < sizes.size(); ++t) {
    before.push_back(lists.a[t].host());
    lists.rows[t].data[0] = lists.a[t].data();
  }
  foreach (queue(), Foreach::mul_scalar, DType::float32, lists.rows, scalar.data());
  for (size_t t = 0; t < sizes.size(); ++t) {
    const auto after = lists.a[t].host();
    for (size_t i = 0; i < sizes[t]; ++i) ASSERT_EQ(after[i], 3 * before[t][i]);
  }
}

TEST(Foreach, MoreSegmentsThanArguments) {
  std::vector<float*> x, y;
  std::vector<MultiTensorRow> rows;
  const std::vector<float> values = random_values<float>(1000);
  Array<float> results(40);
  std::vector<MultiTensorRow> norms;
  for (int i = 0; i < 20; ++i) {
    x.push_back(static_cast<float*>(allocate_segment(device(), 4000)));
    y.push_back(static_cast<float*>(allocate_segment(device(), 4000)));
    queue().write(x[i], values.data(), 4000);
    rows.push_back({1000, double(i), {y[i], x[i]}});
    norms.push_back({1000, 0, {x[i], results.data() + i}});
    norms.push_back({1000, 0, {y[i], results.data() + 20 + i}});
  }
  foreach (queue(), Foreach::add_scalar, DType::float32, rows);
  foreach_norm(queue(), 0, DType::float32, DType::float32, norms);
  const auto norm = results.host();
  for (int i = 0; i < 20; ++i) {
    std::vector<float> host(1000);
    queue().read(host.data(), y[i], 4000);
    double largest = 0, largest_x = 0;
    for (int k = 0; k < 1000; ++k) {
      ASSERT_EQ(host[k], values[k] + float(i)) << i;
      largest = std::max<double>(largest, std::abs(host[k]));
      largest_x = std::max<double>(largest_x, std::abs(values[k]));
    }
    EXPECT_EQ(norm[i], float(largest_x));
    EXPECT_EQ(norm[20 + i], float(largest));
  }
  for (int i = 0; i < 20; ++i) {
    free_segment(x[i]);
    free_segment(y[i]);
  }
}

// More tables in flight than the ring has slots: a table must not be overwritten while a kernel still reads it.
TEST(Foreach, ManyCallsWithoutWaiting) {
  Array<float> x(std::vector<float>(40000, 0));
  std::vector<MultiTensorRow> rows{{40000, 1, {x.data(), x.data()}}};
  for (int i = 0; i < 300; ++i) {
    rows[0].scalar = i;
    foreach (queue(), Foreach::add_scalar, DType::float32, rows);
  }
  EXPECT_EQ(x.host(), std::vector<float>(40000, 300 * 299 / 2));
}

TEST(Foreach, HalfTypes) {
  // 1.5 + 2 * 0.25 = 2 in bfloat16: 0x3fc0, 0x3e80 -> 0x4000; float16: 0x3e00, 0x3400 -> 0x4000
  for (DType type : {DType::bfloat16, DType::float16}) {
    const bool brain = type == DType::bfloat16;
    Array<uint16_t> a(std::vector<uint16_t>(77, brain ? 0x3fc0 : 0x3e00)),
        b(std::vector<uint16_t>(77, brain ? 0x3e80 : 0x3400)), y(77);
    std::vector<MultiTensorRow> rows{{77, 2, {y.data(), a.data(), b.data()}}};
    foreach (queue(), Foreach::add, type, rows);
    EXPECT_EQ(y.host(), std::vector<uint16_t>(77, 0x4000));
  }
}

TEST(Foreach, DoublePrecision) {
  if (!device().capabilities().fp64) GTEST_SKIP();
  Array<double> a(random_values<double>(1009)), y(1009);
  std::vector<MultiTensorRow> rows{{1009, 0.1, {y.data(), a.data()}}};
  foreach (queue(), Foreach::mul_scalar, DType::float64, rows);
  const auto x = a.host(), z = y.host();
  for (int i = 0; i < 1009; ++i) ASSERT_EQ(z[i], x[i] * 0.1);
}

TEST(Foreach, Norms) {
  Lists lists(-1, 1);
  Array<float> y(sizes.size());
  for (int order : {0, 1, 2}) {
    for (size_t t = 0; t < sizes.size(); ++t) lists.rows[t].data = {lists.a[t].data(), y.data() + t};
    foreach_norm(queue(), order, DType::float32, DType::float32, lists.rows);
    const auto host = y.host();
    for (size_t t = 0; t < sizes.size(); ++t) {
      if (sizes[t] == 0) continue;
      double expected = 0;
      for (double v : lists.a[t].host())
        expected = order == 0 ? std::max(expected, std::abs(v)) : expected + (order == 1 ? std::abs(v) : v * v);
      if (order == 2) expected = std::sqrt(expected);
      EXPECT_NEAR(host[t], expected, 3e-6 * expected) << order << " " << t;
    }
  }
  std::vector<float> values(40000, 1);
  values[39990] = NAN;
  Array<float> x(values);
  std::vector<MultiTensorRow> rows{{40000, 0, {x.data(), y.data()}}};
  for (int order : {0, 1, 2}) {
    foreach_norm(queue(), order, DType::float32, DType::float32, rows);
    EXPECT_TRUE(std::isnan(y.host()[0])) << order;
  }
}

TEST(Foreach, UnscaleFindsInfinities) {
  for (int bad : {-1, 0, 77, 16399}) {
    std::vector<float> values(16400, 2);
    if (bad >= 0) values[bad] = bad == 77 ? NAN : INFINITY;
    std::vector<float> padded = values;
    padded.insert(padded.end(), 16, INFINITY);  // behind the end: must not count
    Array<float> x(padded), inverse(std::vector<float>{0.25}), found(std::vector<float>{0});
    std::vector<MultiTensorRow> rows{{16400, 0, {x.data()}}};
    foreach_unscale(queue(), DType::float32, rows, inverse.data(), found.data());
    EXPECT_EQ(found.host()[0], bad >= 0 ? 1.f : 0.f) << bad;
    const auto host = x.host();
    for (int i = 0; i < 16400; ++i) {
      ASSERT_TRUE(i == bad || host[i] == 0.5f) << i;
    }
    EXPECT_TRUE(std::isinf(host[16400]));
  }
}

TEST(Foreach, UpdateScale) {
  Array<float> scale(std::vector<float>{1024}), found(std::vector<float>{0});
  Array<int> tracker(std::vector<int>{0});
  const auto step = [&](float inf) {
    queue().write(found.data(), &inf, 4);
    update_scale(queue(), scale.data(), tracker.data(), found.data(), 2, 0.5, 2);
    return std::make_pair(scale.host()[0], tracker.host()[0]);
  };
  EXPECT_EQ(step(0), std::make_pair(1024.f, 1));
  EXPECT_EQ(step(0), std::make_pair(2048.f, 0));
  EXPECT_EQ(step(0), std::make_pair(2048.f, 1));
  EXPECT_EQ(step(1), std::make_pair(1024.f, 0));
}

namespace {

// A step of Adam on lists of `rows` tensors each, `steps` times; the parameters at its end. `apart`: issued one by one.
std::vector<std::vector<float>> adam(int steps, bool apart) {
  std::vector<Array<float>> p, g, m, v, t;
  for (size_t i = 0; i < sizes.size(); ++i)
    for (auto* list : {&p, &g, &m, &v, &t})
      list->emplace_back(random_values<float>(sizes[i], 7 * i + static_cast<size_t>(list == &g), 0.25, 2));
  const auto rows_of = [&](std::initializer_list<std::vector<Array<float>>*> lists, double scalar) {
    std::vector<MultiTensorRow> rows;
    for (size_t i = 0; i < sizes.size(); ++i) {
      MultiTensorRow row{int64_t(sizes[i]), scalar * (1 + double(i)), {}};
      size_t k = 0;
      for (auto* list : lists) row.data[k++] = (*list)[i].data();
      rows.push_back(row);
    }
    return rows;
  };
  const auto run = [&](Foreach op, std::initializer_list<std::vector<Array<float>>*> lists, double scalar) {
    foreach (queue(), op, DType::float32, rows_of(lists, scalar));
    if (apart) queue().finish();
  };
  for (int step = 0; step < steps; ++step) {
    run(Foreach::mul_scalar, {&p, &p}, 0.05);
    run(Foreach::lerp_scalar, {&m, &m, &g}, 0.01);
    run(Foreach::mul_scalar, {&v, &v}, 0.1);
    run(Foreach::addcmul, {&v, &v, &g, &g}, 0.01);
    run(Foreach::sqrt, {&t, &v}, 1);
    run(Foreach::div_scalar, {&t, &t}, 0.3);
    run(Foreach::add_scalar, {&t, &t}, 1e-3);
    run(Foreach::addcdiv, {&p, &p, &m, &t}, -1e-2);
  }
  std::vector<std::vector<float>> result;
  for (Array<float>& array : p) result.push_back(array.host());
  return result;
}

}  // namespace

TEST(ForeachChain, ASequenceGivesWhatItsPartsGive) {
  for (const int steps : {1, 6}) EXPECT_EQ(adam(steps, false), adam(steps, true)) << steps;  // to the bit
}

// The second operator reads in one row what the first has written in the other: a row must not run through both before
// the other.
TEST(ForeachChain, OverlappingListsKeepTheirOrder) {
  constexpr size_t n = 40000;
  for (int repeat = 0; repeat < 5; ++repeat) {
    Array<float> y(std::vector<float>(4 * n, 1.f));
    const auto part = [&](size_t i) { return static_cast<const void*>(static_cast<const float*>(y.data()) + i * n); };
    const std::vector<MultiTensorRow> first{{int64_t(n), 1, {part(0), part(0)}}, {int64_t(n), 10, {part(1), part(1)}}};
    const std::vector<MultiTensorRow> second{{int64_t(n), 1, {part(2), part(1)}}, {int64_t(n), 1, {part(3), part(0)}}};
    foreach (queue(), Foreach::add_scalar, DType::float32, first);  // 2, 11, 1, 1
    foreach (queue(), Foreach::add_scalar, DType::float32, second);
    const std::vector<float> host = y.host();
    for (const auto& [at, value] : {std::pair{0, 2.f}, {1, 11.f}, {2, 12.f}, {3, 3.f}}) {
      EXPECT_EQ(host[static_cast<size_t>(at) * n], value) << at;
      EXPECT_EQ(host[static_cast<size_t>(at) * n + n - 1], value) << at;
    }
  }
}

// What reads or writes the tensors otherwise comes after, from every side.
TEST(ForeachChain, OtherCommandsComeAfterIt) {
  constexpr size_t n = 5000;
  Array<float> x(std::vector<float>(n, 1.f)), copy(std::vector<float>(n, 0.f));
  const std::vector<MultiTensorRow> rows{{int64_t(n), 2, {x.data(), x.data()}}};
  Queue& other = device().new_queue();
  float expected = 1;
  for (int i = 0; i < 8; ++i) {
    foreach (queue(), Foreach::mul_scalar, DType::float32, rows);
    foreach (queue(), Foreach::add_scalar, DType::float32, rows);
    expected = expected * 2 + 2;
    if (i % 4 == 0) queue().copy(copy.data(), x.data(), n * sizeof(float));
    if (i % 4 == 1) {
      other.wait(queue().record());
      other.copy(copy.data(), x.data(), n * sizeof(float));
      queue().wait(other.record());
    }
    if (i % 4 == 2) {
      while (!queue().idle()) {}
      queue().copy(copy.data(), x.data(), n * sizeof(float));
    }
    if (i % 4 == 3)
      foreach (queue(), Foreach::copy, DType::float32,
               std::vector<MultiTensorRow>{{int64_t(n), 0, {copy.data(), x.data()}}});
    const std::vector<float> host = copy.host();
    EXPECT_EQ(host.front(), expected) << i;
    EXPECT_EQ(host.back(), expected) << i;
  }
}
