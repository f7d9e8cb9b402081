// Elementwise operators that wait one behind another and are run together (ops/elementwise/sequence.h).
#include "support.h"

#include "ops/elementwise/sequence.h"

#include <atomic>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

constexpr uint64_t base = 1 << 20;

ElementwiseStep::Data step(int64_t n, uint64_t y, std::initializer_list<uint64_t> inputs,
                           std::initializer_list<uint64_t> single = {}, DType dtype = DType::float32) {
  ElementwiseStep::Data data{&queue(), n, dtype, {}};
  data.step.y = base + y;
  int k = 0;
  for (const uint64_t x : inputs) {
    data.step.x[k] = base + x;
    data.step.advances |= 1 << k++;
  }
  for (const uint64_t x : single) data.step.x[k++] = base + x;
  return data;
}

size_t fusable(const std::vector<ElementwiseStep::Data>& steps) {
  std::vector<const ElementwiseStep::Data*> pointers;
  for (const auto& each : steps) pointers.push_back(&each);
  return ElementwiseStep::fusable(pointers.data(), pointers.size());
}

}  // namespace

TEST(ElementwiseSequence, JoinsWhatTouchesTheSameElements) {
  // 16 elements are 64 bytes
  EXPECT_EQ(fusable({step(16, 0, {64}), step(16, 128, {0, 64}), step(16, 0, {0})}),
            3u);  // read what was written, write again
  EXPECT_EQ(fusable({step(16, 0, {64}), step(16, 256, {68}), step(16, 320, {60 + 64})}),
            3u);                                                            // inputs may overlap as they like
  EXPECT_EQ(fusable({step(16, 0, {64}), step(16, 128, {4})}), 1u);          // reads the neighbours of what is written
  EXPECT_EQ(fusable({step(16, 0, {64}), step(16, 68, {128})}), 1u);         // writes the neighbours of what is read
  EXPECT_EQ(fusable({step(16, 0, {64}), step(16, 60, {128})}), 1u);         // writes the neighbours of what is written
  EXPECT_EQ(fusable({step(16, 0, {64}), step(17, 128, {256})}), 1u);        // another number of elements
  EXPECT_EQ(fusable({step(16, 0, {64}), step(16, 128, {64}, {0})}), 1u);    // every element reads one that is written
  EXPECT_EQ(fusable({step(16, 0, {64}, {128}), step(16, 128, {64})}), 1u);  // writes what every element has to read
  EXPECT_EQ(fusable({step(16, 0, {64}, {128}), step(16, 256, {0}, {128}), step(16, 320, {0}, {192})}), 3u);
  EXPECT_EQ(fusable({step(1, 0, {}, {0}), step(1, 4, {}, {0}), step(1, 0, {}, {4})}),
            3u);  // single elements are their own
  EXPECT_EQ(fusable({step(16, 0, {64}, {}, DType::bfloat16), step(16, 32, {96}, {}, DType::bfloat16)}),
            2u);  // 16 elements are 32 bytes
  EXPECT_EQ(fusable({step(16, 0, {64}), step(16, 128, {192}, {}, DType::bfloat16)}), 1u);
  auto other = step(16, 0, {64});
  const auto first = other;
  other.queue = &device().pooled_queue();
  EXPECT_EQ(fusable({first, other}), 1u);
}

TEST(ElementwiseSequence, WatchedCommandsAreSeenOneByOne) {
  Array<float> x(random_values<float>(4096));
  static std::atomic<int> seen;
  seen = 0;
  const uint64_t before = ElementwiseStep::fused_calls();
  set_command_observer(
      [](Queue&, const Command& command, int64_t, Event) { seen += std::string(command.name) == "elementwise_flat"; });
  const TensorView view = TensorView::contiguous(x.data(), DType::float32, {4096});
  for (int i = 0; i < 50; ++i) elementwise(queue(), elementwise_row("neg"), DType::float32, view, {view});
  set_command_observer(nullptr);
  queue().finish();
  EXPECT_EQ(seen, 50);
  EXPECT_EQ(ElementwiseStep::fused_calls(), before);
}
