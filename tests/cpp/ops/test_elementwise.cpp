#include "support.h"

#include "ops/elementwise/elementwise.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

const DType all_types[] = {DType::float32, DType::float64, DType::int8,    DType::int16,     DType::int32,
                           DType::int64,   DType::uint8,   DType::boolean, DType::complex64, DType::complex128};

}  // namespace

// Every row compiles and runs for every compute type that it claims, flat and strided.
TEST(Elementwise, EveryRowBuilds) {
  std::string unbuilt;
  for (const ElementwiseRow& row : elementwise_table())
    for (DType type : {DType::float32, DType::int64, DType::uint8, DType::complex64}) {
      if (!supports(row, type)) continue;
      Array<double> memory(std::vector<double>(2 * 64 * 5, 0.0));
      ElementwiseCall call;
      call.compute = type;
      call.dims = 1;
      call.sizes[0] = 19;
      call.scalars = 3;
      call.output = {memory.data(), type, {1}, false, {}};
      for (int i = 0; i < row.inputs; ++i) call.inputs[i] = {memory.data() + 128 * (i + 1), type, {1}, false, {}};
      try {
        elementwise(queue(), row, call);
        queue().finish();
      } catch (const BuildError& error) {
        EXPECT_TRUE(device().guarded()) << row.name << " " << name_of(type) << ": " << error.what();
        unbuilt += std::string(" ") + row.name + " " + name_of(type);
      }
    }
  if (!unbuilt.empty()) GTEST_SKIP() << "not built:" << unbuilt;
}

TEST(Elementwise, AddsAnyStridesAndOffsets) {
  auto x = random_values<float>(5 * 7 * 40), y = random_values<float>(7 * 40, 2);
  Array<float> dx(x), dy(y), dz(size_t(5 * 7 * 33));
  // z[i, j, k] = x[i, j, k + 3] + y[j, k] with k < 33; then with x transposed
  TensorView z = TensorView::contiguous(dz.data(), DType::float32, {5, 7, 33});
  const int64_t sizes[] = {5, 7, 33}, xs[] = {280, 40, 1}, ys[] = {0, 40, 1};
  elementwise(queue(), elementwise_row("add"), DType::float32, z,
              {TensorView::strided(dx.data() + 3, DType::float32, sizes, xs),
               TensorView::strided(dy.data(), DType::float32, sizes, ys)});
  auto out = dz.host();
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 7; ++j)
      for (int k = 0; k < 33; ++k) ASSERT_EQ(out[(i * 7 + j) * 33 + k], x[i * 280 + j * 40 + k + 3] + y[j * 40 + k]);
  const int64_t xt[] = {1, 5, 35};
  elementwise(queue(), elementwise_row("sub"), DType::float32, z,
              {TensorView::strided(dx.data(), DType::float32, sizes, xt),
               TensorView::strided(dy.data(), DType::float32, sizes, ys)});
  out = dz.host();
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 7; ++j)
      for (int k = 0; k < 33; ++k) ASSERT_EQ(out[(i * 7 + j) * 33 + k], x[i + j * 5 + k * 35] - y[j * 40 + k]);
}

// z[i, j] = x[i, j] * c[i]: rows of vectors, with a rest, and short ones; neighbours of x and of z one or two elements
// apart; in place.
TEST(Elementwise, MultipliesRowsByAColumn) {
  const int64_t rows = 37;
  for (const int64_t columns : {3, 8, 33, 260})
    for (const int64_t x_step : {1, 2, 3})
      for (const int64_t z_step : {1, 2}) {
        const auto x = random_values<float>(rows * columns * x_step), c = random_values<float>(rows, 2);
        Array<float> dx(x), dc(c), dz(std::vector<float>(rows * columns * z_step, -7.f));
        const std::array<int64_t, 2> sizes{rows, columns}, xs{columns * x_step, x_step}, cs{1, 0},
            zs{columns * z_step, z_step};
        const TensorView xv = TensorView::strided(dx.data(), DType::float32, sizes, xs),
                         cv = TensorView::strided(dc.data(), DType::float32, sizes, cs);
        elementwise(queue(), elementwise_row("mul"), DType::float32,
                    TensorView::strided(dz.data(), DType::float32, sizes, zs), {xv, cv});
        elementwise(queue(), elementwise_row("mul"), DType::float32, xv, {xv, cv});
        const auto z = dz.host(), in_place = dx.host();
        for (int64_t i = 0; i < rows * columns; ++i) {
          ASSERT_EQ(z[i * z_step], x[i * x_step] * c[i / columns])
              << columns << " " << x_step << " " << z_step << " " << i;
          ASSERT_EQ(in_place[i * x_step], x[i * x_step] * c[i / columns]);
          if (z_step == 2) ASSERT_EQ(z[i * z_step + 1], -7.f);
          if (x_step > 1) ASSERT_EQ(in_place[i * x_step + 1], x[i * x_step + 1]);
        }
      }
}

TEST(Elementwise, LoadsEachOperandByItsOwnType) {
  std::vector<int64_t> a = {1, -2, 3, 1ll << 40, 5};
  std::vector<float> b = {0.5f, 1.5f, -2, 3, 4};
  Array<int64_t> da(a);
  Array<float> db(b), out(size_t(5));
  elementwise(
      queue(), elementwise_row("add"), DType::float32, TensorView::contiguous(out.data(), DType::float32, {5}),
      {TensorView::contiguous(da.data(), DType::int64, {5}), TensorView::contiguous(db.data(), DType::float32, {5})});
  auto host = out.host();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(host[i], static_cast<float>(a[i]) + b[i]);
}

TEST(Elementwise, ScalarsKeepTheirPrecision) {
  Array<int64_t> x(std::vector<int64_t>(3, 0));
  elementwise(queue(), elementwise_row("fill"), DType::int64, TensorView::contiguous(x.data(), DType::int64, {3}), {},
              {int64_t{9007199254740993}});
  EXPECT_EQ(x.host()[2], 9007199254740993);
}

TEST(Elementwise, HalfTypesRoundToNearestEven) {
  std::vector<float> x = {1.00390625f, 1.01171875f, NAN, INFINITY, -0.0f, 3.4e38f};
  Array<float> dx(x);
  Array<uint16_t> out(size_t(6));
  elementwise(queue(), elementwise_row("copy"), DType::float32,
              TensorView::contiguous(out.data(), DType::bfloat16, {6}),
              {TensorView::contiguous(dx.data(), DType::float32, {6})});
  auto host = out.host();
  EXPECT_EQ(host[0], 0x3f80);  // halfway, to even
  EXPECT_EQ(host[1], 0x3f82);
  EXPECT_GT(host[2] & 0x7fff, 0x7f80);
  EXPECT_EQ(host[3], 0x7f80);
  EXPECT_EQ(host[4], 0x8000);
  EXPECT_EQ(host[5], 0x7f80);
}

TEST(Elementwise, NaNPropagatesThroughReluAndMaximum) {
  std::vector<float> x = {NAN, -1, 2, -0.0f};
  Array<float> dx(x), out(size_t(4));
  auto view = [](Array<float>& a) { return TensorView::contiguous(a.data(), DType::float32, {4}); };
  elementwise(queue(), elementwise_row("relu"), DType::float32, view(out), {view(dx)});
  auto host = out.host();
  EXPECT_TRUE(std::isnan(host[0]));
  EXPECT_EQ(host[1], 0);
  EXPECT_EQ(host[2], 2);
}

TEST(Elementwise, ExponentialIsAccurateAndSaturates) {
  std::vector<float> x = {-200, -104, -103,  -88,   -1,   -1e-8f,   0,         1e-8f,
                          1,    10,   88.7f, 88.8f, 1000, INFINITY, -INFINITY, NAN};
  for (int i = 0; i < 500; ++i) x.push_back(-87 + 0.35f * i);
  std::vector<double> expected;
  for (float v : x) expected.push_back(static_cast<float>(std::exp(static_cast<double>(v))));
  Array<float> dx(x), out(x.size());
  const auto n = static_cast<int64_t>(x.size());
  elementwise(queue(), elementwise_row("exp"), DType::float32, TensorView::contiguous(out.data(), DType::float32, {n}),
              {TensorView::contiguous(dx.data(), DType::float32, {n})});
  auto host = out.host();
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(host[i])) << x[i];
    else if (std::isinf(expected[i]))
      EXPECT_EQ(host[i], expected[i]) << x[i];
    else if (expected[i] < 1.2e-38)
      EXPECT_NEAR(host[i], expected[i], 2e-45) << x[i];
    else
      EXPECT_NEAR(host[i] / expected[i], 1, 3e-7) << x[i];
  }
}
