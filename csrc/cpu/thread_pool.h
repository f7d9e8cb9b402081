// The thread pool of the CPU executor, with work stealing.
//
// Why not the driver's own threads: it has to wake them for every kernel, and the host when they have ended. That takes
// tens of microseconds, longer than most kernels of a small network run. Here the thread that runs a launch works on it
// like every other worker and returns when all units are done, as a parallel loop of a CPU library does. Workers
// busy-wait for a moment after each launch before they sleep. Worker 1 also runs the command queue (command_queue.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace ocl {

// The processor's pause instruction, for busy-waits.
void pause_thread();

class ThreadPool {
 public:
  // Executes units [begin, end) of a launch; called at the same time by several workers. Returns an OpenCL error code.
  using Piece = int32_t (*)(void* context, unsigned worker, uint32_t begin, uint32_t end);

  // The pool of this process, with as many workers as base/processors.h says. Lives until the process ends.
  static ThreadPool& instance();
  // The number of workers that instance() has; 0 when such devices are not to be used.
  static unsigned wanted();

  // The most threads that launches from now on may use; 0: all. Ignored where TORCH_OCL_HOST_THREADS says how many.
  static void set_limit(unsigned threads);

  // Worker 0 is the user thread that leads or assists a launch, the others are threads of the pool.
  unsigned workers() const { return workers_; }

  // Executes all of [0, units) and returns the first error. Every worker has a share of its own, which is the same in
  // every launch of as many units, because its data may still be in that processor's cache. It takes its share in
  // pieces of falling size, then steals from the others' shares. `unit_time`: nanoseconds that one unit took last time
  // (0: unknown), for the size of pieces; updated. While another thread leads a launch, the caller does everything
  // itself, as worker `workers()`.
  int32_t run(uint32_t units, std::atomic<float>& unit_time, Piece piece, void* context);

  // The calling user thread works on the launch that a pool thread leads at this moment, as worker 0. Returns whether
  // there was anything to do.
  bool assist();
  bool assisted() const;  // whether a user thread does so at this moment
  static bool in_main_thread();
  // Whether the calling thread is inside of a piece.
  static bool executing();

  // Whether launches of the main thread may run on OpenMP threads (openmp_sharing.h), which keeps those awake. Allowed
  // for a synchronous main thread; others gain more by preparing commands while worker 1 runs them. For the main
  // thread.
  void allow_openmp_threads(bool allowed);
  // Whether launches of the calling thread do: it should then run its commands itself.
  bool uses_openmp_threads() const;

  // `task` runs on worker 1, soon after every wake_worker_1(), never twice at the same time. Needs two workers.
  void set_worker_1_task(void (*task)(void* context), void* context);
  void wake_worker_1();
  // Moves worker 1, where there is one, to another processor if it last ran on the caller's.
  void make_room_for_worker_1();

  // A pool of its own; like instance() it is never destroyed. Its threads run on these processors only (empty: on all
  // of the process); then it does not use OpenMP threads, which run anywhere.
  explicit ThreadPool(unsigned workers, const std::vector<int>& processors = {});
  ThreadPool(const ThreadPool&) = delete;

 private:
  struct State;
  bool run_on_openmp_threads();

  unsigned workers_;
  State* state_;
};

}  // namespace ocl
