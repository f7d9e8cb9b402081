// Commands issued to devices whose commands run on threads of this process (cpu_executor.h), in the order of issue, for
// all their queues.
//
// They are run by the first thread of the team (thread_pool.h) while the caller prepares the next ones. A caller that
// waits for a command takes part: it runs the commands ahead of it itself when nobody does, or joins the launch that is
// being run. So does a caller that is far enough ahead. Where the team has one member a command is run when it is
// issued; where the caller's own thread has to run them (ThreadPool::borrows), when some have been issued or one is
// waited for.
//
// Commands that wait one behind another can be run together, where they say how (Joint).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <vector>

namespace ocl {

class ThreadPool;

class CommandQueue {
 public:
  // Counts commands; all with a number up to done() have ended. 0: no command.
  using Ticket = uint64_t;

  // How a command is run together with those behind it that have the same `run`.
  struct Joint {
    // Runs the first of `count` (at least two) commands, given what each left as `data`, and as many of those behind it
    // as go with it. Returns their number; 0: nothing was done, the first is to be run by itself. Must not throw.
    size_t (*run)(const void* const* data, size_t count) = nullptr;
    const void* data = nullptr;  // copied
    size_t bytes = 0;
  };
  static constexpr size_t most_joined = 12;

  // The backlog of this process; lives until the process ends, and is empty when its static objects are destroyed.
  static CommandQueue& instance();

  // Issues `command(data)`, a trivially copyable function object, and a copy of `data` for it. `expected`: nanoseconds
  // of one thread's time that it will take; 0: unknown. Must not throw, nor be called by a command.
  template <class Command>
  Ticket issue(float expected, const Command& command, const void* data = nullptr, size_t bytes = 0,
               const Joint& joint = {}) {
    static_assert(std::is_trivially_copyable_v<Command> && alignof(Command) <= alignof(std::max_align_t));
    const auto run = [](void* object, const void* data) { (*static_cast<const Command*>(object))(data); };
    return issue(expected, run, &command, sizeof(Command), data, bytes, joint);
  }

  bool done(Ticket ticket) const { return done_.load(std::memory_order_acquire) >= ticket; }
  // The same for callers that ask until it is: what has been issued is begun.
  bool complete(Ticket ticket) {
    if (done(ticket)) return true;
    start();
    return false;
  }
  // Has somebody run what has been issued.
  void start();
  void wait(Ticket ticket);

  CommandQueue(const CommandQueue&) = delete;

 private:
  using Run = void (*)(void* command, const void* data);
  struct Slot {
    Run run = nullptr;
    float expected = 0;
    size_t (*run_joined)(const void* const* data, size_t count) = nullptr;
    std::vector<std::max_align_t> command, data, joint;  // their capacity stays
  };

  CommandQueue();
  Ticket issue(float expected, Run run, const void* command, size_t command_bytes, const void* data, size_t data_bytes,
               const Joint& joint);
  size_t run_joined(Ticket first);
  bool runs_at_once();
  void finish(Ticket ticket);
  int64_t work_ahead() const {
    return expected_issued_.load(std::memory_order_relaxed) - expected_done_.load(std::memory_order_relaxed);
  }
  void prepare(const Slot& slot) const;
  bool run_next();
  bool run_until(Ticket ticket);
  void run_all();
  void help();
  void hold();
  void let_go();

  static constexpr size_t capacity = 256;

  ThreadPool& team_;
  std::vector<Slot> slots_;
  alignas(64) std::mutex issuing_;  // by whom the commands are issued, apart from what those read who run them
  alignas(64) std::atomic<Ticket> issued_{0};
  std::atomic<int64_t> expected_issued_{0};  // of all commands
  alignas(64) std::atomic<Ticket> done_{0};
  std::atomic<int64_t> expected_done_{0};
  alignas(64) std::atomic<bool> running_{false};  // somebody runs commands and will look for further ones
};

}  // namespace ocl
