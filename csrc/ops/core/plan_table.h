// Plans by problem: a launch of a problem that is known makes none.
//
// Key: the device, and everything of the problem that the plan was made from, the process's modes among it (TF32,
// Winograd), without addresses. A plan is also dropped when the choices of ops/core/tuning.h have changed since it was
// made (generation). Bounded, because the shapes of a program may never repeat: when `capacity` plans are young they
// become old, and the old ones that nobody asked for since are dropped. Any thread may use a table; a plan lives as
// long as somebody runs it.
#pragma once

#include "ops/core/tuning.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace ocl::ops {

// Hash of numbers given one after the other.
class Hasher {
 public:
  Hasher& add(uint64_t number) {
    state_ = (state_ ^ number) * 0x9e3779b97f4a7c15ull;
    state_ ^= state_ >> 29;
    return *this;
  }
  // At once: sizes and strides are seldom longer than 21 bits.
  Hasher& add(const std::array<int64_t, 3>& numbers) {
    return add(static_cast<uint64_t>(numbers[0]) ^ static_cast<uint64_t>(numbers[1]) << 21 ^
               static_cast<uint64_t>(numbers[2]) << 42);
  }
  size_t value() const { return state_; }

 private:
  uint64_t state_ = 0;
};

// How many plans all tables of the process have made so far; a second launch of a known problem adds none.
inline std::atomic<uint64_t>& plans_made() {
  static std::atomic<uint64_t> count{0};
  return count;
}

// Key: equality, and size_t hash() const.
template <class Key, class Plan>
class PlanTable {
 public:
  using Kept = std::shared_ptr<const Plan>;

  // The plan of `key`; make() gives it where it is not known or out of date. make() runs without the lock, as it may
  // measure and run kernels; what it throws is thrown, and nothing is kept.
  template <class Make>
  Kept get(const Key& key, const Make& make) {
    const uint64_t generation = tuning::generation();
    {
      std::lock_guard lock(mutex_);
      if (const Entry* entry = find(key); entry && entry->generation == generation) [[likely]]
        return entry->plan;
    }
    Kept plan = std::make_shared<const Plan>(make());
    plans_made().fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    keep(key, {plan, generation});
    return plan;
  }

  static constexpr size_t capacity = 1024;  // of the young, and of the old

 private:
  struct Entry {
    Kept plan;
    uint64_t generation;
  };
  struct Hash {
    size_t operator()(const Key& key) const { return key.hash(); }
  };
  using Entries = std::unordered_map<Key, Entry, Hash>;

  // The mutex must be held for both.
  const Entry* find(const Key& key) {
    if (const auto young = young_.find(key); young != young_.end()) return &young->second;
    const auto old = old_.find(key);
    if (old == old_.end()) return nullptr;
    const Entry entry = old->second;
    old_.erase(old);
    return keep(key, entry);
  }
  const Entry* keep(const Key& key, const Entry& entry) {
    if (young_.size() >= capacity) {
      old_ = std::move(young_);
      young_.clear();
    }
    return &(young_.insert_or_assign(key, entry).first->second);
  }

  std::mutex mutex_;
  Entries young_, old_;
};

}  // namespace ocl::ops
