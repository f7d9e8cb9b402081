#include "cpu/command_queue.h"

#include "cpu/decision_clock.h"
#include "cpu/thread_pool.h"
#include "base/os.h"
#include "opencl/part_executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace ocl {

namespace {

using Clock = std::chrono::steady_clock;

// A caller whose queue holds more than this many commands' worth of work helps to drain it: as long as it takes to
// prepare so many commands, within these bounds (nanoseconds of one thread's time). No later than necessary, because
// the worker that drains the queue alone misses the data in the other processors' caches.
constexpr float commands_ahead = 8, least_ahead = 40'000, most_ahead = 200'000;
// Where commands can be fused, the caller helps only when more than this many wait: with fewer, they would be fused in
// twos and threes; with more, the other processors work alone for too long.
constexpr CommandQueue::Ticket fusable_ahead = 8;

// A caller that runs its commands itself (runs_on_caller) collects them first: this many, or this much work
// (nanoseconds of one thread's time). The code that prepares commands then stays in the processor's caches, which large
// operands would evict, and commands can be fused.
constexpr CommandQueue::Ticket batch_commands = 10;
constexpr int64_t batch_time = 1'000'000;

// A caller is *synchronous* if its last three waits each followed at most 2 commands or at most 4 ms.
constexpr unsigned most_unwaited = 2, waits_in_a_row = 3;
constexpr std::chrono::milliseconds longest_unwaited{4};

// Whether the calling thread is synchronous.
struct Waits {
  unsigned unwaited = 0, prompt = 0;  // commands since the last wait; prompt waits in a row
  Clock::time_point since{};          // when the first of these commands was issued

  bool soon() const { return unwaited <= most_unwaited || decision_clock::now() - since <= longest_unwaited; }
  bool issued() {
    if (++unwaited == 1) since = decision_clock::now();
    return prompt >= waits_in_a_row && soon();
  }
  bool waited() {
    if (unwaited) prompt = soon() ? std::min(prompt + 1, waits_in_a_row) : 0;
    unwaited = 0;
    return prompt >= waits_in_a_row;
  }
};
thread_local Waits waits;

// How long the calling thread takes to prepare a command: the longest of the recent times, without waiting and helping.
class Pace {
 public:
  void issued() {
    const Clock::time_point now = Clock::now();
    const float time = std::chrono::duration<float, std::nano>(now - last_).count();
    time_ = std::max(time_ * 0.75f, std::min(time, most_ahead / commands_ahead));
    last_ = now;
  }
  void resume() { last_ = Clock::now(); }
  int64_t far_ahead() const { return static_cast<int64_t>(std::max(time_ * commands_ahead, least_ahead)); }

 private:
  Clock::time_point last_{};
  float time_ = 0;
};
thread_local Pace pace;

// A command that runs longer than this with nothing to do for other threads is compiling a program.
constexpr std::chrono::milliseconds long_command{5};

constexpr CommandQueue::Ticket everything = ~CommandQueue::Ticket{0};

// Prefetches a cache line that will be written.
void prefetch_for_writing(const char* p) {
#if defined(__GNUC__) && defined(__x86_64__)
  // __builtin_prefetch would prefetch for reading, unless the compiler targets processors that have this instruction.
  asm volatile("prefetchw %0" ::"m"(*p));
#elif defined(__GNUC__)
  __builtin_prefetch(p, 1);
#else
  (void)p;
#endif
}

// Whether the calling thread is inside of run_until().
thread_local bool runs_commands = false;

// A driver may start its linker by fork() inside of a command: that fork must not wait for the command.
bool fork_must_wait() { return !os::in_forked_child() && !runs_commands && !ThreadPool::executing(); }

void store(std::vector<std::max_align_t>& to, const void* from, size_t bytes) {
  to.resize((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  if (bytes) std::memcpy(to.data(), from, bytes);
}

}  // namespace

CommandQueue& CommandQueue::instance() {
  static CommandQueue* queue = new CommandQueue(ThreadPool::instance(), 0);
  return *queue;
}

// Calls act(queue) for all command queues of the process.
template <class Act>
void CommandQueue::each(Act act) {
  for (CommandQueue* queue = first_.load(); queue; queue = queue->next_) act(*queue);
}

std::atomic<CommandQueue*> CommandQueue::first_{nullptr};

CommandQueue::CommandQueue(ThreadPool& pool, unsigned order)
    : pool_(pool), slots_(capacity), issued_(first_ticket(order)), done_(first_ticket(order)) {
  if (pool_.workers() > 1)
    pool_.set_worker_1_task([](void* queue) { static_cast<CommandQueue*>(queue)->run_all(); }, this);
  next_ = first_.load();
  while (!first_.compare_exchange_weak(next_, this)) {}
  static const bool once = [] {
    // The drivers' static objects must outlive the commands.
    std::atexit([] {
      if (!os::in_forked_child()) each([](CommandQueue& queue) { queue.wait(queue.issued_.load()); });
    });
    // A command may be loading code, and the loader's lock would stay locked in the child for ever.
    os::around_forks([] { each([](CommandQueue& queue) { queue.hold_for_fork(); }); },
                     [] { each([](CommandQueue& queue) { queue.resume_after_fork(); }); });
    return true;
  }();
  (void)once;
}

CommandQueue::Ticket CommandQueue::issue(float expected, const HostCommand& command, const void* data, size_t bytes,
                                         const Fusion& fusion) {
  std::unique_lock lock(issuing_);
  const Ticket ticket = issued_.load(std::memory_order_relaxed) + 1;
  while (ticket - done_.load(std::memory_order_acquire) > capacity) help();
  Slot& slot = slots_[ticket % capacity];
  slot.run = command.run;
  slot.expected = expected;
  store(slot.command, command.object, command.bytes);
  store(slot.data, data, bytes);
  slot.run_fused = fusion.run;
  if (fusion.run) store(slot.fusion, fusion.data, fusion.bytes);
  expected_issued_.store(expected_issued_.load(std::memory_order_relaxed) + static_cast<int64_t>(expected),
                         std::memory_order_relaxed);
  issued_.store(ticket);
  prepare(slots_[(ticket + 1) % capacity]);
  lock.unlock();
  if (runs_on_caller()) {
    const bool many = ticket - done_.load(std::memory_order_relaxed) >= batch_commands || work_ahead() >= batch_time;
    if (many || pool_.workers() == 1) finish(ticket);
    return ticket;
  }
  if (!running_.load()) pool_.wake_worker_1();
  pool_.make_room_for_worker_1();
  pace.issued();
  bool assisted = false;
  const Ticket few = fusion.run ? fusable_ahead : 0;
  const auto far_ahead = [&] {
    return ticket - done_.load(std::memory_order_relaxed) > few && work_ahead() > pace.far_ahead();
  };
  while (far_ahead() && pool_.assist()) assisted = true;
  if (assisted) pace.resume();
  return ticket;
}

// The slot of the next command was last read by another processor: its cache lines are fetched while the caller
// prepares the command.
void CommandQueue::prepare(const Slot& slot) const {
  const auto fetch = [](const void* from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) prefetch_for_writing(static_cast<const char*>(from) + at);
  };
  fetch(&slot, sizeof slot);
  for (const auto* part : {&slot.command, &slot.data, &slot.fusion})
    fetch(part->data(), part->size() * sizeof(std::max_align_t));
}

// Runs `first` fused with those behind it. Returns the number of commands; 0: nothing was run.
size_t CommandQueue::run_fused(Ticket first) {
  const auto run = slots_[first % capacity].run_fused;
  if (!run) return 0;
  std::array<const void*, Fusion::most> data;
  size_t count = 0;
  for (const Ticket issued = issued_.load(); count < Fusion::most && first + count <= issued; ++count) {
    const Slot& slot = slots_[(first + count) % capacity];
    if (slot.run_fused != run) break;
    data[count] = slot.fusion.data();
  }
  return count < 2 ? 0 : run(data.data(), count);
}

// For the thread that holds running_.
bool CommandQueue::run_next() {
  const Ticket next = done_.load(std::memory_order_relaxed) + 1;
  if (next > issued_.load()) return false;
  size_t count = run_fused(next);
  if (count == 0) {
    Slot& slot = slots_[next % capacity];
    slot.run(slot.command.data(), slot.data.data());
    count = 1;
  }
  int64_t expected = expected_done_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) expected += static_cast<int64_t>(slots_[(next + i) % capacity].expected);
  expected_done_.store(expected, std::memory_order_relaxed);
  done_.store(next + count - 1, std::memory_order_release);
  return true;
}

// Runs commands up to `ticket` unless another thread runs commands. Returns whether it ran any.
bool CommandQueue::run_until(Ticket ticket) {
  if (running_.load(std::memory_order_relaxed) || running_.exchange(true)) return false;
  bool ran = false;
  runs_commands = true;
  while (!done(ticket) && run_next()) ran = true;
  runs_commands = false;
  running_.store(false);
  // Threads that issued commands meanwhile did not wake a worker.
  if (ticket != everything && pool_.workers() > 1 && !done(issued_.load())) pool_.wake_worker_1();
  return ran;
}

// On worker 1. A thread that issues a command while this one leaves may still find running_ set and wake nobody, so it
// looks again.
void CommandQueue::run_all() {
  while (!done(issued_.load()))
    if (!run_until(everything)) return;
}

void CommandQueue::hold_for_fork() {
  if (!fork_must_wait()) return;
  wait(issued_.load());
  while (running_.exchange(true)) std::this_thread::yield();
}

void CommandQueue::resume_after_fork() {
  if (!fork_must_wait()) return;
  running_.store(false);
  if (pool_.workers() > 1 && !done(issued_.load())) pool_.wake_worker_1();
}

void CommandQueue::help() {
  if (run_until(done_.load(std::memory_order_relaxed) + 1) || pool_.assist()) return;
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Whether the caller runs its own commands, not worker 1.
bool CommandQueue::runs_on_caller() {
  if (pool_.workers() == 1) return true;
  const bool prompt = waits.issued();
  if (!pool_.uses_openmp_threads()) return false;
  if (!prompt) pool_.allow_openmp_threads(false);
  return prompt;
}

void CommandQueue::start() {
  if (!done(issued_.load()) && !running_.load() && pool_.workers() > 1) pool_.wake_worker_1();
}

void CommandQueue::wait(Ticket ticket) {
  if (const bool prompt = waits.waited(); ThreadPool::in_main_thread()) pool_.allow_openmp_threads(prompt);
  finish(ticket);
}

void CommandQueue::finish(Ticket ticket) {
  auto busy = Clock::now();
  for (int idle = 0; !done(ticket);) {
    if (run_until(ticket) || pool_.assist()) {
      idle = 0;
      busy = Clock::now();
    } else if (++idle % 64) {
      pause_thread();
    } else if (pool_.assisted() || Clock::now() - busy > long_command) {
      // A busy-wait would take the processor of a thread that has something to do.
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      pool_.make_room_for_worker_1();
      std::this_thread::yield();
    }
  }
  pace.resume();
}

}  // namespace ocl
