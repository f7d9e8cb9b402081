#include "ops/core/precision.h"

#include <atomic>

namespace ocl::ops {
namespace {

std::atomic<bool>& allowed(Tf32 where) {
  static std::atomic<bool> switches[2];
  return switches[static_cast<int>(where)];
}

}  // namespace

bool allows_tf32(Tf32 where) { return allowed(where).load(std::memory_order_relaxed); }
void allow_tf32(Tf32 where, bool value) { allowed(where).store(value, std::memory_order_relaxed); }

}  // namespace ocl::ops
