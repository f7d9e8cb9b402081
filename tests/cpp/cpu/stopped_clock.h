// Time of decisions (cpu/decision_clock.h) that passes only when a test says so.
#pragma once

#include "cpu/decision_clock.h"

namespace ocl::testing {

class StoppedClock {
 public:
  using Clock = decision_clock::Clock;
  StoppedClock() {
    time() = Clock::now().time_since_epoch().count();
    decision_clock::source = [] { return Clock::time_point(Clock::duration(time().load())); };
  }
  ~StoppedClock() { decision_clock::source = &Clock::now; }
  StoppedClock(const StoppedClock&) = delete;

  void pass(Clock::duration duration) { time() += duration.count(); }

 private:
  static std::atomic<Clock::rep>& time() {
    static std::atomic<Clock::rep> value{0};
    return value;
  }
};

}  // namespace ocl::testing
