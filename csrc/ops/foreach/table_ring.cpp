#include "ops/foreach/table_ring.h"

#include "opencl/command_list.h"
#include "opencl/memory/segment.h"

#include <bit>
#include <cstring>
#include <map>
#include <memory>

namespace ocl::ops {

TableRing& TableRing::of(Queue& queue) {
  static std::mutex mutex;
  static auto* rings = new std::map<Queue*, std::unique_ptr<TableRing>>;
  std::lock_guard lock(mutex);
  auto& ring = (*rings)[&queue];
  if (!ring) ring.reset(new TableRing(queue));
  return *ring;
}

// For callers that hold the mutex. On failure the slot is as before. Own segments: tables do not show up in the
// allocator's statistics.
void TableRing::grow(Slot& slot, size_t bytes) {
  if (slot.bytes >= bytes) return;
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 4096));
  void* memory = allocate_segment(queue_.device(), size);
  if (slot.used && !slot.used.complete()) slot.used.wait();
  if (slot.memory) free_segment(slot.memory);
  slot.memory = memory;
  slot.bytes = size;
}

TableRing::Slot& TableRing::take(size_t bytes) {
  Slot& slot = slots_[next_ % slots_.size()];
  if (slot.used && !slot.used.complete()) slot.used.wait();
  grow(slot, bytes);
  ++next_;
  return slot;
}

void TableRing::reserve(size_t bytes) {
  if (reserved_.load(std::memory_order_relaxed) >= bytes) [[likely]]
    return;
  const Queue::NoFlush no_flush;  // deferred work needs this mutex
  std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) grow(slot, bytes);
  reserved_.store(std::max(reserved_.load(), bytes));
}

void TableRing::with(const std::vector<uint64_t>& table, const std::function<void(const void*)>& use) {
  queue_.flush_deferred();
  const Queue::NoFlush no_flush;
  if (CommandList* list = queue_.capture()) [[unlikely]]
    return use(list->constant(queue_, table.data(), table.size() * sizeof(uint64_t)));
  std::lock_guard lock(mutex_);
  const size_t bytes = table.size() * sizeof(uint64_t);
  Slot& slot = take(bytes);
  if (queue_.device().capabilities().unified_memory) {
    std::memcpy(slot.memory, table.data(),
                bytes);  // nobody reads the slot now, and kernels enqueued later see the bytes
  } else {
    slot.staging = table;
    queue_.write(slot.memory, slot.staging.data(), bytes, false);
  }
  use(slot.memory);
  slot.used = queue_.record();
}

}  // namespace ocl::ops
