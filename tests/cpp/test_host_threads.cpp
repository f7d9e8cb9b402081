// Launches in pieces on threads of the process, later than they are issued (opencl/host_threads.h, host_backlog.h, host_launch.h). The kernels run on every device: there the same
// must hold without pieces.
#include "support.h"

#include "opencl/host_backlog.h"
#include "opencl/host_threads.h"

#include <sys/wait.h>
#include <unistd.h>

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

TEST(HostThreads, EveryUnitRunsOnce) {
  for (const uint32_t units : {0u, 1u, 2u, 3u, 7u, 64u, 1000u, 100000u})
    for (const float expected : {0.0f, 1.0f, 1e4f, 1e9f}) {
      Counted counted(units);
      std::atomic<float> unit_time{expected};
      EXPECT_EQ(HostThreads::instance().run(units, unit_time, &Counted::piece, &counted), 0);
      EXPECT_TRUE(counted.each_once()) << units << " units, " << expected << " ns expected";
    }
}

TEST(HostThreads, SeveralCallersAtOnce) {
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      std::atomic<float> unit_time{1e5f};  // long enough to be shared
      for (int i = 0; i < 500; ++i) {
        Counted counted(37);
        if (HostThreads::instance().run(37, unit_time, &Counted::piece, &counted) != 0 || !counted.each_once()) ++failures;
        unit_time = 1e5f;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
}

TEST(HostThreads, AnErrorIsReturnedAndTheRestStillRuns) {
  struct Failing {
    Counted counted{100};
    static int32_t piece(void* self, unsigned member, uint32_t begin, uint32_t end) {
      Counted::piece(&static_cast<Failing*>(self)->counted, member, begin, end);
      return begin <= 50 && 50 < end ? -5 : 0;
    }
  } failing;
  std::atomic<float> unit_time{1e6f};
  EXPECT_EQ(HostThreads::instance().run(100, unit_time, &Failing::piece, &failing), -5);
  EXPECT_TRUE(failing.counted.each_once());
}

TEST(HostThreads, AThreadOfTheProgramAssists) {
  HostThreads& team = HostThreads::instance();
  if (team.members() < 2) GTEST_SKIP() << "needs two members";
  EXPECT_FALSE(team.assist());  // nothing is being run
  struct Shared {
    Counted counted{4000};
    std::atomic<int> assisted{0}, led{0};
    std::thread::id caller = std::this_thread::get_id();
    std::chrono::steady_clock::time_point limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    static int32_t piece(void* self, unsigned member, uint32_t begin, uint32_t end) {
      auto& shared = *static_cast<Shared*>(self);
      const bool by_caller = std::this_thread::get_id() == shared.caller;
      EXPECT_EQ(by_caller, member == 0);
      ++(by_caller ? shared.assisted : shared.led);
      // the team's threads take no second piece before the caller has its first, however late the system lets it run
      while (shared.assisted == 0 && std::chrono::steady_clock::now() < shared.limit) std::this_thread::yield();
      return Counted::piece(&shared.counted, member, begin, end);
    }
  } shared;
  const HostBacklog::Ticket ticket = HostBacklog::instance().issue(0, [&shared = shared](const void*) {
    std::atomic<float> unit_time{1e5f};
    HostThreads::instance().run(4000, unit_time, &Shared::piece, &shared);
  });
  while (shared.led == 0) std::this_thread::yield();
  while (team.assist()) {
  }
  HostBacklog::instance().wait(ticket);
  EXPECT_TRUE(shared.counted.each_once());
  EXPECT_GT(shared.assisted, 0);
}

// A team's thread that expects the program's thread later than a short launch lasts leaves it nothing, but not for ever.
TEST(HostThreads, AThreadThatWasLateGetsShortLaunchesAgain) {
  HostThreads& team = HostThreads::instance();
  if (team.members() != 2) GTEST_SKIP() << "needs two members";
  struct Work {
    std::chrono::nanoseconds of_unit, of_caller;
    std::atomic<int> by_caller{0};
    static int32_t piece(void* self, unsigned member, uint32_t begin, uint32_t end) {
      auto& work = *static_cast<Work*>(self);
      const auto until = std::chrono::steady_clock::now() + (end - begin) * (member == 0 ? work.of_caller : work.of_unit);
      if (member == 0) ++work.by_caller;
      while (std::chrono::steady_clock::now() < until) pause_thread();
      return 0;
    }
  };
  const auto launches = [&](Work& work, int count, uint32_t units) {
    for (int i = 0; i < count; ++i) {
      const HostBacklog::Ticket ticket = HostBacklog::instance().issue(0, [&work, units](const void*) {
        std::atomic<float> unit_time{static_cast<float>(work.of_unit.count())};
        HostThreads::instance().run(units, unit_time, &Work::piece, &work);
      });
      while (!HostBacklog::instance().done(ticket)) team.assist();
    }
  };
  using namespace std::chrono_literals;
  Work late{10us, 100us}, brief{1500ns, 1500ns};
  launches(late, 50, 100);  // the caller is the last to end
  EXPECT_GT(late.by_caller, 0);
  launches(brief, 1000, 8);
  EXPECT_GT(brief.by_caller, 0);
}

// Keeps the team's first thread from launches until end().
class Busy {
 public:
  Busy() {
    ticket_ = HostBacklog::instance().issue(0, [&state = state_](const void*) {
      state = 1;
      while (state == 1) std::this_thread::yield();
    });
    while (state_ == 0) std::this_thread::yield();
  }
  void end() {
    state_ = 2;
    while (!HostBacklog::instance().done(ticket_)) std::this_thread::yield();
  }

 private:
  std::atomic<int> state_{0};
  HostBacklog::Ticket ticket_;
};

// Launches of the main thread by another library's threads: when the team's first thread was awake and did not come, until the caller no longer waits
// for its commands.
TEST(HostThreads, BorrowsThreadsWhileItsOwnAreKeptAway) {
  HostThreads& team = HostThreads::instance();
  HostBacklog& backlog = HostBacklog::instance();
  if (team.members() < 2) GTEST_SKIP() << "needs two members";
  static std::atomic<int> regions;
  regions = 0;
  HostThreads::set_lender([](void (*body)(void*), void* context, unsigned members) {
    ++regions;
    std::vector<std::thread> others;
    for (unsigned i = 1; i < members; ++i) others.emplace_back(body, context);
    body(context);
    for (auto& other : others) other.join();
    return true;
  });
  struct Work {
    Counted counted{64};
    std::atomic<int> by_caller{0}, by_others{0};
    std::thread::id caller = std::this_thread::get_id();
    bool together = true;
    int32_t code = 0;
    static int32_t piece(void* self, unsigned member, uint32_t begin, uint32_t end) {
      auto& work = *static_cast<Work*>(self);
      EXPECT_EQ(std::this_thread::get_id() == work.caller, member == 0);
      ++(member ? work.by_others : work.by_caller);
      // longer than it takes to notice a launch; in a borrowed one until both have come
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(100)) pause_thread();
      while (work.together && work.by_others == 0 && regions && std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) std::this_thread::yield();
      Counted::piece(&work.counted, member, begin, end);
      return work.code;
    }
    int32_t run() {
      std::atomic<float> unit_time{1e6f};
      return HostThreads::instance().run(64, unit_time, &Work::piece, this);
    }
  };
  const auto issue = [&] { return backlog.issue(0, [](const void*) {}); };
  for (int i = 0; i < 4; ++i) backlog.wait(issue());  // as threads do that wait for nearly every command
  // The first thread is busy and does not notice any launch.
  Busy busy;
  for (int i = 0; i < 100 && !team.borrows(); ++i) {
    Work work;
    EXPECT_EQ(work.run(), 0);
    EXPECT_TRUE(work.counted.each_once());
  }
  EXPECT_EQ(regions, 0);
  ASSERT_TRUE(team.borrows());
  std::thread([&] { EXPECT_FALSE(team.borrows()) << "only the main thread's launches"; }).join();
  Work borrowed, failing;
  EXPECT_EQ(borrowed.run(), 0);
  EXPECT_EQ(regions, 1);
  EXPECT_TRUE(borrowed.counted.each_once());
  EXPECT_GT(borrowed.by_others, 0);
  failing.code = -5;
  EXPECT_EQ(failing.run(), -5);
  EXPECT_TRUE(failing.counted.each_once());
  EXPECT_EQ(regions, 2);
  // Commands are run when they are issued, as long as they are waited for.
  busy.end();
  for (int i = 0; i < 8; ++i) {
    const HostBacklog::Ticket ticket = issue();
    EXPECT_TRUE(backlog.done(ticket)) << i;
    backlog.wait(ticket);
  }
  EXPECT_TRUE(team.borrows());
  issue(), issue();
  EXPECT_TRUE(team.borrows());
  backlog.wait(issue());
  EXPECT_FALSE(team.borrows());
  HostThreads::set_lender(nullptr);
}

// Threads that do not come are not asked again for a while.
TEST(HostThreads, GivesUpThreadsThatDoNotCome) {
  HostThreads& team = HostThreads::instance();
  if (team.members() < 2) GTEST_SKIP() << "needs two members";
  static std::atomic<int> regions;
  regions = 0;
  HostThreads::set_lender([](void (*body)(void*), void* context, unsigned) {
    ++regions;
    body(context);  // alone
    return true;
  });
  Busy busy;
  struct Slow : Counted {
    using Counted::Counted;
    static int32_t piece(void* self, unsigned member, uint32_t begin, uint32_t end) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
      while (std::chrono::steady_clock::now() < until) pause_thread();
      return Counted::piece(self, member, begin, end);
    }
  };
  team.allow_borrowing(true);
  const auto begin = std::chrono::steady_clock::now();
  int launches = 0;
  for (; std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(300); ++launches) {
    Slow counted(8);
    std::atomic<float> unit_time{1e6f};
    EXPECT_EQ(team.run(8, unit_time, &Slow::piece, &counted), 0);
    EXPECT_TRUE(counted.each_once());
  }
  busy.end();
  team.allow_borrowing(false);
  HostThreads::set_lender(nullptr);
  EXPECT_GT(launches, 100);
  EXPECT_GE(regions, 3);
  EXPECT_LE(regions, 3 * 8);  // after 10, 20, 40, ... ms
}

TEST(HostBacklog, RunsInTheOrderOfIssueForAllCallers) {
  HostBacklog& backlog = HostBacklog::instance();
  constexpr int callers = 4, commands = 2000;
  struct Seen {
    int last[callers] = {}, wrong = 0, inside = 0;
  } seen;
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller)
    threads.emplace_back([&, caller] {
      HostBacklog::Ticket last = 0;
      for (int i = 1; i <= commands; ++i) {
        last = backlog.issue(i % 3 ? 100.0f : 1e6f, [&seen = seen, caller](const void* data) {
          seen.wrong += seen.inside++ != 0;  // no lock: commands never run at the same time
          int number;
          std::memcpy(&number, data, sizeof number);
          seen.wrong += number != seen.last[caller] + 1;
          seen.last[caller] = number;
          --seen.inside;
        }, &i, sizeof i);
        if (i % 97 == 0) {
          backlog.wait(last);
          EXPECT_TRUE(backlog.done(last));
        }
      }
      backlog.wait(last);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen.wrong, 0);
  for (const int last : seen.last) EXPECT_EQ(last, commands);
}

TEST(HostBacklog, RunsWithoutAnybodyWaiting) {
  HostBacklog& backlog = HostBacklog::instance();
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> ran{0};
    HostBacklog::Ticket last = 0;
    for (int i = 0; i < 600; ++i) last = backlog.issue(0, [&ran = ran](const void*) { ++ran; });  // more than it holds at once
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!backlog.done(last) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(backlog.done(last));
    EXPECT_EQ(ran, 600);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the team falls asleep
  }
}

// Commands that wait behind one that takes long are offered to their joint run, which takes as many as it likes, in order.
TEST(HostBacklog, RunsWaitingCommandsTogether) {
  HostBacklog& backlog = HostBacklog::instance();
  if (HostThreads::instance().members() == 1) GTEST_SKIP() << "commands never wait";
  static std::vector<int> singly, together;
  static std::vector<size_t> offered;
  static size_t taken;
  struct Number {
    static HostBacklog::Ticket issue(int number, bool joins, float expected) {
      const HostBacklog::Joint joint = joins ? HostBacklog::Joint{&Number::run, &number, sizeof number} : HostBacklog::Joint{};
      return HostBacklog::instance().issue(expected, [number](const void*) { singly.push_back(number); }, nullptr, 0, joint);
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
      backlog.issue(0, [&go = go](const void*) {
        while (!go) std::this_thread::yield();
      });
      HostBacklog::Ticket last = 0;
      for (int i = 0; i < 20; ++i) last = Number::issue(i, i != 15, expected);
      go = true;
      backlog.wait(last);
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

TEST(HostBacklog, ForksInsideOfCommandsAndBesideThem) {
  HostBacklog& backlog = HostBacklog::instance();
  const auto fork_once = [] {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
  };
  std::atomic<int> good{0};
  for (int i = 0; i < 20; ++i) {
    const HostBacklog::Ticket ticket = backlog.issue(0, [&good = good, fork_once](const void*) { good += fork_once(); });
    good += fork_once();
    EXPECT_TRUE(backlog.done(ticket));  // a fork waits for what was issued
  }
  EXPECT_EQ(good, 40);
}

// 1 for every work-item whose functions agree with each other and with the sizes of the launch.
const char* const identities = R"(
#include "common/memory.clh"
__kernel void identities(TENSOR(int, y), long sx, long sy, long sz) {
  OPEN(int, y);
  const size_t size[3] = {sx, sy, sz};
  int wrong = 0;
  for (uint d = 0; d < 3; d++) {
    wrong += get_global_size(d) != size[d] || get_num_groups(d) * get_local_size(d) != size[d] || get_global_offset(d) != 0;
    wrong += get_group_id(d) * get_local_size(d) + get_local_id(d) != get_global_id(d) || get_group_id(d) >= get_num_groups(d);
  }
  y[get_global_id(0) + sx * (get_global_id(1) + sy * get_global_id(2))] += wrong ? 100000 : 1;
}
)";

TEST(HostLaunch, KernelsSeeTheWholeLaunch) {
  struct Case {
    Range global, local;
  };
  const Case cases[] = {{Range(1), Range(1)},          {Range(7), Range(1)},           {Range(1000), Range(1)},      {Range(1000), Range()},
                        {Range(4096), Range(64)},      {Range(40000), Range(1)},       {Range(70000), Range(1)},     {Range(70001), Range()},
                        {Range(3, 500), Range(1, 1)},  {Range(500, 3), Range(1, 1)},   {Range(64, 9, 5), Range(16, 3)}, {Range(2, 3, 200), Range(1, 1, 1)},
                        {Range(7, 2), Range(1, 1)},    {Range(2, 13), Range(1, 1)},    {Range(4, 4, 4), Range(1, 1)}, {Range(48, 3, 5), Range(16, 1)},
                        {Range(5, 1, 3), Range(1, 1)}, {Range(1, 6, 5), Range(1, 2)},  {Range(1023, 9), Range(1, 1)}, {Range(1024, 3), Range(1, 1)},
                        {Range(130, 70, 2), Range()},  {Range(2, 40000), Range(1, 1)}, {Range(size_t{1} << 22), Range(2)}, {Range(size_t{1} << 21), Range(1)}};
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  for (const auto& [global, local] : cases) {
    const auto [x, y, z] = global.size;
    Array<int> seen(x * y * z);
    queue().fill(seen.data(), "\0\0\0", 4, x * y * z * 4);
    for (int i = 0; i < 4; ++i) {
      kernel.group_time() = 1e5f;  // long enough to be cut however few groups there are
      launch(queue(), kernel, global, local, seen.data(), static_cast<int64_t>(x), static_cast<int64_t>(y), static_cast<int64_t>(z));
    }
    const std::vector<int> host = seen.host();
    EXPECT_TRUE(std::all_of(host.begin(), host.end(), [](int n) { return n == 4; })) << x << " x " << y << " x " << z;
  }
}

// Some kernels in turns after a program was compiled (without a kept binary) that has nearly as many as PoCL keeps loaded; then all of them.
TEST(HostLaunch, MoreKernelsThanStayLoaded) {
  constexpr int count = 120, some = 60;
  std::string source = "#include \"common/memory.clh\"\n";
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    source += "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void mix" + number +
              "(TENSOR(uint, y)) {\n  OPEN(uint, y);\n  uint v = y[get_global_id(0)];\n  for (int k = 0; k < 500; ++k) v = v * 1664525u + " + number +
              ";\n  y[get_global_id(0)] = v;\n}\n";
  }
  Array<uint32_t> y(400);
  queue().fill(y.data(), "\0\0\0", 4, 400 * 4);
  std::vector<uint32_t> expected(400);
  for (const auto& [last, longest] : {std::pair{some, 301}, {some, 301}, {some, 357}, {count, 321}, {some, 301}})
    for (int i = 0; i < last; ++i) {
      Kernel& kernel = get_kernel_from_source(device(), ("mix" + std::to_string(i)).c_str(), source);
      for (const int n : {longest, 90}) {
        kernel.group_time() = 1e5f;  // long enough to be cut
        launch(queue(), kernel, Range(n), Range(1), y.data());
        for (int k = 0; k < n * 500; ++k) expected[k / 500] = expected[k / 500] * 1664525u + static_cast<uint32_t>(i);
      }
    }
  EXPECT_EQ(y.host(), expected);
}

TEST(HostLaunch, ErrorsOfArgumentsComeWithTheNextWait) {
  if (!device().host_launch()) GTEST_SKIP() << "the driver checks arguments when they are set";
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  Array<int> y(8);
  launch(queue(), kernel, Range(8), Range(1), y.data(), int32_t{8}, int64_t{1}, int64_t{1});  // a long is wanted
  try {
    queue().finish();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("clSetKernelArg(identities, 2)"), std::string::npos) << error.what();
  }
  // Arguments are set again after an error, whatever was set before it.
  for (int i = 0; i < 2; ++i) {
    launch(queue(), kernel, Range(8), Range(1), y.data(), int64_t{8}, int64_t{1}, int64_t{1});
    EXPECT_NO_THROW(queue().finish());
    if (i == 0) launch(queue(), kernel, Range(8), Range(1), y.data(), int32_t{8}, int64_t{1}, int64_t{1});
    if (i == 0) EXPECT_THROW(queue().finish(), Error);
  }
  for (const auto& [global, local] : {std::pair{Range(8), Range(3)}, std::pair{Range(1 << 20), Range(1 << 20)}})
    EXPECT_THROW(launch(queue(), kernel, global, local, y.data(), int64_t{8}, int64_t{1}, int64_t{1}), Error);
}

TEST(HostLaunch, CommandsOfOthersOnTheSameQueueKeepTheirPlace) {
  Queue& own = device().new_queue();
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  constexpr size_t n = 100000;
  Array<int> y(n);
  const auto add_one = [&] { launch(own, kernel, Range(n), Range(1), y.data(), int64_t{n}, int64_t{1}, int64_t{1}); };
  own.fill(y.data(), "\0\0\0", 4, n * sizeof(int));
  add_one();
  const cl_command_queue handle = own.share_handle();
  const Location location = locate(y.data());
  const int seven = 7;
  ASSERT_EQ(clEnqueueFillBuffer(handle, location.buffer, &seven, sizeof seven, location.offset, n * sizeof(int), 0, nullptr, nullptr), CL_SUCCESS);
  own.issued();
  add_one();
  ASSERT_EQ(clEnqueueFillBuffer(handle, location.buffer, &seven, sizeof seven, location.offset, sizeof(int), 0, nullptr, nullptr), CL_SUCCESS);
  own.issued();
  own.finish();
  const std::vector<int> host = y.host();
  EXPECT_EQ(host[0], 7);
  EXPECT_TRUE(std::all_of(host.begin() + 1, host.end(), [](int v) { return v == 8; }));
}

TEST(HostLaunch, WritesAreKeptUntilTheirTurn) {
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  for (const size_t n : {size_t{10}, size_t{1000}, size_t{100000}}) {  // below and above what is kept
    Array<int> y(n);
    std::vector<int> value(n, 5);
    queue().write(y.data(), value.data(), n * sizeof(int));
    launch(queue(), kernel, Range(n), Range(1), y.data(), static_cast<int64_t>(n), int64_t{1}, int64_t{1});
    Array<int> copy(n);
    queue().copy(copy.data(), y.data(), n * sizeof(int));
    std::fill(value.begin(), value.end(), 50);  // the caller's from the moment that write() returns
    queue().write(y.data(), value.data(), n * sizeof(int));
    launch(queue(), kernel, Range(n), Range(1), y.data(), static_cast<int64_t>(n), int64_t{1}, int64_t{1});
    std::fill(value.begin(), value.end(), -1);
    const std::vector<int> first = copy.host(), second = y.host();
    EXPECT_TRUE(std::all_of(first.begin(), first.end(), [](int v) { return v == 6; })) << n;
    EXPECT_TRUE(std::all_of(second.begin(), second.end(), [](int v) { return v == 51; })) << n;
  }
}

TEST(HostLaunch, EventsTellTheOrderOfTheirCommands) {
  Array<char> y(1 << 20);
  const Event before = queue().record();
  for (int i = 0; i < 20; ++i) queue().fill(y.data(), "a", 1, 1 << 20);
  const Event after = queue().record();
  after.wait();
  EXPECT_TRUE(before.complete());
  EXPECT_TRUE(after.complete());
  EXPECT_LT(before.end_time(), after.end_time());
  queue().finish();
  EXPECT_TRUE(queue().idle());
}

TEST(HostLaunch, CopiesAndFillsOfEverySize) {
  for (const size_t bytes : {size_t{1}, size_t{5}, size_t{4096}, size_t{65536}, size_t{131072}, size_t{1000003}}) {
    Array<char> from(bytes), to(bytes + 3);
    queue().fill(to.data(), "z", 1, bytes + 3);
    queue().fill(from.data(), "a", 1, bytes);
    if (bytes % 4 == 0) queue().fill(from.data(), "abcd", 4, bytes);
    queue().copy(to.data() + 1, from.data(), bytes);
    std::vector<char> expected(bytes, 'a');
    if (bytes % 4 == 0)
      for (size_t i = 0; i < bytes; ++i) expected[i] = "abcd"[i % 4];
    const std::vector<char> host = to.host();
    EXPECT_EQ(std::vector<char>(host.begin() + 1, host.begin() + 1 + static_cast<std::ptrdiff_t>(bytes)), expected) << bytes;
    EXPECT_EQ(host[0], 'z');
    EXPECT_EQ(host[bytes + 1], 'z');
  }
}

}  // namespace
}  // namespace ocl::testing
