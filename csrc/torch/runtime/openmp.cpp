// PyTorch's OpenMP threads for launches of the main thread (opencl/executor.h), where PyTorch was built with GCC's
// libgomp.
#include "torch/runtime/openmp.h"

#include "base/os.h"
#include "opencl/executor.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <thread>

namespace ocl::runtime {

namespace {

// What GCC makes of `#pragma omp parallel num_threads(threads)`. Called by its name in the library that PyTorch uses:
// to be linked to libgomp could bring in a second copy, with threads of its own.
using Region = void (*)(void (*body)(void*), void* context, unsigned threads, unsigned flags);

const Region region = reinterpret_cast<Region>(os::function_of("libtorch_cpu", "GOMP_parallel"));

bool run(void (*body)(void*), void* context, unsigned threads) {
  if (at::in_parallel_region() || at::get_num_threads() < static_cast<int>(threads)) return false;
  region(body, context, threads, 0);
  return true;
}

// Whether one of the threads took most of a processor's time since the last call. The first call of all has to look for
// a thread.
bool spinning() {
  using Clock = std::chrono::steady_clock;
  static long long clock = 0, last_time = 0;
  static Clock::time_point last;
  if (clock == 0) {
    static std::thread::id caller;
    caller = std::this_thread::get_id();
    run(
        [](void*) {
          if (std::this_thread::get_id() != caller) clock = os::thread_clock();
        },
        nullptr, 2);
    return false;
  }
  const long long time = os::processor_time(clock);
  if (time < 0) return clock = 0, false;
  const auto now = Clock::now();
  const bool most = 2 * std::chrono::nanoseconds(time - last_time) > now - last;
  last = now;
  last_time = time;
  return most;
}

const bool registered = [] {
  if (region) share_openmp_threads({&run, &spinning});
  return true;
}();

}  // namespace

// Of the thread that loads the library, before anybody has asked for another number.
static const int usual_threads = at::get_num_threads();

void follow_thread_limit() {
  static int last = usual_threads;  // of the main thread only: others take over its number when they begin
  if (!in_main_thread()) return;
  const int now = at::get_num_threads();
  if (now == last) [[likely]]
    return;
  last = now;
  limit_executor_workers(now == usual_threads ? 0 : static_cast<unsigned>(now));
}

}  // namespace ocl::runtime
