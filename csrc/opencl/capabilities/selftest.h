// Small kernels whose results tell what a device can do: some abilities have no query, and some queries are wrong.
#pragma once

#include "opencl/device.h"
#include "opencl/launch.h"
#include "opencl/program/program.h"

#include <map>
#include <mutex>
#include <optional>

namespace ocl {

// Runs kernel `name` of kernels_cl/`file` over `range`, in groups of `local`, on a copy of `data` and brings the result
// back. The kernel's one argument is `global T* x`. Seconds from issuing it until it ended; nothing when it does not
// build or run: that is an answer, not an error.
std::optional<double> run_selftest(Device& device, const char* file, const char* name, const Defines& defines,
                                   Range range, void* data, size_t bytes, Range local = Range(1));

// What measure(device) answered the first time, for each device; never destroyed, as devices are not.
template <class Answer>
class MeasuredOnce {
 public:
  template <class Measure>
  Answer get(const Device& device, Measure&& measure) {
    std::lock_guard lock(mutex_);
    const auto known = answers_.find(device.index());
    if (known != answers_.end()) return known->second;
    return answers_[device.index()] = measure(const_cast<Device&>(device));
  }

 private:
  std::mutex mutex_;
  std::map<int, Answer> answers_;
};

}  // namespace ocl
