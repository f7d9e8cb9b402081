#include "cpu/thread_pool.h"

#include "cpu/openmp_sharing.h"
#include "base/os.h"
#include "base/processors.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace ocl {

namespace {

using Clock = std::chrono::steady_clock;

// A piece should take this long: much longer than enqueuing it (2 us), short against the time slices in which
// processors come and go.
constexpr float piece_time = 40e3f;
// A launch shorter than this is not worth waking a worker for.
constexpr float alone_time = 6e3f;
// As many workers participate as have this much to do each.
constexpr float share_time = 5e3f;
// Upper bound of the estimated lateness of worker 0.
constexpr float latest = 20e3f;
// How long a worker busy-waits for the next launch before it sleeps.
constexpr std::chrono::microseconds spin_time{150};

}  // namespace

void pause_thread() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

namespace {

float nanoseconds(Clock::duration time) { return std::chrono::duration<float, std::nano>(time).count(); }

// One worker's share of the units, [begin, end): its owner takes from the front, others steal from the back.
struct alignas(64) Share {
  std::atomic<uint64_t> range{0};

  static uint64_t packed(uint32_t begin, uint32_t end) { return uint64_t{end} << 32 | begin; }

  // Takes half of what is left, at least `least` units, or all when little more is left.
  bool take(bool front, uint32_t least, uint32_t& begin, uint32_t& end) {
    uint64_t now = range.load(std::memory_order_relaxed);
    for (;;) {
      const auto first = static_cast<uint32_t>(now), last = static_cast<uint32_t>(now >> 32);
      if (first >= last) return false;
      const uint32_t left = last - first,
                     count = left / 3 < least / 2 ? left : std::min(left, std::max(least, (left + 1) / 2));
      begin = front ? first : last - count;
      end = begin + count;
      const uint64_t rest = front ? packed(end, last) : packed(first, begin);
      if (range.compare_exchange_weak(now, rest, std::memory_order_acq_rel, std::memory_order_relaxed)) return true;
    }
  }
};

// One thread of the pool. It waits for a change of `launches`. `processor` is where it last ran: the operating system
// tends to put threads that wake each other (Python's, autograd's, ours) on one processor, and leaves them there for
// many milliseconds while another one is idle.
struct alignas(64) Worker {
  std::atomic<int> launches{0};  // or wake-ups for worker 1's task
  std::atomic<int> thread{0}, processor{-1};
  std::atomic<bool> asleep{false};
  std::atomic<uint32_t> noticed{0};  // the number of the last launch that it saw

  // Returns whether the thread was awake.
  bool wake() {
    launches.fetch_add(1);
    launches.notify_one();
    return !asleep.exchange(false, std::memory_order_relaxed);
  }

  // Moves the thread to another processor if it last ran on this one, where it has to wait for the calling thread.
  void keep_off(int here, const std::vector<int>& processors) {
    if (processor.load(std::memory_order_relaxed) != here) return;
    os::keep_off(thread.load(std::memory_order_relaxed), here, processors);
    processor.store(-1, std::memory_order_relaxed);
  }
};

// The calling thread as a worker: 0 for user threads.
thread_local unsigned this_worker = 0;
thread_local bool in_piece = false;
thread_local const bool is_main_thread = os::thread_id() == os::process_id();

}  // namespace

struct ThreadPool::State {
  State(unsigned workers, const std::vector<int>& processors)
      : processors(processors),
        shares(std::make_unique<Share[]>(workers)),
        threads(std::make_unique<Worker[]>(workers)) {}

  const std::vector<int> processors;  // of the pool's threads; empty: those of the process

  // The launch in progress, written while `inside` is 0.
  Piece piece = nullptr;
  void* context = nullptr;
  unsigned participants = 0, leader = 0;
  uint32_t number = 0;
  std::atomic<float> unit_time{0};
  std::atomic<int32_t> error{0};
  std::unique_ptr<Share[]> shares;
  std::unique_ptr<Worker[]> threads;  // place 0, of user threads, is not used
  // How much later than the others worker 0 comes to a launch that a pool thread leads, because it prepares commands
  // between two launches. Estimated from when it ended.
  float lateness = 0;
  std::atomic<Clock::rep> worker_0_ended{0};  // its last piece of this launch; 0: it had none
  std::atomic<bool> worker_0_in_vain{false};  // it came to this launch and found nothing left

  OpenMpSharing openmp;

  // Each on a cache line of its own, because many threads write them (false sharing).
  alignas(64) std::atomic<bool> open{false};
  alignas(64) std::atomic<int> inside{0};         // workers besides the leader that may be reading the launch
  alignas(64) std::atomic<bool> assisted{false};  // a user thread has the place of worker 0
  std::atomic<void (*)(void*)> worker_1_task{nullptr};
  void* task_context = nullptr;  // written before the task
  std::mutex leading;

  void execute(unsigned worker, uint32_t begin, uint32_t end) {
    const auto start = Clock::now();
    in_piece = true;
    const int32_t code = piece(context, worker, begin, end);
    in_piece = false;
    if (code != 0) {
      int32_t none = 0;
      error.compare_exchange_strong(none, code);
    }
    const auto now = Clock::now();
    unit_time.store(nanoseconds(now - start) / static_cast<float>(end - begin), std::memory_order_relaxed);
    if (worker == 0) worker_0_ended.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }

  uint32_t least() const {
    const float time = unit_time.load(std::memory_order_relaxed);
    return time > 0 ? static_cast<uint32_t>(std::clamp(piece_time / time, 1.0f, 1e9f)) : 1;
  }

  // Gives every worker a share, such that all end at the same time if worker 0 is as late as before.
  void divide(uint32_t units, float expected) {
    uint32_t first = units / participants;
    if (leader && expected > 0) {
      const float late = lateness / expected,
                  average = (static_cast<float>(units) + late) / static_cast<float>(participants);
      first = static_cast<uint32_t>(std::max(average - late + 0.5f, 0.0f));
    }
    shares[0].range.store(Share::packed(0, first), std::memory_order_relaxed);
    for (unsigned i = 1; i < participants; ++i) {
      const uint64_t rest = units - first, sharers = participants - 1;
      const auto begin = first + static_cast<uint32_t>(rest * (i - 1) / sharers),
                 end = first + static_cast<uint32_t>(rest * i / sharers);
      shares[i].range.store(Share::packed(begin, end), std::memory_order_relaxed);
    }
  }

  // Takes the worker's share, then steals from the others. Returns whether there was anything left to do.
  bool work(unsigned worker) {
    uint32_t begin, end;
    bool any = false;
    while (shares[worker].take(true, least(), begin, end)) execute(worker, begin, end), any = true;
    for (unsigned i = 1; i < participants; ++i) {
      Share& other = shares[(worker + i) % participants];
      while (other.take(false, least(), begin, end)) execute(worker, begin, end), any = true;
    }
    return any;
  }

  // Called by the leader: moves any participant that last ran on the leader's processor to another one.
  void make_room() {
    const int here = os::current_processor();
    if (leader) threads[leader].processor.store(here, std::memory_order_relaxed);
    for (unsigned i = 1; i < participants; ++i)
      if (i != leader) threads[i].keep_off(here, processors);
  }

  void serve(unsigned worker) {
    os::name_thread("ocl-host");
    if (processors.empty())
      os::unbind_thread();
    else
      os::bind_thread(processors);
    this_worker = worker;
    Worker& self = threads[worker];
    self.thread.store(os::thread_id());
    for (int seen = 0;;) {
      auto until = Clock::now() + spin_time;
      for (int i = 0; self.launches.load(std::memory_order_acquire) == seen;) {
        pause_thread();
        if (++i % 64) continue;
        self.processor.store(os::current_processor(), std::memory_order_relaxed);
        if (Clock::now() > until || openmp.on()) {
          self.asleep.store(true);
          self.launches.wait(seen);
          self.asleep.store(false, std::memory_order_relaxed);
          break;
        }
        std::this_thread::yield();
      }
      seen = self.launches.load(std::memory_order_acquire);
      inside.fetch_add(1);
      if (open.load() && worker < participants) {
        self.noticed.store(number, std::memory_order_relaxed);
        work(worker);
      }
      inside.fetch_sub(1);
      if (worker == 1)
        if (auto* task = worker_1_task.load(std::memory_order_acquire)) task(task_context);
    }
  }
};

unsigned ThreadPool::wanted() { return processors::pool().threads; }

static std::atomic<unsigned> most_threads{UINT_MAX};

void ThreadPool::set_limit(unsigned threads) {
  if (processors::facts().asked < 0) most_threads.store(threads ? threads : UINT_MAX, std::memory_order_relaxed);
}

ThreadPool& ThreadPool::instance() {
  static ThreadPool* pool = new ThreadPool(std::max(1u, wanted()));
  return *pool;
}

ThreadPool::ThreadPool(unsigned workers, const std::vector<int>& processors)
    : workers_(workers), state_(new State(workers, processors)) {
  for (unsigned i = 1; i < workers; ++i) std::thread([state = state_, i] { state->serve(i); }).detach();
}

int32_t ThreadPool::run(uint32_t units, std::atomic<float>& unit_time, Piece piece, void* context) {
  if (units == 0) return 0;
  const float expected = unit_time.load(std::memory_order_relaxed);
  State& state = *state_;
  std::unique_lock leading(state.leading, std::defer_lock);
  const unsigned most = std::min(workers_, most_threads.load(std::memory_order_relaxed));
  if (most == 1 || units == 1 || (expected > 0 && expected * static_cast<float>(units) < alone_time) ||
      !leading.try_lock()) {
    const auto start = Clock::now();
    const int32_t code = piece(context, workers_, 0, units);
    unit_time.store(nanoseconds(Clock::now() - start) / static_cast<float>(units), std::memory_order_relaxed);
    return code;
  }
  state.piece = piece;
  state.context = context;
  state.leader = this_worker;
  state.participants = std::min(most, units);
  if (expected > 0) {
    const float worth = std::clamp(expected * static_cast<float>(units) / share_time, 2.0f, 1e6f);
    state.participants = std::min(state.participants, static_cast<unsigned>(worth));
  }
  // Pool-led launches reserve a place for an assisting user thread.
  if (state.leader) state.participants = std::min(most, state.participants + 1);
  state.unit_time.store(expected, std::memory_order_relaxed);
  state.error.store(0, std::memory_order_relaxed);
  state.worker_0_ended.store(0, std::memory_order_relaxed);
  state.worker_0_in_vain.store(false, std::memory_order_relaxed);
  state.divide(units, expected);
  if (uses_openmp_threads() && run_on_openmp_threads()) {
    unit_time.store(state.unit_time.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return state.error.load(std::memory_order_relaxed);
  }
  ++state.number;
  bool worker_1_awake = false;
  const auto start = Clock::now();
  state.open.store(true);
  for (unsigned i = 1; i < state.participants; ++i)
    if (i != state.leader && state.threads[i].wake()) worker_1_awake |= i == 1;
  state.make_room();
  state.work(state.leader);
  // Nothing is left to take. Pieces that others have taken are waited for below.
  state.open.store(false);
  const auto own_end = Clock::now();
  if (!state.leader && is_main_thread) {
    const bool missed = state.threads[1].noticed.load(std::memory_order_relaxed) != state.number;
    state.openmp.note_launch(missed, worker_1_awake, nanoseconds(own_end - start));
  }
  for (int i = 1; state.inside.load() != 0; ++i) {
    pause_thread();
    if (i % 256 == 0) std::this_thread::yield();
  }
  if (const Clock::rep ended = state.worker_0_ended.load(std::memory_order_relaxed); ended && state.leader) {
    const float after = nanoseconds(Clock::duration(ended) - own_end.time_since_epoch());
    state.lateness = std::clamp(state.lateness + after / 2, 0.0f, latest);
  } else if (state.worker_0_in_vain.load(std::memory_order_relaxed)) {
    state.lateness /= 2;  // a launch that is shorter than the lateness leaves it no share
  }
  unit_time.store(state.unit_time.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return state.error.load(std::memory_order_relaxed);
}

// Runs the prepared launch on the OpenMP threads. Returns false, with nothing done, where they are not available.
bool ThreadPool::run_on_openmp_threads() {
  State& state = *state_;
  const OpenMpSharing::By by = state.openmp.next(workers_);
  if (by == OpenMpSharing::By::workers) return false;
  if (by == OpenMpSharing::By::caller) {
    state.work(0);
    return true;
  }
  struct Region {
    State& state;
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<unsigned> others{0};
    std::atomic<bool> helped{false};
  } region{state};
  const auto body = [](void* pointer) {
    auto& [state, caller, others, helped] = *static_cast<Region*>(pointer);
    const unsigned worker = std::this_thread::get_id() == caller ? 0 : 1 + others.fetch_add(1);
    if (worker < state.participants && state.work(worker) && worker) helped.store(true, std::memory_order_relaxed);
  };
  return state.openmp.run(body, &region, state.participants, region.helped);
}

bool ThreadPool::uses_openmp_threads() const { return state_->openmp.on() && is_main_thread; }

void ThreadPool::allow_openmp_threads(bool allowed) { state_->openmp.allow(allowed && state_->processors.empty()); }

bool ThreadPool::assist() {
  State& state = *state_;
  if (!state.open.load(std::memory_order_relaxed) || state.assisted.exchange(true)) return false;
  make_room_for_worker_1();
  state.inside.fetch_add(1);
  const bool mine = state.open.load() && state.leader != 0, any = mine && state.work(0);
  if (mine && !any && state.worker_0_ended.load(std::memory_order_relaxed) == 0)
    state.worker_0_in_vain.store(true, std::memory_order_relaxed);
  state.inside.fetch_sub(1);
  state.assisted.store(false);
  return any;
}

bool ThreadPool::in_main_thread() { return is_main_thread; }

bool ThreadPool::executing() { return in_piece; }

bool ThreadPool::assisted() const { return state_->assisted.load(std::memory_order_relaxed); }

void ThreadPool::set_worker_1_task(void (*task)(void*), void* context) {
  state_->task_context = context;
  state_->worker_1_task.store(task, std::memory_order_release);
}

void ThreadPool::wake_worker_1() { state_->threads[1].wake(); }

void ThreadPool::make_room_for_worker_1() {
  if (workers_ > 1) state_->threads[1].keep_off(os::current_processor(), state_->processors);
}

}  // namespace ocl
