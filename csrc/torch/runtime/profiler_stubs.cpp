// The event-per-operator profiler of torch.autograd.profiler (use_kineto=False): device time between two marks in the
// current stream. It serves PyTorch versions whose Kineto takes no PrivateUse1 plug-in; profiler.cpp is the precise
// one.
#include "torch/runtime/device.h"

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

namespace ocl::runtime {

namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* index, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    if (index) *index = current_device();
    *event = std::make_shared<Event>(current_queue().record());
    if (cpu_ns) *cpu_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  // Microseconds.
  float elapsed(const ProfilerVoidEventStub* start, const ProfilerVoidEventStub* end) const override {
    const auto &a = *static_cast<const Event*>(start->get()), &b = *static_cast<const Event*>(end->get());
    a.wait();
    b.wait();
    return static_cast<float>((static_cast<double>(b.end_time()) - static_cast<double>(a.end_time())) * 1e-3);
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return device_count() > 0; }
  void onEachDevice(std::function<void(int)> op) const override {
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
      const c10::DeviceGuard guard(c10::Device(device_type, i));
      op(i);
    }
  }
  void synchronize() const override {
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) synchronize_device(i);
  }
};

const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs);  // leaked: asked until the process ends
  return true;
}();

}  // namespace

}  // namespace ocl::runtime
