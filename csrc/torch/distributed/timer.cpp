// The times in DistributedDataParallel's logging data, taken on the device.
#include "torch/runtime/device.h"

#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <map>

namespace ocl::distributed {

namespace {

class DeviceTimer final : public c10d::Timer {
 public:
  explicit DeviceTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);  // the host's time, which DDP reports too
    events_.insert_or_assign(event, c10::Event(device_.type(), c10::EventFlag::BACKEND_DEFAULT))
        .first->second.record(runtime::current_stream(device_.index()));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto first = events_.find(start), last = events_.find(end);
    if (first == events_.end() || last == events_.end()) return std::nullopt;
    first->second.synchronize();
    last->second.synchronize();
    const double milliseconds = first->second.elapsedTime(last->second);
    // The end belongs to an earlier step where this one has not come to it.
    if (milliseconds < 0) return std::nullopt;
    return static_cast<int64_t>(milliseconds * 1e6);
  }

 private:
  c10::Device device_;
  std::map<Event, c10::Event> events_;
};

}  // namespace

}  // namespace ocl::distributed

namespace c10d {
using ocl::distributed::DeviceTimer;
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, DeviceTimer)
}  // namespace c10d
