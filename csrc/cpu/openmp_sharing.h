// When launches of the main thread are run by the threads of another library (ThreadPool::Lender): while those spin and
// keep the team's own from their processors. Called by the main thread, except for on().
#pragma once

#include "cpu/thread_pool.h"

#include <atomic>
#include <chrono>

namespace ocl {

class OpenMpSharing {
 public:
  OpenMpSharing();
  static void set_lender(const ThreadPool::Lender& lender);

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void allow(bool allowed);  // ThreadPool::allow_borrowing

  // A launch that the caller led, with `own_time` nanoseconds of its own work. `missed`: the team's first thread did
  // not see it, though it was `awake` when it was called, or not.
  void note_launch(bool missed, bool awake, float own_time);

  // Who runs the next launch: the team, the other threads with the caller, or the caller alone while they have a rest.
  enum class By { team, others, caller };
  By next(unsigned members);

  // Calls body(context) on `members` of the other threads, the caller being one of them; body sets `helped` when
  // another one had something to do. Returns false, with nothing done, where they are not to be had.
  bool run(void (*body)(void*), void* context, unsigned members, const std::atomic<bool>& helped);

 private:
  using Clock = std::chrono::steady_clock;

  void stop(Clock::duration pause);
  bool rests();

  std::atomic<bool> allowed_{false}, on_{false};
  bool resting_ = false;
  int starved_ = 0, failures_ = 0;                     // launches in a row
  Clock::time_point since_{}, last_{}, distrusted_{};  // distrusted_: not to be tried before
  Clock::time_point resting_since_{}, asked_{};
  Clock::duration distrust_, period_;
};

}  // namespace ocl
