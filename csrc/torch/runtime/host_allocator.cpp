// Pinned host memory: PyTorch's caching host allocator over the library's pinned blocks.
#include "opencl/memory/pinned_memory.h"
#include "torch/runtime/device.h"

#include <ATen/core/CachingHostAllocator.h>

namespace ocl::runtime {

namespace {

using SharedEvent = std::shared_ptr<Event>;

struct HostAllocator final : at::CachingHostAllocatorImpl<c10::Stream, SharedEvent> {
 private:
  void allocate_host_memory(size_t size, void** pointer) override {
    *pointer = size ? allocate_pinned(device(), size) : nullptr;
  }
  void free_block(at::HostBlock<c10::Stream>* block) override { free_pinned(block->ptr_); }
  void record_stream(std::optional<std::vector<SharedEvent>>& events, c10::Stream stream) override {
    events->push_back(std::make_shared<Event>(queue_of(stream).record()));
  }
  bool query_event(SharedEvent& event) override { return event->complete(); }
  c10::Stream get_current_stream() const override { return current_stream(); }
  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void delete_host_memory(void* pointer);

struct Interface final : at::CachingHostAllocatorInterface<HostAllocator, delete_host_memory> {};

Interface& host_allocator() {
  static Interface* instance = new Interface;  // leaked: pinned tensors may outlive static destruction
  return *instance;
}

void delete_host_memory(void* pointer) { host_allocator().free(pointer); }

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &host_allocator())

}  // namespace

}  // namespace ocl::runtime
