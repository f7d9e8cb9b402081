#include "cpu/command_queue.h"

#include "cpu/thread_pool.h"
#include "base/os.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace ocl {

namespace {

using Clock = std::chrono::steady_clock;

// A caller that is far ahead takes part in the work: in nanoseconds of one thread's time, what is needed for preparing
// this many more commands, within these bounds. Not later than necessary: what one processor does alone meanwhile, it
// does with the data of the others' caches.
constexpr float commands_ahead = 8, least_ahead = 40'000, most_ahead = 200'000;
// So many commands that can be joined wait for each other before their caller takes part: fewer are joined in twos and
// threes, more leave the other processors alone with the work for too long.
constexpr CommandQueue::Ticket joined_ahead = 8;

// Commands that their caller runs by itself (runs_at_once) are issued in tens before it does, up to so much of one
// thread's time in nanoseconds: what prepares the next command then stays in the processor's caches, which large
// operands take up, and what can be joined is.
constexpr CommandQueue::Ticket held_commands = 10;
constexpr int64_t held_time = 1'000'000;

// A caller waits soon when it issued at most so many commands, or for at most so long, before each of its last waits.
constexpr unsigned most_unwaited = 2, patterns = 3;
constexpr std::chrono::milliseconds longest_unwaited{4};

// How the calling thread waits for what it issues.
struct Waits {
  unsigned unwaited = 0, prompt = 0;  // commands since the last wait; waits in a row that came soon
  Clock::time_point since{};          // the first of these commands

  bool soon() const { return unwaited <= most_unwaited || Clock::now() - since <= longest_unwaited; }
  bool issued() {
    if (++unwaited == 1) since = Clock::now();
    return prompt >= patterns && soon();
  }
  bool waited() {
    if (unwaited) prompt = soon() ? std::min(prompt + 1, patterns) : 0;
    unwaited = 0;
    return prompt >= patterns;
  }
};
thread_local Waits waits;

// How long the calling thread takes to prepare a command: the longest of the recent times, waiting and taking part not
// counted.
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

// A command that runs longer than this without a part for others is a program being compiled.
constexpr std::chrono::milliseconds long_command{5};

constexpr CommandQueue::Ticket everything = ~CommandQueue::Ticket{0};

// Asks for a line of memory that will be written.
void prefetch_for_writing(const char* p) {
#if defined(__GNUC__) && defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(
      *p));  // __builtin_prefetch would ask for a line to read, unless the compiler is told of such processors
#elif defined(__GNUC__)
  __builtin_prefetch(p, 1);
#else
  (void)p;
#endif
}

// Whether the calling thread is inside of run_until().
thread_local bool runs_commands = false;

// A driver may start its linker by a fork in the middle of a command, which must not wait for that command.
bool fork_concerns_us() { return !os::in_forked_child() && !runs_commands && !ThreadPool::executing(); }

void store(std::vector<std::max_align_t>& to, const void* from, size_t bytes) {
  to.resize((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  if (bytes) std::memcpy(to.data(), from, bytes);
}

}  // namespace

CommandQueue& CommandQueue::instance() {
  static CommandQueue* backlog = new CommandQueue;
  return *backlog;
}

CommandQueue::CommandQueue() : team_(ThreadPool::instance()), slots_(capacity) {
  if (team_.members() > 1) team_.set_first_work([] { instance().run_all(); });
  // The drivers' static objects must outlive the commands.
  std::atexit([] {
    if (CommandQueue& backlog = instance(); !os::in_forked_child()) backlog.wait(backlog.issued_.load());
  });
  // A command may be loading code: the loader's lock would stay locked in the child for ever.
  os::around_forks([] { instance().hold(); }, [] { instance().let_go(); });
}

CommandQueue::Ticket CommandQueue::issue(float expected, Run run, const void* command, size_t command_bytes,
                                         const void* data, size_t data_bytes, const Joint& joint) {
  std::unique_lock lock(issuing_);
  const Ticket ticket = issued_.load(std::memory_order_relaxed) + 1;
  while (ticket - done_.load(std::memory_order_acquire) > capacity) help();
  Slot& slot = slots_[ticket % capacity];
  slot.run = run;
  slot.expected = expected;
  store(slot.command, command, command_bytes);
  store(slot.data, data, data_bytes);
  slot.run_joined = joint.run;
  if (joint.run) store(slot.joint, joint.data, joint.bytes);
  expected_issued_.store(expected_issued_.load(std::memory_order_relaxed) + static_cast<int64_t>(expected),
                         std::memory_order_relaxed);
  issued_.store(ticket);
  prepare(slots_[(ticket + 1) % capacity]);
  lock.unlock();
  if (runs_at_once()) {
    const bool many = ticket - done_.load(std::memory_order_relaxed) >= held_commands || work_ahead() >= held_time;
    if (many || team_.members() == 1) finish(ticket);
    return ticket;
  }
  if (!running_.load()) team_.call_first();
  team_.make_room_for_first();
  pace.issued();
  bool assisted = false;
  const Ticket few = joint.run ? joined_ahead : 0;
  const auto far_ahead = [&] {
    return ticket - done_.load(std::memory_order_relaxed) > few && work_ahead() > pace.far_ahead();
  };
  while (far_ahead() && team_.assist()) assisted = true;
  if (assisted) pace.resume();
  return ticket;
}

// The next command will be written where another processor has read: its cache is asked for these lines while the
// caller prepares the command.
void CommandQueue::prepare(const Slot& slot) const {
  const auto fetch = [](const void* from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) prefetch_for_writing(static_cast<const char*>(from) + at);
  };
  fetch(&slot, sizeof slot);
  for (const auto* part : {&slot.command, &slot.data, &slot.joint})
    fetch(part->data(), part->size() * sizeof(std::max_align_t));
}

// The number of commands, `first` and those behind it, that were run together; 0: none.
size_t CommandQueue::run_joined(Ticket first) {
  const auto run = slots_[first % capacity].run_joined;
  if (!run) return 0;
  std::array<const void*, most_joined> data;
  size_t count = 0;
  for (const Ticket issued = issued_.load(); count < most_joined && first + count <= issued; ++count) {
    const Slot& slot = slots_[(first + count) % capacity];
    if (slot.run_joined != run) break;
    data[count] = slot.joint.data();
  }
  return count < 2 ? 0 : run(data.data(), count);
}

// The caller holds running_.
bool CommandQueue::run_next() {
  const Ticket next = done_.load(std::memory_order_relaxed) + 1;
  if (next > issued_.load()) return false;
  size_t count = run_joined(next);
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

// Runs commands up to `ticket` unless somebody else does. Returns whether it ran any.
bool CommandQueue::run_until(Ticket ticket) {
  if (running_.load(std::memory_order_relaxed) || running_.exchange(true)) return false;
  bool ran = false;
  runs_commands = true;
  while (!done(ticket) && run_next()) ran = true;
  runs_commands = false;
  running_.store(false);
  // What others have issued meanwhile they have left to us.
  if (ticket != everything && team_.members() > 1 && !done(issued_.load())) team_.call_first();
  return ran;
}

// On the first thread of the team. Who issues a command while it is leaving may still find running_ set: it looks
// again.
void CommandQueue::run_all() {
  while (!done(issued_.load()))
    if (!run_until(everything)) return;
}

void CommandQueue::hold() {
  if (!fork_concerns_us()) return;
  wait(issued_.load());
  while (running_.exchange(true)) std::this_thread::yield();
}

void CommandQueue::let_go() {
  if (!fork_concerns_us()) return;
  running_.store(false);
  if (team_.members() > 1 && !done(issued_.load())) team_.call_first();
}

void CommandQueue::help() {
  if (run_until(done_.load(std::memory_order_relaxed) + 1) || team_.assist()) return;
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool CommandQueue::runs_at_once() {
  if (team_.members() == 1) return true;
  const bool prompt = waits.issued();
  if (!team_.borrows()) return false;
  if (!prompt) team_.allow_borrowing(false);
  return prompt;
}

void CommandQueue::start() {
  if (!done(issued_.load()) && !running_.load() && team_.members() > 1) team_.call_first();
}

void CommandQueue::wait(Ticket ticket) {
  if (const bool prompt = waits.waited(); ThreadPool::in_main_thread()) team_.allow_borrowing(prompt);
  finish(ticket);
}

void CommandQueue::finish(Ticket ticket) {
  auto busy = Clock::now();
  for (int idle = 0; !done(ticket);) {
    if (run_until(ticket) || team_.assist()) {
      idle = 0;
      busy = Clock::now();
    } else if (++idle % 64) {
      pause_thread();
    } else if (team_.assisted() || Clock::now() - busy > long_command) {
      std::this_thread::sleep_for(std::chrono::microseconds(
          50));  // spinning would take the processor of another thread that has something to do
    } else {
      team_.make_room_for_first();
      std::this_thread::yield();
    }
  }
  pace.resume();
}

}  // namespace ocl
