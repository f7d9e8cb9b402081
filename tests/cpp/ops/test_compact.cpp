#include "ops/core/device_errors.h"
#include "ops/index/compact.h"
#include "support.h"

#include <limits>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

TEST(Compact, CoordinatesInOrder) {
  const int64_t A = 7, B = 131, C = 59;
  std::vector<uint8_t> mask(A * B * C);
  std::mt19937 engine(1);
  for (auto& m : mask) m = engine() % 3 == 0;
  Array<uint8_t> device_mask(mask);
  Compaction compaction(queue(), TensorView::contiguous(device_mask.data(), DType::boolean, {A, B, C}));
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < A * B * C; ++i)
    if (mask[i]) expected.insert(expected.end(), {i / (B * C), i / C % B, i % C});
  const int64_t count = compaction.count();
  ASSERT_EQ(count, static_cast<int64_t>(expected.size() / 3));
  Array<int64_t> out(expected.size());
  compaction.coordinates(TensorView::contiguous(out.data(), DType::int64, {count, 3}), count);
  EXPECT_EQ(out.host(), expected);
  // a limit stops early and writes nothing behind it
  Array<int64_t> some(std::vector<int64_t>(12, -7));
  compaction.coordinates(TensorView::contiguous(some.data(), DType::int64, {3, 3}), 3);
  expected.resize(9);
  expected.insert(expected.end(), 3, -7);
  EXPECT_EQ(some.host(), expected);
}

TEST(Compact, NaNSelectsAndNegativeZeroDoesNot) {
  Array<float> mask(std::vector<float>{0.f, -0.f, std::numeric_limits<float>::quiet_NaN(), 1e-45f, -2.f, 0.f});
  Compaction compaction(queue(), TensorView::contiguous(mask.data(), DType::float32, {6}));
  ASSERT_EQ(compaction.count(), 3);
  Array<int64_t> out(3);
  compaction.coordinates(TensorView::contiguous(out.data(), DType::int64, {3, 1}), 3);
  EXPECT_EQ(out.host(), (std::vector<int64_t>{2, 3, 4}));
}

TEST(Compact, SelectAndScatterAreInverse) {
  const int64_t n = 100003;
  std::vector<uint8_t> mask(n);
  for (int64_t i = 0; i < n; ++i) mask[i] = i % 7 == 1 || i % 11 == 0;
  const auto x = random_values<float>(n);
  Array<uint8_t> device_mask(mask);
  Array<float> values(x);
  const TensorView mv = TensorView::contiguous(device_mask.data(), DType::boolean, {n}),
                   vv = TensorView::contiguous(values.data(), DType::float32, {n});
  Compaction compaction(queue(), mv);
  const int64_t count = compaction.count();
  Array<float> packed(count), back(std::vector<float>(n, 0.f));
  const TensorView pv = TensorView::contiguous(packed.data(), DType::float32, {count});
  compaction.select(pv, vv);
  std::vector<float> expected, masked(n, 0.f);
  for (int64_t i = 0; i < n; ++i)
    if (mask[i]) expected.push_back(masked[i] = x[i]);
  EXPECT_EQ(packed.host(), expected);
  compaction.scatter(TensorView::contiguous(back.data(), DType::float32, {n}), pv);
  EXPECT_EQ(back.host(), masked);
  EXPECT_NO_THROW(check_device_errors(queue()));
  compaction.scatter(TensorView::contiguous(back.data(), DType::float32, {n}),
                     TensorView::contiguous(packed.data(), DType::float32, {count - 1}));
  queue().finish();
  EXPECT_THROW(check_device_errors(queue()), std::runtime_error);
}

TEST(Compact, Empty) {
  Compaction compaction(queue(), TensorView::contiguous(nullptr, DType::boolean, {0, 3}));
  EXPECT_EQ(compaction.count(), 0);
}
