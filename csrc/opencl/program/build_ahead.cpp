#include "opencl/program/build_ahead.h"

#include "opencl/program/compiler_process.h"
#include "base/environment.h"
#include "base/os.h"
#include "base/processors.h"
#include "opencl/device.h"
#include "opencl/program/program_cache.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace ocl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds idle_time{5};
constexpr int most_failures = 3;  // of processes, after which there are no more

int64_t process_count() {
  static const int64_t count = environment::number("TORCH_OCL_BUILD_PROCESSES", std::min(processors::usable() - 1, 7u));
  return count;
}

}  // namespace

struct BuildAhead::State {
  enum class Step { waiting, here, elsewhere, compiled_elsewhere, done };
  ProgramRequest request;
  bool beside;
  Step step = Step::waiting;
  bool alone = false;  // the other process failed
  cl_program program = nullptr;
  std::exception_ptr error = nullptr;
};

class BuildList {
 public:
  using Build = std::shared_ptr<BuildAhead>;
  using Step = BuildAhead::State::Step;

  static BuildList& instance() {
    static auto* list = new BuildList;
    return *list;
  }

  void add(const Build& build) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(build);
    if (threads_ < std::min(process_count(), static_cast<int64_t>(waiting_.size()))) {
      ++threads_;
      std::thread([this] { serve(); }).detach();
    }
    changed_.notify_all();
  }

  cl_program get(BuildAhead& wanted) {
    std::unique_lock lock(mutex_);
    BuildAhead::State& state = *wanted.state_;
    if (state.step != Step::done) {
      const auto start = Clock::now();
      while (state.step != Step::done) step_towards(wanted, lock);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      lock.unlock();
      announce_wait(*state.request.device, seconds);
    }
    if (state.error) std::rethrow_exception(state.error);
    return state.program;
  }

  bool ready(const BuildAhead::State& state) {
    std::lock_guard lock(mutex_);
    return state.step == Step::compiled_elsewhere || (state.step == Step::done && state.program);
  }

 private:
  void step_towards(BuildAhead& wanted, std::unique_lock<std::mutex>& lock) {
    BuildAhead::State& state = *wanted.state_;
    if (state.step == Step::waiting || state.step == Step::compiled_elsewhere) {
      const auto at =
          std::find_if(waiting_.begin(), waiting_.end(), [&](const Build& build) { return build.get() == &wanted; });
      if (at != waiting_.end()) waiting_.erase(at);
      build_here(state, lock);
    } else if (const Build other =
                   state.step == Step::elsewhere ? take([](const auto& each) { return !each.beside; }) : nullptr) {
      build_here(*other->state_, lock);
    } else {
      changed_.wait(lock);
    }
  }

  // Builds by this process's driver, or loads what the other process left.
  void build_here(BuildAhead::State& state, std::unique_lock<std::mutex>& lock) {
    state.step = Step::here;
    ++here_;
    changed_.notify_all();
    lock.unlock();
    cl_program program = nullptr;
    std::exception_ptr error;
    try {
      program = load_or_compile_program(state.request);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --here_;
    state.program = program;
    state.error = error;
    state.step = Step::done;
    changed_.notify_all();
  }

  // Removes the first that fits.
  template <class Fits>
  Build take(Fits&& fits) {
    const auto at =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const Build& build) { return fits(*build->state_); });
    if (at == waiting_.end()) return nullptr;
    Build build = std::move(*at);
    waiting_.erase(at);
    return build;
  }

  // What another process may take: all but the one that somebody in this process will compile next; last, what nobody
  // waits for.
  Build take_for_process() {
    bool skip = here_ == 0;
    const Build build = take(
        [&](const BuildAhead::State& state) { return !state.beside && !std::exchange(skip, false) && !state.alone; });
    return build ? build : take([](const BuildAhead::State& state) { return state.beside && !state.alone; });
  }

  // A thread for one compiler process.
  void serve() {
    os::name_thread("ocl-build");
    os::unbind_thread();  // also for the process that it starts
    std::unique_ptr<CompilerProcess> compiler;
    std::unique_lock lock(mutex_);
    for (;;) {
      Build build = failures_ < most_failures ? take_for_process() : nullptr;
      if (!build) {
        if (!compiler) {
          changed_.wait(lock);
        } else if (changed_.wait_for(lock, idle_time) == std::cv_status::timeout) {
          lock.unlock();
          compiler.reset();
          lock.lock();
        }
        continue;
      }
      BuildAhead::State& state = *build->state_;
      state.step = Step::elsewhere;
      lock.unlock();
      if (!compiler) compiler = std::make_unique<CompilerProcess>();
      compiler->build(state.request);
      const bool built = compiler->answer() == CompilerProcess::Answer::yes, alive = compiler->alive();
      if (!alive) compiler.reset();
      lock.lock();
      failures_ = alive ? 0 : failures_ + 1;
      state.alone = !built;
      state.step = built ? Step::compiled_elsewhere : Step::waiting;
      if (!built) waiting_.push_front(std::move(build));  // its error, or that of the process, is found here
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Build> waiting_;
  long threads_ = 0;
  int here_ = 0, failures_ = 0;
};

BuildAhead::BuildAhead(ProgramRequest request, bool beside) : state_(new State{std::move(request), beside}) {}
BuildAhead::~BuildAhead() = default;

bool BuildAhead::available(const Device& device) {
  static const bool works =
      process_count() > 0 && program_cache::enabled() && program_cache::state().writable && CompilerProcess::exists();
  return works && device.executor() && !device.guarded() && !os::in_forked_child();
}

std::shared_ptr<BuildAhead> BuildAhead::start(ProgramRequest request, bool beside) {
  auto build = std::make_shared<BuildAhead>(std::move(request), beside);
  BuildList::instance().add(build);
  return build;
}

cl_program BuildAhead::get() { return BuildList::instance().get(*this); }

bool BuildAhead::ready() const { return BuildList::instance().ready(*state_); }

}  // namespace ocl
