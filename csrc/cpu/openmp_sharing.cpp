#include "cpu/openmp_sharing.h"

#include <algorithm>

namespace ocl {

namespace {

// A launch that takes its leader this long should have been noticed by the others.
constexpr float notice_time = 4e3f;
// After so many launches in a row of which the first thread has not noticed anything, though it was awake, another
// library's threads are tried.
constexpr int starved_launches = 2;
// Those are asleep when they had nothing to do for this long. When they came too late this often in a row they are not
// tried for the first of these times, twice as long every further time up to the last.
constexpr int most_failures = 3;
constexpr std::chrono::milliseconds falls_asleep{2}, least_distrust{10}, most_distrust{1000};
// OpenMpSharing keeps them awake. It ends with a pause of that time, so that a caller with few launches does not wake
// them for every one, while autograd's thread wants the processor. After a time of launches without a pause they are
// given a rest, in which they fall asleep when nobody else uses them: the team's own are better. A team of two runs its
// launches by the caller alone meanwhile, because its other thread would keep them from spinning to their end. Where
// they have not fallen asleep after `longest_rest` the time doubles, from the first of these to the second. How they
// are is asked for every `question_time`.
constexpr std::chrono::milliseconds least_period{50}, most_period{400}, longest_rest{12};
constexpr std::chrono::microseconds question_time{300};

std::atomic<const ThreadPool::Lender*> lender{nullptr};

}  // namespace

OpenMpSharing::OpenMpSharing() : distrust_(least_distrust), period_(least_period) {}

void OpenMpSharing::set_lender(const ThreadPool::Lender& given) {
  lender.store(given.parallel ? new ThreadPool::Lender(given) : nullptr);
}

void OpenMpSharing::allow(bool allowed) {
  allowed_.store(allowed, std::memory_order_relaxed);
  if (!allowed && on()) stop(longest_rest);
}

void OpenMpSharing::stop(Clock::duration pause) {
  resting_ = false;
  on_.store(false, std::memory_order_relaxed);
  distrusted_ = Clock::now() + pause;
}

void OpenMpSharing::note_launch(bool missed, bool awake, float own_time) {
  if (!missed || own_time >= notice_time) starved_ = missed && awake ? starved_ + 1 : 0;
  const ThreadPool::Lender* from = lender.load();
  if (starved_ == 0 || !allowed_.load(std::memory_order_relaxed) || !from || resting_) return;
  const auto now = Clock::now();
  if (now < distrusted_) return;
  const bool spinning = !from->spinning || from->spinning();  // since it was called after the launch before
  if (starved_ < starved_launches) return;
  starved_ = 0;
  if (!spinning) return;
  period_ = least_period;
  since_ = last_ = now;
  on_.store(true, std::memory_order_relaxed);
}

OpenMpSharing::By OpenMpSharing::next(unsigned members) {
  if (rests()) return members == 2 ? By::caller : By::team;
  return on() ? By::others : By::team;
}

// Whether they are still being left alone.
bool OpenMpSharing::rests() {
  if (!resting_) return false;
  const auto now = Clock::now();
  const bool paused = now - last_ > falls_asleep, ask = now - asked_ >= question_time;
  last_ = now;
  if (ask) asked_ = now;
  if (paused || (ask && !lender.load()->spinning())) {
    stop({});
    return false;
  }
  if (now - resting_since_ < longest_rest) return true;
  resting_ = false;
  since_ = now;
  period_ = std::min<Clock::duration>(2 * period_, most_period);
  return false;
}

bool OpenMpSharing::run(void (*body)(void*), void* context, unsigned members, const std::atomic<bool>& helped) {
  const ThreadPool::Lender& from = *lender.load();
  const auto start = Clock::now();
  const bool fresh = start - last_ <= falls_asleep;
  const bool done = fresh && from.parallel(body, context, members);
  const auto now = last_ = Clock::now();
  if (helped) {
    failures_ = 0;
    distrust_ = least_distrust;
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
    distrusted_ = now + distrust_;
    distrust_ = std::min<Clock::duration>(2 * distrust_, most_distrust);
  }
  return done;
}

}  // namespace ocl
