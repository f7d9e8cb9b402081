// c10's device guard: current device, streams and events.
#include "opencl/memory/caching_allocator.h"
#include "torch/runtime/device.h"

#include <c10/core/Allocator.h>
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <torch/headeronly/version.h>

namespace ocl::runtime {

namespace {

// What a torch.Event holds: the marker and the device whose platform it belongs to.
struct RecordedEvent {
  Event event;
  c10::DeviceIndex device;
};

// Before 2.13 PyTorch may not expect these two to throw.
constexpr bool streams_noexcept = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = device_type;

  c10::DeviceType type() const override { return device_type; }
  c10::Device getDevice() const override { return {device_type, current_device()}; }
  void setDevice(c10::Device d) const override {
    if (d.index() >= 0) set_device(d.index());
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.index() >= 0 && d.index() < device_count()) set_device(d.index());
  }
  c10::Device exchangeDevice(c10::Device d) const override { return {device_type, exchange_device(d.index())}; }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::Stream getStream(c10::Device d) const noexcept(streams_noexcept) override {
    if constexpr (!streams_noexcept) check_index(d.index());
    return current_stream(d.index());
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return stream_of(device(d.index()).default_queue()); }
  c10::Stream getNewStream(c10::Device d, int) const override { return stream_of(device(d.index()).pooled_queue()); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override {
    return stream_of(device(d.index()).pooled_queue());
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept(streams_noexcept) override {
    c10::Stream old = current_stream(stream.device_index());
    if constexpr (streams_noexcept) {
      try {
        set_stream(stream);
      } catch (const std::exception&) {
        return old;  // a forked child; its first command says so
      }
    } else {
      set_stream(stream);
    }
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return queue_of(stream).share_handle(); }
  bool queryStream(const c10::Stream& stream) const override { return queue_of(stream).idle(); }
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
  bool isStreamCapturing(const c10::Stream& stream) const override { return queue_of(stream).capture() != nullptr; }
#endif
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(queue_of(stream)); }
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize_device(index); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ", static_cast<int>(index),
                " does not match recording stream's device index ", static_cast<int>(stream.device_index()), ".");
    Event marker = queue_of(stream).record();
    delete static_cast<RecordedEvent*>(*event);
    *event = new RecordedEvent{std::move(marker), stream.device_index()};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!event) return;
    auto& recorded = *static_cast<RecordedEvent*>(event);
    // Events are only known inside their context: another device waits on the host.
    if (recorded.device == stream.device_index())
      queue_of(stream).wait(recorded.event);
    else
      recorded.event.wait();
  }
  bool queryEvent(void* event) const override { return !event || static_cast<RecordedEvent*>(event)->event.complete(); }
  void synchronizeEvent(void* event) const override {
    if (event) static_cast<RecordedEvent*>(event)->event.wait();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<RecordedEvent*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "Both events must be recorded before calculating elapsed time.");
    auto& a = static_cast<RecordedEvent*>(start)->event;
    auto& b = static_cast<RecordedEvent*>(end)->event;
    TORCH_CHECK(a.complete() && b.complete(), "Both events must be completed before calculating elapsed time.");
    return (static_cast<double>(b.end_time()) - static_cast<double>(a.end_time())) * 1e-6;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get()) device(stream.device_index()).allocator().record_queue(data.get_context(), queue_of(stream));
  }

  c10::DeviceCapability getDeviceCapability(c10::Device d) const override {
    const Capabilities& c = device(d.index()).capabilities();
    c10::DeviceCapability result;
    uint64_t bits = 0;
    for (int kind :
         {c10::kIndex_Byte, c10::kIndex_Char, c10::kIndex_Short, c10::kIndex_Int, c10::kIndex_Long, c10::kIndex_Half,
          c10::kIndex_Float, c10::kIndex_ComplexFloat, c10::kIndex_Bool, c10::kIndex_BFloat16})
      bits |= 1ull << kind;
    if (c.fp64) bits |= 1ull << c10::kIndex_Double | 1ull << c10::kIndex_ComplexDouble;
    result.capability_data.capability_bits = bits;
    return result;
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace ocl::runtime
