// The thread pool that launches are divided among (cpu/thread_pool.h).
#include "cpu/stopped_clock.h"
#include "support.h"

#include "base/os.h"
#include "base/processors.h"
#include "cpu/command_queue.h"
#include "cpu/thread_pool.h"

#include <algorithm>
#include <functional>
#include <thread>

namespace ocl::testing {
namespace {

// Before anything asks for the pool: on a machine with one processor two threads take turns.
[[maybe_unused]] const bool two_workers = [] {
  if (processors::usable() < 2 && !std::getenv("TORCH_OCL_HOST_THREADS"))
    os::set_environment("TORCH_OCL_HOST_THREADS", "2");
  return true;
}();

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
  if (pool.workers() < 2) GTEST_SKIP() << "TORCH_OCL_HOST_THREADS is 1";
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

// A pool of two, whatever the machine has, and launches that its worker 1 leads while the test's thread assists.
class PoolOfTwo {
 public:
  static ThreadPool& pool() {
    static ThreadPool& two = *new ThreadPool(2);
    return two;
  }
  // Calls `launch` on worker 1.
  static void lead(std::function<void()> launch) {
    static std::function<void()> task;
    static std::atomic<int> asked, done;
    task = std::move(launch);
    pool().set_worker_1_task([] {
      if (done == asked) return;
      task();
      ++done;
    });
    ++asked;
    pool().wake_worker_1();
    while (done != asked) pool().assist();
  }
};

// A pool thread that expects the user thread later than a short launch lasts leaves it nothing, but not for
// ever.
TEST(ThreadPool, AThreadThatWasLateGetsShortLaunchesAgain) {
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
  // However long the system keeps one of the threads away.
  const auto until_the_caller_has_some = [](Work& work, int least, uint32_t units) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int i = 0; i < least || (work.by_caller == 0 && std::chrono::steady_clock::now() < limit); ++i)
      PoolOfTwo::lead([&] {
        std::atomic<float> unit_time{static_cast<float>(work.of_unit.count())};
        PoolOfTwo::pool().run(units, unit_time, &Work::piece, &work);
      });
    EXPECT_GT(work.by_caller, 0);
  };
  using namespace std::chrono_literals;
  Work late{10us, 100us}, brief{1500ns, 1500ns};
  until_the_caller_has_some(late, 50, 100);  // the caller is the last to end
  until_the_caller_has_some(brief, 1, 8);
}

// Longer than a launch may take without worker 1 having to notice it.
void take_noticeable_time() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
  while (std::chrono::steady_clock::now() < until) pause_thread();
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
  if (pool.workers() < 2) GTEST_SKIP() << "TORCH_OCL_HOST_THREADS is 1";
  StoppedClock clock;
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
    std::atomic<int> by_others{0};
    std::thread::id caller = std::this_thread::get_id();
    int regions_before = regions;
    int32_t code = 0;
    static int32_t piece(void* self, unsigned worker, uint32_t begin, uint32_t end) {
      auto& work = *static_cast<Work*>(self);
      EXPECT_EQ(std::this_thread::get_id() == work.caller, worker == 0);
      if (worker) ++work.by_others;
      take_noticeable_time();
      // on OpenMP threads until both have come
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (work.by_others == 0 && regions > work.regions_before && std::chrono::steady_clock::now() < limit)
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
  const auto run_on_workers = [&] {
    const int before = regions;
    Work work;
    EXPECT_EQ(work.run(), 0);
    EXPECT_TRUE(work.counted.each_once());
    EXPECT_EQ(regions, before);
  };
  const auto run_on_openmp = [&](int32_t code) {
    const int before = regions;
    Work work;
    work.code = code;
    EXPECT_EQ(work.run(), code);
    EXPECT_TRUE(work.counted.each_once());
    EXPECT_EQ(regions, before + 1);
    EXPECT_GT(work.by_others, 0);
    EXPECT_TRUE(pool.uses_openmp_threads());
  };
  for (int i = 0; i < 4; ++i) commands.wait(issue());  // as threads do that wait for nearly every command
  Busy busy;                                           // worker 1 notices no launch
  for (int i = 0; i < 20; ++i) run_on_workers();
  EXPECT_FALSE(pool.uses_openmp_threads());  // nobody spins
  spinning = true;
  run_on_workers();
  run_on_workers();
  ASSERT_TRUE(pool.uses_openmp_threads());
  run_on_openmp(0);
  std::thread([&] { EXPECT_FALSE(pool.uses_openmp_threads()) << "only the main thread's launches"; }).join();
  run_on_openmp(-5);
  // A pause ends it.
  clock.pass(std::chrono::milliseconds(3));
  run_on_workers();  // the first that worker 1 misses again
  EXPECT_FALSE(pool.uses_openmp_threads());
  run_on_workers();
  run_on_openmp(0);
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
  EXPECT_TRUE(commands.done(first));
  commands.wait(ticket);
  ticket = issue();
  for (const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
       !commands.complete(ticket) && std::chrono::steady_clock::now() < limit;)
    std::this_thread::yield();
  EXPECT_TRUE(commands.done(ticket));
  commands.wait(ticket);
  // Whoever waits late for many commands is no longer synchronous; for two commands it may take as long as it likes.
  issue();
  clock.pass(std::chrono::milliseconds(6));
  issue();
  EXPECT_TRUE(pool.uses_openmp_threads());
  commands.wait(issue());
  EXPECT_FALSE(pool.uses_openmp_threads());
  share_openmp_threads({});
}

// Threads that do not come are not asked again for a while, which doubles each time.
TEST(ThreadPool, GivesUpOpenMpThreadsThatDoNotCome) {
  ThreadPool& pool = ThreadPool::instance();
  if (pool.workers() < 2) GTEST_SKIP() << "TORCH_OCL_HOST_THREADS is 1";
  StoppedClock clock;
  static std::atomic<int> regions;
  regions = 0;
  const auto parallel = [](void (*body)(void*), void* context, unsigned) {
    ++regions;
    body(context);  // alone
    return true;
  };
  share_openmp_threads({parallel, nullptr});
  struct Slow : Counted {
    using Counted::Counted;
    static int32_t piece(void* self, unsigned worker, uint32_t begin, uint32_t end) {
      take_noticeable_time();
      return Counted::piece(self, worker, begin, end);
    }
  };
  Busy busy;
  pool.allow_openmp_threads(true);
  const int before_the_pause = 3 * 1, after_300_ms = 3 * 5;  // at about 0, 10, 30, 70 and 150 ms
  for (int millisecond = 0; millisecond < 300; ++millisecond) {
    Slow counted(8);
    std::atomic<float> unit_time{1e6f};
    EXPECT_EQ(pool.run(8, unit_time, &Slow::piece, &counted), 0);
    EXPECT_TRUE(counted.each_once());
    if (millisecond == 9) EXPECT_EQ(regions, before_the_pause);
    clock.pass(std::chrono::milliseconds(1));
  }
  busy.end();
  pool.allow_openmp_threads(false);
  share_openmp_threads({});
  EXPECT_EQ(regions, after_300_ms);
}

}  // namespace
}  // namespace ocl::testing
