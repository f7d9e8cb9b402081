// A caching allocator in the manner of CUDA's: size classes, split and merge, free lists per queue, use on other queues
// deferred by events, statistics, and a retry after freeing the cache. One per device, thread-safe.
//
// Pools divide the memory: blocks of one are never given to those who allocate from another. Allocations on a queue
// that captures come from the pool of its command list, others from the pool of the thread, which is mostly pool 0.
#pragma once

#include "opencl/queue.h"

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace ocl {

struct MemoryStat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void increase(int64_t n);
  void decrease(int64_t n);
  void reset_peak() { peak = current; }
  void reset_accumulated() { allocated = freed = 0; }
};

// Index 0 is the sum, 1 the pool of small blocks, 2 the pool of large blocks.
using MemoryStats = std::array<MemoryStat, 3>;

struct AllocatorStatistics {
  MemoryStats allocation, segment, active, inactive_split;                                           // counts
  MemoryStats allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;  // bytes
  int64_t retries = 0, out_of_memory = 0;
};

struct BlockSnapshot {
  uintptr_t address;
  size_t bytes, requested;
  bool allocated;
};
struct SegmentSnapshot {
  uintptr_t address;
  size_t bytes;
  bool large;
  int queue;
  uint64_t pool;
  std::vector<BlockSnapshot> blocks;
};

// Called with the report before OutOfMemory is thrown; may throw an exception of its own (PyTorch's
// torch.OutOfMemoryError).
void set_out_of_memory_handler(void (*handler)(const std::string& report));

class CachingAllocator {
 public:
  explicit CachingAllocator(Device& device);

  // `bytes` of device memory for use on `queue`, aligned to 512 bytes; nullptr for 0 bytes.
  // Errors: OutOfMemory after the cache was freed and tried again; what() is the report.
  void* allocate(size_t bytes, Queue& queue) { return allocate(bytes, queue, pool_for(queue)); }
  void* allocate(size_t bytes, Queue& queue, uint64_t pool);
  // Returns the bytes that were asked for.
  size_t free(void* address) noexcept;
  // The block is also used on `queue`: its memory is reused only after the work issued there by the time of free().
  void record_queue(void* address, Queue& queue);
  // Gives unused segments back to the driver.
  void empty_cache();

  // The number of a pool for all devices; nobody else has it.
  static uint64_t new_pool();
  // Keeps the pool's memory, also what is free, until as many calls of release_pool(). Later it is given back to the
  // driver with the rest of the cache.
  void retain_pool(uint64_t pool);
  void release_pool(uint64_t pool);
  int users(uint64_t pool) const;
  // The calling thread's pool on this device from now on; returns the one before.
  uint64_t use_pool(uint64_t pool);

  // At most this many bytes may be reserved (0: no limit).
  void set_limit(uint64_t bytes);

  AllocatorStatistics statistics() const;
  void reset_peak();
  void reset_accumulated();
  std::vector<SegmentSnapshot> snapshot() const;
  // (free, total) bytes. OpenCL has no call for free memory: what others use counts only on devices that share memory
  // with the host.
  std::pair<size_t, size_t> memory_info() const;
  Device& device() const { return device_; }

 private:
  struct Block;
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, BySize>;
  struct Pool {
    uint64_t id = 0;
    int users = 0;
    FreeBlocks small = {}, large = {};
    FreeBlocks& blocks(bool is_large) { return is_large ? large : small; }
  };

  uint64_t pool_for(const Queue& queue) const;
  Pool& pool(uint64_t id);
  Block* find_free(size_t bytes, Queue& queue, Pool& pool, bool large);
  Block* new_segment(size_t bytes, Queue& queue, Pool& pool, bool large);
  Block* find_or_make(size_t bytes, Queue& queue, Pool& pool, bool large);
  void release_free_segments();
  void process_deferred(bool wait);
  void return_block(Block* block);
  std::string report(size_t bytes) const;
  void count(const Block* block, int64_t sign);

  Device& device_;
  mutable std::recursive_mutex mutex_;
  std::map<uint64_t, Pool> pools_;  // by number; they stay where they are
  std::unordered_map<void*, Block*> live_;
  std::map<char*, Block*> segments_;  // first block of every segment
  struct Deferred;
  std::vector<Deferred> deferred_;
  AllocatorStatistics statistics_;
  uint64_t limit_ = 0;

 public:
  ~CachingAllocator();
};

// Scratch memory of one operator call; goes back to the allocator at the end of the scope (in stream order, no
// waiting).
class Workspace {
 public:
  Workspace(Queue& queue, size_t bytes)
      : allocator_(&queue.device().allocator()), data_(allocator_->allocate(bytes, queue)) {}
  Workspace(Workspace&& other) noexcept : allocator_(other.allocator_), data_(other.data_) { other.data_ = nullptr; }
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    if (data_) allocator_->free(data_);
  }
  void* data() const { return data_; }

 private:
  CachingAllocator* allocator_;
  void* data_;
};

}  // namespace ocl
