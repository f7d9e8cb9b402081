#include "ops/core/precision.h"

#include <atomic>

namespace ocl::ops {
namespace {

std::atomic<bool> allowed{false};
std::atomic<bool (*)(Tf32)> policy{nullptr};

}  // namespace

bool tf32_allowed() { return allowed.load(std::memory_order_relaxed); }
void allow_tf32(bool value) { allowed.store(value, std::memory_order_relaxed); }
void set_tf32_policy(bool (*value)(Tf32)) { policy.store(value, std::memory_order_relaxed); }

bool allows_tf32(Tf32 where) {
  const auto ask = policy.load(std::memory_order_relaxed);
  return tf32_allowed() || (ask && ask(where));
}

}  // namespace ocl::ops
