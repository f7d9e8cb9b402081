// The time by which thread pool and command queue decide: whether a caller is synchronous, whether OpenMP threads are
// still awake. What work takes is measured by the real clock. Tests stop this one, so that what they expect does not
// depend on how busy the machine is.
#pragma once

#include <atomic>
#include <chrono>

namespace ocl::decision_clock {

using Clock = std::chrono::steady_clock;
using Source = Clock::time_point (*)();

extern std::atomic<Source> source;

inline Clock::time_point now() { return source.load(std::memory_order_relaxed)(); }

}  // namespace ocl::decision_clock
