#include "ops/core/build_failures.h"

#include "opencl/device.h"
#include "ops/core/tuning.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <tuple>

namespace ocl::ops::build_failures {

namespace {

struct Failures {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::set<std::tuple<const void*, DType, int>> rows;
};

Failures& failures() {
  static auto* instance = new Failures;
  return *instance;
}

}  // namespace

const char* reason(const void* algorithm, DType dtype, const Device& device) {
  Failures& all = failures();
  if (!all.any.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  const std::lock_guard lock(all.mutex);
  return all.rows.contains({algorithm, dtype, device.index()}) ? "the driver did not build its program" : nullptr;
}

void add(const void* algorithm, const char* name, DType dtype, const Device& device, const char* error) {
  Failures& all = failures();
  const std::lock_guard lock(all.mutex);
  if (all.rows.insert({algorithm, dtype, device.index()}).second)
    std::fprintf(stderr, "torch_ocl: the algorithm %s is left out for %s, because %s\n", name, name_of(dtype), error);
  all.any.store(true, std::memory_order_release);
  tuning::count_change();
}

}  // namespace ocl::ops::build_failures
