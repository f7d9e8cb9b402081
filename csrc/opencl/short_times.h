// Which launches of a kernel are short, learnt from those that were tried: a short launch is not worth a driver's threads, which have to be woken.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ocl {

class ShortTimes {
 public:
  // Whether a launch of so many groups is to be tried as a short one.
  bool expects(size_t groups) {
    std::atomic<float>& time = place(groups);
    const float expected = time.load(std::memory_order_relaxed);
    if (expected <= limit) return true;
    // It is tried again after a hundred times at most, in case that it was not the kernel's time.
    time.store(expected * 0.97f, std::memory_order_relaxed);
    return false;
  }

  // Such a launch took `time` nanoseconds. The first ones of a kernel include what the driver does once, any may include time in which another
  // process ran.
  void took(size_t groups, float time) {
    constexpr int first_ones = 5;
    std::atomic<float>& known = place(groups);
    const float before = known.load(std::memory_order_relaxed);
    if (before == 0 && time > limit && long_launches_.fetch_add(1, std::memory_order_relaxed) < first_ones) return;
    known.store(std::min(time, before > 0 ? 2 * before : 16 * limit), std::memory_order_relaxed);
  }

 private:
  static constexpr float limit = 1000e3f;
  static constexpr int places = 64;  // shared by all numbers of groups

  std::atomic<float>& place(size_t groups) { return times_[groups * 0x9e3779b97f4a7c15u >> 58]; }

  std::array<std::atomic<float>, places> times_{};  // 0: unknown
  std::atomic<int> long_launches_{0};
};

}  // namespace ocl
