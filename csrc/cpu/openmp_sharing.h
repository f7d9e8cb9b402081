// Running launches on the threads of an OpenMP library in the same process.
//
// After a parallel region, PyTorch's OpenMP pool busy-waits for milliseconds. Our workers then get no processor: a
// program that alternates between CPU and OpenCL operators would run each launch on one core. So while the OpenMP pool
// busy-waits, launches of a synchronous main thread (command_queue.h) run on the OpenMP threads.
//
//   state     launches run on         next state
//   off       our workers             on: worker 1, though awake, missed two launches in a row while OpenMP threads
//   spun on        the OpenMP threads      off: they came too late three times in a row, or the caller paused for 2 ms
//   or is
//                                     not synchronous any more; resting: a period (50 to 400 ms) is over
//   resting   our workers; with two   off: the OpenMP threads fell asleep, or the caller paused; on: after 12 ms
//             workers the caller alone
//
// For the main thread, except for on().
#pragma once

#include "opencl/executor.h"

#include <atomic>
#include <chrono>

namespace ocl {

class OpenMpSharing {
 public:
  OpenMpSharing();

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void allow(bool allowed);  // ThreadPool::allow_openmp_threads

  // After a launch that the caller led, with `own_time` nanoseconds of its own work. `missed`: worker 1 did not see it;
  // `awake`: it was awake when it was woken.
  void note_launch(bool missed, bool awake, float own_time);

  // Who runs the next launch.
  enum class By { workers, openmp_threads, caller };
  By next(unsigned workers);

  // Calls body(context) on `threads` OpenMP threads, the caller being one of them; body sets `helped` when another one
  // had something to do. Returns false, with nothing done, where the threads are not available.
  bool run(void (*body)(void*), void* context, unsigned threads, const std::atomic<bool>& helped);

 private:
  using Clock = std::chrono::steady_clock;

  void stop(Clock::duration pause);
  bool rests();

  std::atomic<bool> allowed_{false}, on_{false};
  bool resting_ = false;
  int missed_ = 0, failures_ = 0;                      // launches in a row
  Clock::time_point since_{}, last_{}, not_before_{};  // of the period, of the last launch, of the next attempt
  Clock::time_point resting_since_{}, asked_{};
  Clock::duration retry_after_, period_;
};

}  // namespace ocl
