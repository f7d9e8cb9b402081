#include "cpu/openmp_sharing.h"

#include "cpu/decision_clock.h"

#include <algorithm>

namespace ocl {

namespace {

// A worker that is awake sees a launch that takes its leader this long (nanoseconds).
constexpr float notice_time = 4e3f;
// OpenMP threads are tried when worker 1, though awake, missed this many launches in a row.
constexpr int most_missed = 2;
// OpenMP threads that had nothing to do for this long are asleep.
constexpr std::chrono::milliseconds falls_asleep{2};
// When they came too late this often in a row, they are not tried again for a time, which doubles with every further
// failure from the first of these to the second.
constexpr int most_failures = 3;
constexpr std::chrono::milliseconds least_retry_after{10}, most_retry_after{1000};
// Our launches keep the OpenMP threads awake. A pause of falls_asleep ends that, so that a caller with few launches
// does not wake them for each, while autograd's thread needs the processor. After a period of launches without a pause,
// the OpenMP threads are left alone, so that they fall asleep where only we use them: our workers are better. With two
// workers the caller then runs its launches alone, because the other worker would compete with the spinning OpenMP
// thread. Where they have not fallen asleep after `longest_rest`, the period doubles, from the first of these to the
// second.
constexpr std::chrono::milliseconds least_period{50}, most_period{400}, longest_rest{12};
// While they rest, they are asked this often whether they still spin.
constexpr std::chrono::microseconds question_time{300};

std::atomic<const OpenMpThreads*> openmp{nullptr};

}  // namespace

void share_openmp_threads(const OpenMpThreads& threads) {
  openmp.store(threads.parallel ? new OpenMpThreads(threads) : nullptr);
}

OpenMpSharing::OpenMpSharing() : retry_after_(least_retry_after), period_(least_period) {}

void OpenMpSharing::allow(bool allowed) {
  allowed_.store(allowed, std::memory_order_relaxed);
  if (!allowed && on()) stop(longest_rest);
}

void OpenMpSharing::stop(Clock::duration pause) {
  resting_ = false;
  on_.store(false, std::memory_order_relaxed);
  not_before_ = decision_clock::now() + pause;
}

void OpenMpSharing::note_launch(bool missed, bool awake, float own_time) {
  if (!missed || own_time >= notice_time) missed_ = missed && awake ? missed_ + 1 : 0;
  const OpenMpThreads* threads = openmp.load();
  if (missed_ == 0 || !allowed_.load(std::memory_order_relaxed) || !threads || resting_) return;
  const auto now = decision_clock::now();
  if (now < not_before_) return;
  const bool spinning = !threads->spinning || threads->spinning();  // asked after every missed launch
  if (missed_ < most_missed) return;
  missed_ = 0;
  if (!spinning) return;
  period_ = least_period;
  since_ = last_ = now;
  on_.store(true, std::memory_order_relaxed);
}

OpenMpSharing::By OpenMpSharing::next(unsigned workers) {
  if (rests()) return workers == 2 ? By::caller : By::workers;
  return on() ? By::openmp_threads : By::workers;
}

// Whether the OpenMP threads are still left alone.
bool OpenMpSharing::rests() {
  if (!resting_) return false;
  const auto now = decision_clock::now();
  const bool paused = now - last_ > falls_asleep, ask = now - asked_ >= question_time;
  last_ = now;
  if (ask) asked_ = now;
  if (paused || (ask && !openmp.load()->spinning())) {
    stop({});
    return false;
  }
  if (now - resting_since_ < longest_rest) return true;
  resting_ = false;
  since_ = now;
  period_ = std::min<Clock::duration>(2 * period_, most_period);
  return false;
}

bool OpenMpSharing::run(void (*body)(void*), void* context, unsigned threads, const std::atomic<bool>& helped) {
  const OpenMpThreads& from = *openmp.load();
  const auto start = decision_clock::now();
  const bool fresh = start - last_ <= falls_asleep;
  const bool done = fresh && from.parallel(body, context, threads);
  const auto now = last_ = decision_clock::now();
  if (helped) {
    failures_ = 0;
    retry_after_ = least_retry_after;
    if (now - since_ <= period_) return true;
    if (!from.spinning)
      stop(longest_rest);
    else
      resting_ = true, resting_since_ = asked_ = now, from.spinning();
    return true;
  }
  if (done && ++failures_ < most_failures) return true;
  failures_ = 0;
  on_.store(false, std::memory_order_relaxed);
  if (fresh) {
    not_before_ = now + retry_after_;
    retry_after_ = std::min<Clock::duration>(2 * retry_after_, most_retry_after);
  }
  return done;
}

}  // namespace ocl
