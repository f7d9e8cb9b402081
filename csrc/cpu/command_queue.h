// The command queue of the CPU executor: one for this process, so that commands of all queues and devices run in the
// order of issue. A device that is a part of a CPU (base/cpu_parts.h) has a pool and a command queue of its own: the
// parts work at the same time.
//
// A caller should prepare the next command while the last one runs, and should not be slower than a plain function call
// where it waits at once. So commands are run by one of these:
//   - worker 1 of the thread pool (thread_pool.h), while the caller prepares further commands;
//   - the caller, when it waits: it runs the commands ahead of the one it waits for, or joins the launch in progress;
//   - the caller, when the queue holds more than about eight commands' worth of work: it helps to drain it;
//   - the caller, at issue, when the pool has one worker;
//   - the caller, after about ten commands or when it waits, while it uses the threads of an OpenMP library
//     (openmp_sharing.h).
// Commands that wait one behind another may be fused (Fusion in opencl/executor.h).
#pragma once

#include "opencl/executor.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ocl {

class ThreadPool;

class CommandQueue {
 public:
  // Numbers commands; all with a number up to done() have ended. 0: no command.
  using Ticket = Executor::Ticket;

  // The command queue of this process. Lives until the process ends, and is empty when its static objects are
  // destroyed.
  static CommandQueue& instance();
  // One of its own for a pool that has none; lives likewise. `order`: part_executor.h.
  CommandQueue(ThreadPool& pool, unsigned order);

  // As Executor::submit.
  Ticket issue(float expected, const HostCommand& command, const void* data = nullptr, size_t bytes = 0,
               const Fusion& fusion = {});

  bool done(Ticket ticket) const { return done_.load(std::memory_order_acquire) >= ticket; }
  // The same for callers that ask until it is: what has been issued is begun.
  bool complete(Ticket ticket) {
    if (done(ticket)) return true;
    start();
    return false;
  }
  // Wakes a worker for what has been issued.
  void start();
  void wait(Ticket ticket);

  CommandQueue(const CommandQueue&) = delete;

 private:
  struct Slot {
    void (*run)(void* command, const void* data) = nullptr;
    float expected = 0;
    size_t (*run_fused)(const void* const* data, size_t count) = nullptr;
    std::vector<std::max_align_t> command, data, fusion;  // their capacity stays
  };

  size_t run_fused(Ticket first);
  bool runs_on_caller();
  void finish(Ticket ticket);
  int64_t work_ahead() const {
    return expected_issued_.load(std::memory_order_relaxed) - expected_done_.load(std::memory_order_relaxed);
  }
  void prepare(const Slot& slot) const;
  bool run_next();
  bool run_until(Ticket ticket);
  void run_all();
  void help();
  void hold_for_fork();
  void resume_after_fork();

  template <class Act>
  static void each(Act act);

  static constexpr size_t capacity = 256;

  static std::atomic<CommandQueue*> first_;  // of all of the process, which next_ links
  CommandQueue* next_ = nullptr;
  ThreadPool& pool_;
  std::vector<Slot> slots_;
  // On cache lines of their own (no false sharing): what the issuing thread writes, and what the running thread writes.
  alignas(64) std::mutex issuing_;
  alignas(64) std::atomic<Ticket> issued_{0};
  std::atomic<int64_t> expected_issued_{0};  // nanoseconds, sum over all commands
  alignas(64) std::atomic<Ticket> done_{0};
  std::atomic<int64_t> expected_done_{0};
  alignas(64) std::atomic<bool> running_{false};  // a thread runs commands and will look for further ones
};

}  // namespace ocl
