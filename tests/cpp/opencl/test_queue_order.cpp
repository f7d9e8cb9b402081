// Short and long commands of several threads and queues keep their order.
#include "support.h"

#include <thread>

namespace ocl::testing {
namespace {

const char* source = R"(
#include "common/memory.clh"
kernel void follow(global uint* y, uint step, int rounds) {
  uint v = y[get_global_id(0)];
  for (int i = 0; i < rounds; ++i) v = v * 1664525u + step;
  y[get_global_id(0)] = v;
}
)";

constexpr size_t numel = 3000;

struct Follower {
  explicit Follower(Queue& queue) : queue(queue), y(numel), expected(numel) {
    queue.fill(y.data(), "\0\0\0", 4, numel * 4);
  }
  void step(uint32_t number, int rounds) {
    launch(queue, get_kernel_from_source(device(), "follow", source), Range(numel), Range(1), y.data(), number,
           int32_t{rounds});
    for (uint32_t& v : expected)
      for (int i = 0; i < rounds; ++i) v = v * 1664525u + number;
  }
  // Returns the number of wrong elements.
  int wrong() {
    queue.finish();
    std::vector<uint32_t> host(numel);
    queue.read(host.data(), y.data(), numel * 4);
    int count = 0;
    for (size_t i = 0; i < numel; ++i) count += host[i] != expected[i];
    return count;
  }

  Queue& queue;
  Array<uint32_t> y;
  std::vector<uint32_t> expected;
};

// Short and long launches of one kernel with the same number of groups, copies and fills of little and of much, with
// waits here and there.
TEST(QueueOrder, CommandsKeepTheirOrder) {
  Follower follower(queue());
  Array<uint32_t> beside(1 << 20);
  for (uint32_t i = 0; i < 300; ++i) {
    follower.step(i, i % 7 == 6 ? 3000 : 3);
    if (i % 10 == 3) {
      queue().copy(beside.data(), follower.y.data(), numel * 4);
      queue().fill(follower.y.data(), "\1\1\1\1", 4, numel * 4);
      queue().copy(follower.y.data(), beside.data(), numel * 4);
    }
    if (i % 50 == 20) queue().fill(beside.data(), "\2\2\2\2", 4, size_t{4} << 20);
    if (i % 25 == 1) queue().finish();
    if (i % 60 == 5) {
      EXPECT_EQ(follower.wrong(), 0) << i;
    }
  }
  EXPECT_EQ(follower.wrong(), 0);
  EXPECT_TRUE(queue().idle());
}

TEST(QueueOrder, SeveralThreadsWithOneKernel) {
  Queue& other = device().new_queue();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Follower follower(t % 2 ? other : queue());
      for (uint32_t i = 0; i < 200; ++i) {
        follower.step(i, i % 11 == t ? 2000 : 3);
        if (i % 40 == 39) wrong += follower.wrong();
      }
      wrong += follower.wrong();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Two queues take turns with one array, by events.
TEST(QueueOrder, QueuesWaitForEachOther) {
  Queue& other = device().new_queue();
  Follower follower(queue());
  Kernel& kernel = get_kernel_from_source(device(), "follow", source);
  for (uint32_t i = 0; i < 100; ++i) {
    const int rounds = i % 5 == 4 ? 2000 : 3;
    follower.step(i, rounds);
    const Event ready = queue().record();
    other.wait(ready);
    launch(other, kernel, Range(numel), Range(1), follower.y.data(), i + 1, int32_t{3});
    for (uint32_t& v : follower.expected)
      for (int k = 0; k < 3; ++k) v = v * 1664525u + i + 1;
    const Event done = other.record();
    queue().wait(done);
    if (i % 20 == 7) {
      queue().finish();
      other.finish();
    }
  }
  EXPECT_EQ(follower.wrong(), 0);
}

TEST(QueueOrder, TimesOfEventsAreOfOneClock) {
  Follower follower(queue());
  follower.step(1, 3);
  queue().finish();
  const Event begin = queue().record();
  for (uint32_t i = 0; i < 50; ++i) follower.step(i, 3);
  const Event middle = queue().record();
  for (uint32_t i = 0; i < 50; ++i) follower.step(i, 3000);
  const Event end = queue().record();
  end.wait();
  EXPECT_LE(begin.end_time(), middle.end_time());
  EXPECT_LT(middle.end_time(), end.end_time());
  EXPECT_LT(end.end_time() - begin.end_time(), uint64_t{60'000'000'000});
  EXPECT_EQ(follower.wrong(), 0);
}

}  // namespace
}  // namespace ocl::testing
