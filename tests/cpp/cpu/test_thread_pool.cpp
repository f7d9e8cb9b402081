// The thread pool that launches are divided among (cpu/thread_pool.h).
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
    pool().set_worker_1_task(
        [](void*) {
          if (done == asked) return;
          task();
          ++done;
        },
        nullptr);
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

// The pool of a device that is a part of a CPU: its threads run on the part's processors, also after they were moved
// away from a caller's.
TEST(ThreadPool, ThreadsKeepToTheirProcessors) {
  const std::vector<int> allowed = os::allowed_processor_numbers();
  if (allowed.empty()) GTEST_SKIP() << "the system does not number the processors";
  const std::vector<int> own(allowed.begin() + allowed.size() / 2, allowed.end());
  ThreadPool& pool = *new ThreadPool(3, own);
  struct Where {
    const std::vector<int>& own;
    std::atomic<int> by_pool{0}, outside{0};
    static int32_t piece(void* self, unsigned worker, uint32_t, uint32_t) {
      auto& where = *static_cast<Where*>(self);
      if (worker == 0 || worker == 3) return 0;  // the test's thread
      ++where.by_pool;
      where.outside += !std::binary_search(where.own.begin(), where.own.end(), os::current_processor());
      return 0;
    }
  } where{own};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int round = 0; (round < 200 || where.by_pool < 100) && std::chrono::steady_clock::now() < until; ++round) {
    std::atomic<float> unit_time{1e5f};  // worth the threads
    ASSERT_EQ(pool.run(64, unit_time, &Where::piece, &where), 0);
    pool.make_room_for_worker_1();
    std::this_thread::yield();
  }
  EXPECT_GE(where.by_pool, 100);
  EXPECT_EQ(where.outside, 0);
}

}  // namespace
}  // namespace ocl::testing
