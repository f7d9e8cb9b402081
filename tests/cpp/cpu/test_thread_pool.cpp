// The thread pool that launches are divided among (cpu/thread_pool.h).
#include "support.h"

#include "cpu/command_queue.h"
#include "cpu/thread_pool.h"

#include <algorithm>
#include <thread>

namespace ocl::testing {
namespace {

struct Counted {
  std::vector<std::atomic<int>> visits;
  explicit Counted(size_t units) : visits(units) {}
  static int32_t piece(void* self, unsigned, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) ++static_cast<Counted*>(self)->visits[i];
    return 0;
  }
  bool each_once() const {
    return std::all_of(visits.begin(), visits.end(), [](const std::atomic<int>& n) { return n == 1; });
  }
};

TEST(ThreadPool, EveryUnitRunsOnce) {
  for (const uint32_t units : {0u, 1u, 2u, 3u, 7u, 64u, 1000u, 100000u})
    for (const float expected : {0.0f, 1.0f, 1e4f, 1e9f}) {
      Counted counted(units);
      std::atomic<float> unit_time{expected};
      EXPECT_EQ(ThreadPool::instance().run(units, unit_time, &Counted::piece, &counted), 0);
      EXPECT_TRUE(counted.each_once()) << units << " units, " << expected << " ns expected";
    }
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      std::atomic<float> unit_time{1e5f};  // long enough to be shared
      for (int i = 0; i < 500; ++i) {
        Counted counted(37);
        if (ThreadPool::instance().run(37, unit_time, &Counted::piece, &counted) != 0 || !counted.each_once())
          ++failures;
        unit_time = 1e5f;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
}

TEST(ThreadPool, AnErrorIsReturnedAndTheRestStillRuns) {
  struct Failing {
    Counted counted{100};
    static int32_t piece(void* self, unsigned worker, uint32_t begin, uint32_t end) {
      Counted::piece(&static_cast<Failing*>(self)->counted, worker, begin, end);
      return begin <= 50 && 50 < end ? -5 : 0;
    }
  } failing;
  std::atomic<float> unit_time{1e6f};
  EXPECT_EQ(ThreadPool::instance().run(100, unit_time, &Failing::piece, &failing), -5);
  EXPECT_TRUE(failing.counted.each_once());
}

TEST(ThreadPool, AThreadOfTheProgramAssists) {
  ThreadPool& pool = ThreadPool::instance();
  if (pool.workers() < 2) GTEST_SKIP() << "needs two workers";
  EXPECT_FALSE(pool.assist());  // nothing is being run
  struct Shared {
    Counted counted{4000};
    std::atomic<int> assisted{0}, led{0};
    std::thread::id caller = std::this_thread::get_id();
    std::chrono::steady_clock::time_point limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    static int32_t piece(void* self, unsigned worker, uint32_t begin, uint32_t end) {
      auto& shared = *static_cast<Shared*>(self);
      const bool by_caller = std::this_thread::get_id() == shared.caller;
      EXPECT_EQ(by_caller, worker == 0);
      ++(by_caller ? shared.assisted : shared.led);
      // the pool's threads take no second piece before the caller has its first, however late the system lets it run
      while (shared.assisted == 0 && std::chrono::steady_clock::now() < shared.limit) std::this_thread::yield();
      return Counted::piece(&shared.counted, worker, begin, end);
    }
  } shared;
  const CommandQueue::Ticket ticket = CommandQueue::instance().issue(0, [&shared = shared](const void*) {
    std::atomic<float> unit_time{1e5f};
    ThreadPool::instance().run(4000, unit_time, &Shared::piece, &shared);
  });
  while (shared.led == 0) std::this_thread::yield();
  while (pool.assist()) {}
  CommandQueue::instance().wait(ticket);
  EXPECT_TRUE(shared.counted.each_once());
  EXPECT_GT(shared.assisted, 0);
}

// A pool thread that expects the user thread later than a short launch lasts leaves it nothing, but not for
// ever.
TEST(ThreadPool, AThreadThatWasLateGetsShortLaunchesAgain) {
  ThreadPool& pool = ThreadPool::instance();
  if (pool.workers() != 2) GTEST_SKIP() << "needs two workers";
  struct Work {
    std::chrono::nanoseconds of_unit, of_caller;
    std::atomic<int> by_caller{0};
    static int32_t piece(void* self, unsigned worker, uint32_t begin, uint32_t end) {
      auto& work = *static_cast<Work*>(self);
      const auto until =
          std::chrono::steady_clock::now() + (end - begin) * (worker == 0 ? work.of_caller : work.of_unit);
      if (worker == 0) ++work.by_caller;
      while (std::chrono::steady_clock::now() < until) pause_thread();
      return 0;
    }
  };
  const auto launches = [&](Work& work, int count, uint32_t units) {
    for (int i = 0; i < count; ++i) {
      const CommandQueue::Ticket ticket = CommandQueue::instance().issue(0, [&work, units](const void*) {
        std::atomic<float> unit_time{static_cast<float>(work.of_unit.count())};
        ThreadPool::instance().run(units, unit_time, &Work::piece, &work);
      });
      while (!CommandQueue::instance().done(ticket)) pool.assist();
    }
  };
  using namespace std::chrono_literals;
  Work late{10us, 100us}, brief{1500ns, 1500ns};
  launches(late, 50, 100);  // the caller is the last to end
  EXPECT_GT(late.by_caller, 0);
  launches(brief, 1000, 8);
  EXPECT_GT(brief.by_caller, 0);
}

// Keeps worker 1 from launches until end().
class Busy {
 public:
  Busy() {
    ticket_ = CommandQueue::instance().issue(0, [&state = state_](const void*) {
      state = 1;
      while (state == 1) std::this_thread::yield();
    });
    while (state_ == 0) std::this_thread::yield();
  }
  void end() {
    state_ = 2;
    while (!CommandQueue::instance().done(ticket_)) std::this_thread::yield();
  }

 private:
  std::atomic<int> state_{0};
  CommandQueue::Ticket ticket_;
};

// Launches of the main thread by OpenMP threads: when worker 1 was awake and did not come,
// until the caller no longer waits soon for its commands.
TEST(ThreadPool, UsesOpenMpThreadsWhileItsOwnAreKeptAway) {
  ThreadPool& pool = ThreadPool::instance();
  CommandQueue& commands = CommandQueue::instance();
  if (pool.workers() < 2) GTEST_SKIP() << "needs two workers";
  static std::atomic<int> regions;
  static std::atomic<bool> spinning;
  regions = 0;
  spinning = false;
  const auto parallel = [](void (*body)(void*), void* context, unsigned workers) {
    ++regions;
    std::vector<std::thread> others;
    for (unsigned i = 1; i < workers; ++i) others.emplace_back(body, context);
    body(context);
    for (auto& other : others) other.join();
    return true;
  };
  share_openmp_threads({parallel, [] { return spinning.load(); }});
  struct Work {
    Counted counted{64};
    std::atomic<int> by_caller{0}, by_others{0};
    std::thread::id caller = std::this_thread::get_id();
    int regions_before = regions;
    int32_t code = 0;
    static int32_t piece(void* self, unsigned worker, uint32_t begin, uint32_t end) {
      auto& work = *static_cast<Work*>(self);
      EXPECT_EQ(std::this_thread::get_id() == work.caller, worker == 0);
      ++(worker ? work.by_others : work.by_caller);
      // longer than it takes to notice a launch; on OpenMP threads until both have come
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(100)) pause_thread();
      while (work.by_others == 0 && regions > work.regions_before &&
             std::chrono::steady_clock::now() - start < std::chrono::seconds(60))
        std::this_thread::yield();
      Counted::piece(&work.counted, worker, begin, end);
      return work.code;
    }
    int32_t run() {
      std::atomic<float> unit_time{1e6f};
      return ThreadPool::instance().run(64, unit_time, &Work::piece, this);
    }
  };
  const auto issue = [&] { return commands.issue(0, [](const void*) {}); };
  for (int i = 0; i < 4; ++i) commands.wait(issue());  // as threads do that wait for nearly every command
  // Worker 1 is busy and does not notice any launch. On a machine that is busy with something else, sharing
  // may have ended again before the next launch: then from the beginning.
  Busy busy;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Work().run(), 0);
  EXPECT_FALSE(pool.uses_openmp_threads()) << "something else keeps worker 1 away";
  spinning = true;
  const auto run_on_openmp = [&](int32_t code) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const int before = regions;
      for (int i = 0; i < 100 && !pool.uses_openmp_threads(); ++i) {
        Work work;
        EXPECT_EQ(work.run(), 0);
        EXPECT_TRUE(work.counted.each_once());
      }
      EXPECT_EQ(regions, before) << "too early";
      Work work;
      work.code = code;
      EXPECT_EQ(work.run(), code);
      EXPECT_TRUE(work.counted.each_once());
      if (regions == before) continue;
      EXPECT_GT(work.by_others, 0);
      if (pool.uses_openmp_threads()) return true;
    }
    return false;
  };
  ASSERT_TRUE(run_on_openmp(0));
  std::thread([&] { EXPECT_FALSE(pool.uses_openmp_threads()) << "only the main thread's launches"; }).join();
  ASSERT_TRUE(run_on_openmp(-5));
  // A pause ends it.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int regions_at_pause = regions;
  EXPECT_EQ(Work().run(), 0);
  EXPECT_EQ(regions, regions_at_pause);
  EXPECT_FALSE(pool.uses_openmp_threads());
  // Launches that follow each other for long give the other threads a rest, which ends when they are asleep.
  bool rested = false;
  for (const auto start = std::chrono::steady_clock::now();
       !rested && std::chrono::steady_clock::now() - start < std::chrono::seconds(60);) {
    if (!pool.uses_openmp_threads()) ASSERT_TRUE(run_on_openmp(0));
    const int before = regions;
    Work work;
    EXPECT_EQ(work.run(), 0);
    EXPECT_TRUE(work.counted.each_once());
    rested = pool.uses_openmp_threads() && regions == before;
  }
  EXPECT_TRUE(rested);
  spinning = false;
  for (int i = 0; i < 1000 && pool.uses_openmp_threads(); ++i) EXPECT_EQ(Work().run(), 0);
  EXPECT_FALSE(pool.uses_openmp_threads());
  spinning = true;
  ASSERT_TRUE(run_on_openmp(0));
  // Commands are run when one is waited for or asked about, or some have come together.
  busy.end();
  for (int i = 0; i < 8; ++i) {
    const CommandQueue::Ticket ticket = issue();
    commands.wait(ticket);
    EXPECT_TRUE(commands.done(ticket)) << i;
  }
  EXPECT_TRUE(pool.uses_openmp_threads());
  const CommandQueue::Ticket first = issue();
  CommandQueue::Ticket ticket = first;
  while (ticket < first + 9) ticket = issue();
  if (pool.uses_openmp_threads())
    EXPECT_TRUE(commands.done(first));  // otherwise this took longer than callers who wait soon may
  commands.wait(ticket);
  ticket = issue();
  for (int i = 0; i < 100000 && !commands.complete(ticket); ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  EXPECT_TRUE(commands.done(ticket));
  commands.wait(ticket);
  if (!pool.uses_openmp_threads()) {
    share_openmp_threads({});
    GTEST_SKIP() << "something else keeps this thread away";
  }
  issue();
  std::this_thread::sleep_for(std::chrono::milliseconds(6));
  issue();
  EXPECT_TRUE(pool.uses_openmp_threads()) << "two commands, however long it takes";
  commands.wait(issue());
  EXPECT_FALSE(pool.uses_openmp_threads());
  share_openmp_threads({});
}

// Threads that do not come are not asked again for a while.
TEST(ThreadPool, GivesUpOpenMpThreadsThatDoNotCome) {
  ThreadPool& pool = ThreadPool::instance();
  if (pool.workers() < 2) GTEST_SKIP() << "needs two workers";
  static std::atomic<int> regions;
  regions = 0;
  const auto parallel = [](void (*body)(void*), void* context, unsigned) {
    ++regions;
    body(context);  // alone
    return true;
  };
  share_openmp_threads({parallel, nullptr});
  Busy busy;
  struct Slow : Counted {
    using Counted::Counted;
    static int32_t piece(void* self, unsigned worker, uint32_t begin, uint32_t end) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
      while (std::chrono::steady_clock::now() < until) pause_thread();
      return Counted::piece(self, worker, begin, end);
    }
  };
  pool.allow_openmp_threads(true);
  const auto begin = std::chrono::steady_clock::now();
  int launches = 0;
  for (; std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(300); ++launches) {
    Slow counted(8);
    std::atomic<float> unit_time{1e6f};
    EXPECT_EQ(pool.run(8, unit_time, &Slow::piece, &counted), 0);
    EXPECT_TRUE(counted.each_once());
  }
  busy.end();
  pool.allow_openmp_threads(false);
  share_openmp_threads({});
  EXPECT_GT(launches, 100);
  EXPECT_GE(regions, 3);
  EXPECT_LE(regions, 3 * 8);  // after 10, 20, 40, ... ms
}

}  // namespace
}  // namespace ocl::testing
