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
// A launch shorter than this is not worth waking anybody for.
constexpr float alone_time = 6e3f;
// Members take part as long as each has this much to do.
constexpr float share_time = 5e3f;
// Member 0 is not taken to be later than this.
constexpr float latest = 20e3f;
// How long a member spins for the next launch before it sleeps.
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

// One member's share of the units, [begin, end), taken from the front by its owner and from the back by others.
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

// One thread of the team. It waits for a change of `launches`. Where it was seen last: the system tends to put the
// threads of a process that wake each other (Python's, autograd's, ours) on one processor and to leave them there for
// many milliseconds while another one is idle.
struct alignas(64) Member {
  std::atomic<int> launches{0};  // or calls of the first's own work
  std::atomic<int> thread{0}, processor{-1};
  std::atomic<bool> asleep{false};   // until somebody calls
  std::atomic<uint32_t> noticed{0};  // the number of the launch that it was seen in last

  // Returns whether the thread was awake.
  bool call() {
    launches.fetch_add(1);
    launches.notify_one();
    return !asleep.exchange(false, std::memory_order_relaxed);
  }

  // Sends the thread away from this processor, where it could not run before the calling thread is done.
  void keep_off(int here) {
    if (processor.load(std::memory_order_relaxed) != here) return;
    os::keep_off(thread.load(std::memory_order_relaxed), here);
    processor.store(-1, std::memory_order_relaxed);
  }
};

// The calling thread as a member: 0 for threads of the program.
thread_local unsigned this_member = 0;
thread_local bool in_piece = false;
thread_local const bool is_main_thread = os::thread_id() == os::process_id();

}  // namespace

struct ThreadPool::State {
  explicit State(unsigned members)
      : shares(std::make_unique<Share[]>(members)), others(std::make_unique<Member[]>(members)) {}

  // The launch in work, written while nobody is inside.
  Piece piece = nullptr;
  void* context = nullptr;
  unsigned participants = 0, leader = 0;
  uint32_t number = 0;
  std::atomic<float> unit_time{0};
  std::atomic<int32_t> error{0};
  std::unique_ptr<Share[]> shares;
  std::unique_ptr<Member[]> others;  // without member 0, threads of the program
  // How much later than the others member 0 comes to a launch that another leads, because it prepares further ones
  // between two; estimated from when it has ended.
  float lateness = 0;
  std::atomic<Clock::rep> first_ended{0};  // member 0 its last piece of this launch, 0: it had none
  std::atomic<bool> first_in_vain{false};  // member 0 came to this launch and found nothing left

  OpenMpSharing borrowing;

  alignas(64) std::atomic<bool> open{false};
  alignas(64) std::atomic<int> inside{0};         // members besides the leader that may be reading the launch
  alignas(64) std::atomic<bool> assisted{false};  // a thread of the program has the place of member 0
  std::atomic<void (*)()> first_work{nullptr};
  std::mutex owner;  // of the team

  void execute(unsigned member, uint32_t begin, uint32_t end) {
    const auto start = Clock::now();
    in_piece = true;
    const int32_t code = piece(context, member, begin, end);
    in_piece = false;
    if (code != 0) {
      int32_t none = 0;
      error.compare_exchange_strong(none, code);
    }
    const auto now = Clock::now();
    unit_time.store(nanoseconds(now - start) / static_cast<float>(end - begin), std::memory_order_relaxed);
    if (member == 0) first_ended.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }

  uint32_t least() const {
    const float time = unit_time.load(std::memory_order_relaxed);
    return time > 0 ? static_cast<uint32_t>(std::clamp(piece_time / time, 1.0f, 1e9f)) : 1;
  }

  // Gives every member a share of its own, which all end at the same time when member 0 is as late as it was.
  void divide(uint32_t units, float expected) {
    uint32_t first = units / participants;
    if (leader && expected > 0) {
      const float late = lateness / expected,
                  others_share = (static_cast<float>(units) + late) / static_cast<float>(participants);
      first = static_cast<uint32_t>(std::max(others_share - late + 0.5f, 0.0f));
    }
    shares[0].range.store(Share::packed(0, first), std::memory_order_relaxed);
    for (unsigned i = 1; i < participants; ++i) {
      const uint64_t rest = units - first, sharers = participants - 1;
      const auto begin = first + static_cast<uint32_t>(rest * (i - 1) / sharers),
                 end = first + static_cast<uint32_t>(rest * i / sharers);
      shares[i].range.store(Share::packed(begin, end), std::memory_order_relaxed);
    }
  }

  // Returns whether there was anything left to do.
  bool work(unsigned member) {
    uint32_t begin, end;
    bool any = false;
    while (shares[member].take(true, least(), begin, end)) execute(member, begin, end), any = true;
    for (unsigned i = 1; i < participants; ++i) {
      Share& other = shares[(member + i) % participants];
      while (other.take(false, least(), begin, end)) execute(member, begin, end), any = true;
    }
    return any;
  }

  // Sends the other members away from the processor of the leader, who is the caller.
  void make_room() {
    const int here = os::current_processor();
    if (leader) others[leader].processor.store(here, std::memory_order_relaxed);
    for (unsigned i = 1; i < participants; ++i)
      if (i != leader) others[i].keep_off(here);
  }

  void serve(unsigned member) {
    os::name_thread("ocl-host");
    os::unbind_thread();
    this_member = member;
    Member& self = others[member];
    self.thread.store(os::thread_id());
    for (int seen = 0;;) {
      auto until = Clock::now() + spin_time;
      for (int i = 0; self.launches.load(std::memory_order_acquire) == seen;) {
        pause_thread();
        if (++i % 64) continue;
        self.processor.store(os::current_processor(), std::memory_order_relaxed);
        if (Clock::now() > until || borrowing.on()) {
          self.asleep.store(true);
          self.launches.wait(seen);
          self.asleep.store(false, std::memory_order_relaxed);
          break;
        }
        std::this_thread::yield();
      }
      seen = self.launches.load(std::memory_order_acquire);
      inside.fetch_add(1);
      if (open.load() && member < participants) {
        self.noticed.store(number, std::memory_order_relaxed);
        work(member);
      }
      inside.fetch_sub(1);
      if (member == 1)
        if (auto* mine = first_work.load(std::memory_order_acquire)) mine();
    }
  }
};

unsigned ThreadPool::wanted() { return processors::pool().threads; }

static std::atomic<unsigned> most_threads{UINT_MAX};

void ThreadPool::set_limit(unsigned threads) {
  if (processors::facts().asked < 0) most_threads.store(threads ? threads : UINT_MAX, std::memory_order_relaxed);
}

ThreadPool& ThreadPool::instance() {
  static ThreadPool* team = new ThreadPool(std::max(1u, wanted()));
  return *team;
}

ThreadPool::ThreadPool(unsigned members) : members_(members), state_(new State(members)) {
  for (unsigned i = 1; i < members; ++i) std::thread([state = state_, i] { state->serve(i); }).detach();
}

int32_t ThreadPool::run(uint32_t units, std::atomic<float>& unit_time, Piece piece, void* context) {
  if (units == 0) return 0;
  const float expected = unit_time.load(std::memory_order_relaxed);
  State& state = *state_;
  std::unique_lock owner(state.owner, std::defer_lock);
  const unsigned most = std::min(members_, most_threads.load(std::memory_order_relaxed));
  if (most == 1 || units == 1 || (expected > 0 && expected * static_cast<float>(units) < alone_time) ||
      !owner.try_lock()) {
    const auto start = Clock::now();
    const int32_t code = piece(context, members_, 0, units);
    unit_time.store(nanoseconds(Clock::now() - start) / static_cast<float>(units), std::memory_order_relaxed);
    return code;
  }
  state.piece = piece;
  state.context = context;
  state.leader = this_member;
  state.participants = std::min(most, units);
  if (expected > 0) {
    const float worth = std::clamp(expected * static_cast<float>(units) / share_time, 2.0f, 1e6f);
    state.participants = std::min(state.participants, static_cast<unsigned>(worth));
  }
  // One more where the place of member 0 may stay empty.
  if (state.leader) state.participants = std::min(most, state.participants + 1);
  state.unit_time.store(expected, std::memory_order_relaxed);
  state.error.store(0, std::memory_order_relaxed);
  state.first_ended.store(0, std::memory_order_relaxed);
  state.first_in_vain.store(false, std::memory_order_relaxed);
  state.divide(units, expected);
  if (borrows() && run_borrowed()) {
    unit_time.store(state.unit_time.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return state.error.load(std::memory_order_relaxed);
  }
  ++state.number;
  bool first_awake = false;
  const auto start = Clock::now();
  state.open.store(true);
  for (unsigned i = 1; i < state.participants; ++i)
    if (i != state.leader && state.others[i].call()) first_awake |= i == 1;
  state.make_room();
  state.work(state.leader);
  // Nothing is left to take; what others have taken is waited for.
  state.open.store(false);
  const auto own_end = Clock::now();
  if (!state.leader && is_main_thread) {
    const bool missed = state.others[1].noticed.load(std::memory_order_relaxed) != state.number;
    state.borrowing.note_launch(missed, first_awake, nanoseconds(own_end - start));
  }
  for (int i = 1; state.inside.load() != 0; ++i) {
    pause_thread();
    if (i % 256 == 0) std::this_thread::yield();
  }
  if (const Clock::rep ended = state.first_ended.load(std::memory_order_relaxed); ended && state.leader) {
    const float after = nanoseconds(Clock::duration(ended) - own_end.time_since_epoch());
    state.lateness = std::clamp(state.lateness + after / 2, 0.0f, latest);
  } else if (state.first_in_vain.load(std::memory_order_relaxed)) {
    state.lateness /= 2;  // a launch that is shorter than the lateness leaves it no share
  }
  unit_time.store(state.unit_time.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return state.error.load(std::memory_order_relaxed);
}

// The launch that is prepared, by the threads of another library. Returns false, with nothing done, where they are not
// to be had.
bool ThreadPool::run_borrowed() {
  State& state = *state_;
  const OpenMpSharing::By by = state.borrowing.next(members_);
  if (by == OpenMpSharing::By::team) return false;
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
    const unsigned member = std::this_thread::get_id() == caller ? 0 : 1 + others.fetch_add(1);
    if (member < state.participants && state.work(member) && member) helped.store(true, std::memory_order_relaxed);
  };
  return state.borrowing.run(body, &region, state.participants, region.helped);
}

void ThreadPool::set_lender(const Lender& given) { OpenMpSharing::set_lender(given); }

bool ThreadPool::borrows() const { return state_->borrowing.on() && is_main_thread; }

void ThreadPool::allow_borrowing(bool allowed) { state_->borrowing.allow(allowed); }

bool ThreadPool::assist() {
  State& state = *state_;
  if (!state.open.load(std::memory_order_relaxed) || state.assisted.exchange(true)) return false;
  make_room_for_first();
  state.inside.fetch_add(1);
  const bool mine = state.open.load() && state.leader != 0, any = mine && state.work(0);
  if (mine && !any && state.first_ended.load(std::memory_order_relaxed) == 0)
    state.first_in_vain.store(true, std::memory_order_relaxed);
  state.inside.fetch_sub(1);
  state.assisted.store(false);
  return any;
}

bool ThreadPool::in_main_thread() { return is_main_thread; }

bool ThreadPool::executing() { return in_piece; }

bool ThreadPool::assisted() const { return state_->assisted.load(std::memory_order_relaxed); }

void ThreadPool::set_first_work(void (*work)()) { state_->first_work.store(work, std::memory_order_release); }

void ThreadPool::call_first() { state_->others[1].call(); }

void ThreadPool::make_room_for_first() {
  if (members_ > 1) state_->others[1].keep_off(os::current_processor());
}

}  // namespace ocl
