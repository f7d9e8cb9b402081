// When launches run on OpenMP threads (cpu/openmp_sharing.h): every change of state, by a clock that the test moves.
#include "cpu/stopped_clock.h"
#include "support.h"

#include "cpu/openmp_sharing.h"

namespace ocl::testing {
namespace {

using namespace std::chrono_literals;

constexpr float long_launch = 1e5f, short_launch = 1e3f;  // nanoseconds of the leader's own work

class OpenMp : public ::testing::Test {
 protected:
  void SetUp() override {
    spins = true;
    const auto parallel = [](void (*body)(void*), void* context, unsigned) {
      body(context);
      return true;
    };
    share_openmp_threads({parallel, [] { return spins; }});
    sharing.allow(true);
  }
  void TearDown() override { share_openmp_threads({}); }

  void miss(float own_time = long_launch) { sharing.note_launch(true, true, own_time); }
  void start() {
    miss();
    miss();
    ASSERT_TRUE(sharing.on());
  }
  // A launch on the OpenMP threads. `came`: another one than the caller had something to do.
  bool run(bool came) {
    struct Region {
      std::atomic<bool> helped{false};
      bool came;
    } region{.came = came};
    const auto body = [](void* pointer) {
      auto& r = *static_cast<Region*>(pointer);
      r.helped = r.came;
    };
    return sharing.run(body, &region, 2, region.helped);
  }
  // Launches that follow each other without a pause for so long.
  void run_for(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 1ms) {
      clock.pass(1ms);
      if (sharing.next(2) == OpenMpSharing::By::openmp_threads) ASSERT_TRUE(run(true));
    }
  }

  static inline bool spins = true;
  StoppedClock clock;
  OpenMpSharing sharing;
};

TEST_F(OpenMp, BeginsWhenTwoLaunchesInARowWereMissed) {
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::workers);
  miss();
  EXPECT_FALSE(sharing.on());
  miss(short_launch);  // too short to be noticed: says nothing
  EXPECT_FALSE(sharing.on());
  miss();
  EXPECT_TRUE(sharing.on());
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::openmp_threads);
}

TEST_F(OpenMp, AWorkerThatCameOrSleptWasNotKeptAway) {
  miss();
  sharing.note_launch(false, true, long_launch);
  miss();
  EXPECT_FALSE(sharing.on());
  sharing.note_launch(true, false, long_launch);
  miss();
  EXPECT_FALSE(sharing.on());
}

TEST_F(OpenMp, NeedsPermissionAndThreadsThatSpin) {
  sharing.allow(false);
  for (int i = 0; i < 4; ++i) miss();
  EXPECT_FALSE(sharing.on());
  sharing.allow(true);
  spins = false;
  for (int i = 0; i < 4; ++i) miss();
  EXPECT_FALSE(sharing.on());
  spins = true;
  start();
  sharing.allow(false);
  EXPECT_FALSE(sharing.on());
}

TEST_F(OpenMp, APauseEndsItWithoutBlame) {
  start();
  clock.pass(1ms);
  EXPECT_TRUE(run(true));
  clock.pass(3ms);
  EXPECT_FALSE(run(true));  // nothing was done
  EXPECT_FALSE(sharing.on());
  start();
}

TEST_F(OpenMp, ThreadsThatCameTooLateThreeTimesAreLeftAloneForLongerAndLonger) {
  for (const auto pause : {10ms, 20ms, 40ms}) {
    start();
    EXPECT_TRUE(run(false));
    EXPECT_TRUE(run(false));
    EXPECT_TRUE(sharing.on());
    EXPECT_TRUE(run(false));
    EXPECT_FALSE(sharing.on());
    clock.pass(pause - 1ms);
    for (int i = 0; i < 4; ++i) miss();
    EXPECT_FALSE(sharing.on()) << pause.count();
    clock.pass(1ms);
  }
  start();
  EXPECT_TRUE(run(true));  // all is forgotten
  for (int i = 0; i < 3; ++i) run(false);
  clock.pass(10ms);
  start();
}

TEST_F(OpenMp, RestsAfterAPeriodAndGoesOnForTwiceAsLong) {
  start();
  run_for(50ms);
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::openmp_threads);
  run_for(1ms);
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::caller);
  EXPECT_EQ(sharing.next(4), OpenMpSharing::By::workers);
  EXPECT_TRUE(sharing.on());
  for (int i = 0; i < 11; ++i) {
    clock.pass(1ms);
    EXPECT_EQ(sharing.next(2), OpenMpSharing::By::caller) << i;
  }
  clock.pass(1ms);
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::openmp_threads);
  run_for(99ms);
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::openmp_threads);
  run_for(2ms);
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::caller);
}

TEST_F(OpenMp, EndsWhereTheThreadsFallAsleepInTheRest) {
  start();
  run_for(51ms);
  ASSERT_EQ(sharing.next(2), OpenMpSharing::By::caller);
  spins = false;
  clock.pass(1ms);
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::workers);
  EXPECT_FALSE(sharing.on());
}

TEST_F(OpenMp, APauseEndsTheRest) {
  start();
  run_for(51ms);
  ASSERT_EQ(sharing.next(2), OpenMpSharing::By::caller);
  clock.pass(3ms);
  EXPECT_EQ(sharing.next(2), OpenMpSharing::By::workers);
  EXPECT_FALSE(sharing.on());
}

}  // namespace
}  // namespace ocl::testing
