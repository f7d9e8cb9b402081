#include "cpu/decision_clock.h"

namespace ocl::decision_clock {

std::atomic<Source> source{&Clock::now};

}  // namespace ocl::decision_clock
