// Commands of a queue that are captured and issued again: new contents, random numbers, pools, what is refused.
#include "support.h"

#include "opencl/command_list.h"
#include "opencl/memory/segment.h"
#include "ops/random/random.h"

namespace ocl::testing {
namespace {

const char* source = R"(
#include "common/memory.clh"
kernel void triple(global const int* x, global int* y, int plus) {
  y[get_global_id(0)] = 3 * x[get_global_id(0)] + plus;
}
)";

constexpr size_t numel = 512;

void triple(Queue& q, const Array<int32_t>& x, const Array<int32_t>& y, int32_t plus) {
  launch(q, get_kernel_from_source(device(), "triple", source), Range(numel), Range(1), x.data(), y.data(), plus);
}

std::shared_ptr<CommandList> new_list() {
  return std::make_shared<CommandList>(device(), CachingAllocator::new_pool());
}

void write(Queue& q, const Array<int32_t>& x, int32_t value) { q.fill(x.data(), &value, sizeof value, numel * 4); }

void expect_all(const Array<int32_t>& y, int32_t value) {
  for (const int32_t v : y.host()) ASSERT_EQ(v, value);
}

TEST(CommandList, ReplaysWithNewContents) {
  Queue& q = device().new_queue();
  Array<int32_t> x(std::vector<int32_t>(numel, 1)), y(std::vector<int32_t>(numel, -1)), z(numel);
  const auto list = new_list();
  list->begin(q);
  triple(q, x, y, 5);
  q.copy(z.data(), y.data(), numel * 4);
  triple(q, z, y, 1);
  // The value that is kept must not take the place of what was freed: replays write there.
  void* scratch = device().allocator().allocate(512, q);
  q.fill(scratch, "\2\2\2", 4, 512);
  device().allocator().free(scratch);
  const std::vector<int32_t> seven{7};
  q.write(z.data(), seven.data(), 4);  // kept
  list->end();
  EXPECT_EQ(list->size(), 5u);
  expect_all(y, -1);  // nothing has run
  for (int32_t value : {2, -9}) {
    write(queue(), x, value);
    queue().finish();
    list->replay(q);
    q.finish();
    expect_all(y, 3 * (3 * value + 5) + 1);
    EXPECT_EQ(z.host()[0], 7);
    EXPECT_EQ(z.host()[1], 3 * value + 5);
  }
}

TEST(CommandList, AQueueThatWaitsForTheCaptureJoinsIt) {
  Queue &q = device().new_queue(), &side = device().new_queue();
  Array<int32_t> x(std::vector<int32_t>(numel, 1)), y(numel), z(numel);
  const auto list = new_list();
  list->begin(q);
  triple(q, x, y, 0);
  side.wait(q.record());
  EXPECT_EQ(side.capture(), list.get());
  triple(side, y, z, 1);
  q.wait(side.record());
  triple(q, z, y, 0);
  list->end();
  EXPECT_EQ(side.capture(), nullptr);
  EXPECT_EQ(list->size(), 3u);
  write(q, x, 2);
  list->replay(q);
  q.finish();
  expect_all(y, 3 * (3 * 6 + 1));
}

TEST(CommandList, WhatNeedsResultsIsRefused) {
  Queue& q = device().new_queue();
  Array<int32_t> x(std::vector<int32_t>(numel, 1)), y(numel);
  std::vector<int32_t> host(4096);
  const auto refused = [&](auto&& use) {
    const auto list = new_list();
    list->begin(q);
    triple(q, x, y, 0);
    EXPECT_THROW(use(), Error);
    EXPECT_THROW(list->end(), Error);
    EXPECT_EQ(list->size(), 0u);
    EXPECT_EQ(q.capture(), nullptr);
  };
  refused([&] { q.finish(); });
  refused([&] { q.idle(); });
  refused([&] { q.read(host.data(), x.data(), 4); });
  Array<int32_t> large(4096);
  refused([&] { q.write(large.data(), host.data(), 4096 * 4); });
  refused([&] { q.share_handle(); });
  refused([&] { new_list()->replay(q); });
  triple(q, x, y, 4);  // usable
  q.finish();
  expect_all(y, 7);
  Event event;
  const auto list = new_list();
  list->begin(q);
  event = q.record();
  EXPECT_THROW(event.wait(), Error);
  EXPECT_THROW(event.complete(), Error);
  EXPECT_THROW(new_list()->begin(q), Error);
  list->end();
  EXPECT_THROW(queue().wait(event), Error);  // the capture has ended
}

TEST(CommandList, MemoryComesFromItsPoolAndStaysThere) {
  Queue& q = device().new_queue();
  CachingAllocator& allocator = device().allocator();
  const uint64_t pool = CachingAllocator::new_pool();
  const auto segment_of = [](void* address) { return find_segment(address).base; };
  char* own = nullptr;
  {
    const auto list = std::make_shared<CommandList>(device(), pool);
    list->begin(q);
    void* first = allocator.allocate(5000, q);
    own = segment_of(first);
    allocator.free(first);
    void* second = allocator.allocate(5000, q);
    EXPECT_EQ(first, second);  // reused inside
    list->end();
    void* outside = allocator.allocate(5000, q);
    EXPECT_NE(segment_of(outside), own);
    allocator.free(second);
    void* later = allocator.allocate(5000, q);
    EXPECT_NE(segment_of(later), own);
    allocator.free(outside), allocator.free(later);
    allocator.empty_cache();
    EXPECT_EQ(find_segment(own).base, own);  // the list keeps it
    const auto sharing = std::make_shared<CommandList>(device(), pool);
    sharing->begin(q);
    void* shared = allocator.allocate(5000, q);
    EXPECT_EQ(segment_of(shared), own);
    allocator.free(shared);
    sharing->end();
    EXPECT_EQ(allocator.users(pool), 2);
  }
  EXPECT_EQ(allocator.users(pool), 0);
  allocator.empty_cache();
  EXPECT_EQ(find_segment(own).device, nullptr);
}

struct Counting final : RandomSource {
  explicit Counting(uint64_t& at) : at(at) {}
  std::pair<uint64_t, uint64_t> reserve(uint64_t counters) override { return {17, std::exchange(at, at + counters)}; }
  uint64_t& at;
};

TEST(CommandList, RandomNumbersAdvance) {
  Queue& q = device().new_queue();
  Array<float> y(numel), expected(numel);
  const auto fill = [&](const Array<float>& to, uint64_t seed, uint64_t first) {
    ops::fill_random(q, ops::Distribution::uniform,
                     ops::TensorView::contiguous(to.data(), ops::DType::float32, {static_cast<int64_t>(numel)}), 0, 1,
                     {seed, first});
  };
  const uint64_t counters = ops::random_counters(numel);
  uint64_t at = 100;
  const auto list = new_list();
  list->begin(q);
  const int key = 0;
  for (int i = 0; i < 2; ++i) {  // the second call's numbers are those that count
    const auto [seed, first] = list->reserve_random(&key, [&] { return std::make_unique<Counting>(at); }, counters);
    fill(y, seed, first);
  }
  list->end();
  EXPECT_EQ(at, 100u);
  for (uint64_t replay = 0; replay < 3; ++replay) {
    list->replay(q);
    q.finish();
    fill(expected, 17, 100 + (2 * replay + 1) * counters);
    q.finish();
    EXPECT_EQ(y.host(), expected.host());
  }
  EXPECT_EQ(at, 100 + 6 * counters);
}

}  // namespace
}  // namespace ocl::testing
