// Commands that run later than they are issued (cpu/command_queue.h).
#include "support.h"

#include "cpu/command_queue.h"
#include "cpu/thread_pool.h"
#include "opencl/part_executor.h"

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace ocl::testing {
namespace {

TEST(CommandQueue, RunsInTheOrderOfIssueForAllCallers) {
  CommandQueue& commands = CommandQueue::instance();
  constexpr int callers = 4, each = 2000;
  struct Seen {
    int last[callers] = {}, wrong = 0, inside = 0;
  } seen;
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller)
    threads.emplace_back([&, caller] {
      CommandQueue::Ticket last = 0;
      for (int i = 1; i <= each; ++i) {
        last = commands.issue(
            i % 3 ? 100.0f : 1e6f,
            [&seen = seen, caller](const void* data) {
              seen.wrong += seen.inside++ != 0;  // no lock: commands never run at the same time
              int number;
              std::memcpy(&number, data, sizeof number);
              seen.wrong += number != seen.last[caller] + 1;
              seen.last[caller] = number;
              --seen.inside;
            },
            &i, sizeof i);
        if (i % 97 == 0) {
          commands.wait(last);
          EXPECT_TRUE(commands.done(last));
        }
      }
      commands.wait(last);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen.wrong, 0);
  for (const int last : seen.last) EXPECT_EQ(last, each);
}

TEST(CommandQueue, RunsWithoutAWaitingCaller) {
  CommandQueue& commands = CommandQueue::instance();
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> ran{0};
    CommandQueue::Ticket last = 0;
    for (int i = 0; i < 600; ++i)
      last = commands.issue(0, [&ran = ran](const void*) { ++ran; });  // more than it holds at once
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!commands.done(last) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(commands.done(last));
    EXPECT_EQ(ran, 600);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the workers fall asleep
  }
}

// Commands that wait behind one that takes long are offered to their fusion, which takes as many as it likes, in
// order.
TEST(CommandQueue, FusesWaitingCommands) {
  CommandQueue& commands = CommandQueue::instance();
  if (ThreadPool::instance().workers() == 1) GTEST_SKIP() << "commands never wait";
  static std::vector<int> singly, together;
  static std::vector<size_t> offered;
  static size_t taken;
  struct Number {
    static CommandQueue::Ticket issue(int number, bool joins, float expected) {
      const Fusion fusion = joins ? Fusion{&Number::run, &number, sizeof number} : Fusion{};
      return CommandQueue::instance().issue(
          expected, [number](const void*) { singly.push_back(number); }, nullptr, 0, fusion);
    }
    static size_t run(const void* const* data, size_t count) {
      offered.push_back(count);
      const size_t ran = std::min(taken, count);
      for (size_t i = 0; i < ran; ++i) together.push_back(*static_cast<const int*>(data[i]));
      return ran;
    }
  };
  for (const float expected : {0.0f, 1e6f})
    for (const size_t wanted : {0, 2, 3, 100}) {
      singly.clear(), together.clear(), offered.clear();
      taken = wanted;
      std::atomic<bool> go{false};
      commands.issue(0, [&go = go](const void*) {
        while (!go) std::this_thread::yield();
      });
      CommandQueue::Ticket last = 0;
      for (int i = 0; i < 20; ++i) last = Number::issue(i, i != 15, expected);
      go = true;
      commands.wait(last);
      EXPECT_EQ(singly.size() + together.size(), 20u);
      EXPECT_TRUE(std::is_sorted(singly.begin(), singly.end()));
      EXPECT_TRUE(std::is_sorted(together.begin(), together.end()));
      EXPECT_EQ(std::count(singly.begin(), singly.end(), 15), 1);
      if (wanted == 0) EXPECT_TRUE(together.empty());
      // 0 to 14 wait together, then 15, then four more
      if (wanted == 2) EXPECT_EQ(offered, (std::vector<size_t>{12, 12, 11, 9, 7, 5, 3, 4, 2}));
      if (wanted == 3) EXPECT_EQ(offered, (std::vector<size_t>{12, 12, 9, 6, 3, 4}));
      if (wanted == 100) EXPECT_EQ(offered, (std::vector<size_t>{12, 3, 4}));
    }
}

#if !defined(_WIN32)
TEST(CommandQueue, ForksInsideOfCommandsAndBesideThem) {
  CommandQueue& commands = CommandQueue::instance();
  const auto fork_once = [] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
  };
  std::atomic<int> good{0};
  for (int i = 0; i < 20; ++i) {
    const CommandQueue::Ticket ticket =
        commands.issue(0, [&good = good, fork_once](const void*) { good += fork_once(); });
    good += fork_once();
    EXPECT_TRUE(commands.done(ticket));  // a fork waits for what was issued
  }
  EXPECT_EQ(good, 40);
}
#endif

// Devices that are parts of a CPU have pools and command queues of their own: each waits for the other here.
TEST(CommandQueue, QueuesOfTheirOwnRunAtTheSameTime) {
  static CommandQueue& a = *new CommandQueue(*new ThreadPool(2), 1);
  static CommandQueue& b = *new CommandQueue(*new ThreadPool(2), 2);
  struct Meeting {
    std::atomic<int> here{0};
    std::atomic<bool> met{false};
    void come() {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      for (++here; here < 2 && std::chrono::steady_clock::now() < until;) std::this_thread::yield();
      met = here == 2;
    }
  } meeting;
  const auto come = [&meeting = meeting](const void*) { meeting.come(); };
  EXPECT_EQ(order_of(a.issue(0, come)), 1u);
  EXPECT_EQ(order_of(b.issue(0, come)), 2u);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!meeting.met && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(meeting.met);
  int order = 0;
  std::atomic<int> wrong{0};
  CommandQueue::Ticket last = 0;
  for (int i = 0; i < 1000; ++i)
    last = a.issue(100, [&order = order, &wrong = wrong, i](const void*) { wrong += order++ != i; });
  a.wait(last);
  EXPECT_EQ(order, 1000);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ocl::testing
