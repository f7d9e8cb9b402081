// c10's DeviceAllocator on top of the library's caching allocators, one per device.
#include "opencl/memory/caching_allocator.h"
#include "opencl/memory/segment.h"
#include "torch/runtime/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

namespace ocl::runtime {

namespace {

// For torch.profiler(profile_memory=True): `bytes` were allocated, or released when negative.
void profile(void* data, int64_t bytes, CachingAllocator& caching) {
  const AllocatorStatistics statistics = caching.statistics();
  c10::reportMemoryUsageToProfiler(data, bytes, static_cast<size_t>(statistics.allocated_bytes[0].current),
                                   static_cast<size_t>(statistics.reserved_bytes[0].current),
                                   c10::Device(device_type, static_cast<c10::DeviceIndex>(caching.device().index())));
}

void release(void* context) {
  if (!context) return;
  const SegmentInfo segment = find_segment(context);
  if (!segment.device) return;
  CachingAllocator& caching = segment.device->allocator();
  const size_t bytes = caching.free(context);
  if (c10::memoryProfilingEnabled()) profile(context, -static_cast<int64_t>(bytes), caching);
}

void copy_stat(const MemoryStats& from, c10::CachingAllocator::StatArray& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    to[i].current = from[i].current;
    to[i].peak = from[i].peak;
    to[i].allocated = from[i].allocated;
    to[i].freed = from[i].freed;
  }
}

struct Allocator final : c10::DeviceAllocator {
  Allocator() {
    error_words() = {
        .allocated = "is allocated by PyTorch",
        .empty_cache = "torch.ocl.empty_cache()",
        .list_devices = "python -m torch_ocl",
        .forked =
            "Cannot re-initialize OCL in forked subprocess. To use OCL with multiprocessing, you must use the "
            "'spawn' start method",
    };
    set_out_of_memory_handler(
        [](const std::string& report) { throw c10::OutOfMemoryError({"allocate", __FILE__, __LINE__}, report); });
  }

  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex index = current_device();
    Queue& queue = current_queue(index);
    CachingAllocator& caching = queue.device().allocator();
    void* data = caching.allocate(bytes, queue);
    if (data && c10::memoryProfilingEnabled()) profile(data, static_cast<int64_t>(bytes), caching);
    return {data, data, &release, c10::Device(device_type, index)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, size_t count) const override {
    current_queue().copy(destination, source, count);
  }

  bool initialized() override { return device_count() > 0; }
  void emptyCache(c10::MempoolId_t) override {
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) device(i).allocator().empty_cache();
  }
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    if (pointer.get_context())
      device(pointer.device().index()).allocator().record_queue(pointer.get_context(), queue_of(stream));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const AllocatorStatistics from = device(index).allocator().statistics();
    c10::CachingDeviceAllocator::DeviceStats to;
    copy_stat(from.allocation, to.allocation);
    copy_stat(from.segment, to.segment);
    copy_stat(from.active, to.active);
    copy_stat(from.inactive_split, to.inactive_split);
    copy_stat(from.allocated_bytes, to.allocated_bytes);
    copy_stat(from.reserved_bytes, to.reserved_bytes);
    copy_stat(from.active_bytes, to.active_bytes);
    copy_stat(from.inactive_split_bytes, to.inactive_split_bytes);
    copy_stat(from.requested_bytes, to.requested_bytes);
    to.num_alloc_retries = from.retries;
    to.num_ooms = from.out_of_memory;
    return to;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { device(index).allocator().reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex index) override { device(index).allocator().reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    return device(index).allocator().memory_info();
  }
};

Allocator& allocator() {
  static Allocator* instance = new Allocator;  // tensors may outlive static destruction
  return *instance;
}

}  // namespace

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator());

}  // namespace ocl::runtime
