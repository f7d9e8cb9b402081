#include "opencl/memory/caching_allocator.h"

#include "base/environment.h"
#include "opencl/command_list.h"
#include "opencl/memory/captured_segments.h"
#include "opencl/memory/segment.h"
#include "opencl/memory/out_of_memory.h"
#include "opencl/memory/host_memory.h"

#include <algorithm>
#include <cstdio>

namespace ocl {

namespace {

constexpr size_t block_alignment = 512;
constexpr size_t small_limit = size_t{1} << 20;  // blocks up to here come from the small pool
constexpr size_t small_segment = size_t{2} << 20;
constexpr size_t large_segment = size_t{20} << 20;  // segment for medium blocks
constexpr size_t medium_limit = size_t{10} << 20;
constexpr size_t large_rounding = size_t{2} << 20;  // segments above medium_limit are multiples of this

size_t round_block(size_t bytes) { return (bytes + block_alignment - 1) / block_alignment * block_alignment; }

size_t segment_bytes(size_t bytes) {
  if (bytes <= small_limit) return small_segment;
  if (bytes < medium_limit) return large_segment;
  return (bytes + large_rounding - 1) / large_rounding * large_rounding;
}

}  // namespace

static void (*out_of_memory_handler)(const std::string&) = nullptr;

void set_out_of_memory_handler(void (*handler)(const std::string&)) { out_of_memory_handler = handler; }

void raise_out_of_memory(const std::string& report) {
  if (out_of_memory_handler) out_of_memory_handler(report);
  throw OutOfMemory(CL_MEM_OBJECT_ALLOCATION_FAILURE, report);
}

struct CachingAllocator::Block {
  char* address;
  size_t bytes;
  size_t requested = 0;
  Queue* queue;
  bool large;
  Pool* pool;
  bool allocated = false;
  Block* previous = nullptr;  // neighbours within the segment
  Block* next = nullptr;
  std::vector<Queue*> other_queues = {};
  bool split() const { return previous || next; }
};

bool CachingAllocator::BySize::operator()(const Block* a, const Block* b) const {
  if (a->queue != b->queue) return a->queue < b->queue;
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  return a->address < b->address;
}

struct CachingAllocator::Deferred {
  Block* block;
  std::vector<Event> events;
};

CachingAllocator::CachingAllocator(Device& device) : device_(device) {
  limit_ = static_cast<uint64_t>(environment::number("TORCH_OCL_MEMORY_LIMIT", 0));
}

CachingAllocator::~CachingAllocator() = default;

namespace {
void change(MemoryStats& stats, bool large, int64_t n) {
  for (int i : {0, large ? 2 : 1}) {
    if (n >= 0)
      stats[i].increase(n);
    else
      stats[i].decrease(-n);
  }
}
}  // namespace

void CachingAllocator::count(const Block* block, int64_t sign) {
  const bool large = block->large;
  change(statistics_.allocation, large, sign);
  change(statistics_.allocated_bytes, large, sign * static_cast<int64_t>(block->bytes));
  change(statistics_.requested_bytes, large, sign * static_cast<int64_t>(block->requested));
}

// By device; missing: pool 0.
static thread_local std::vector<uint64_t> thread_pools;

uint64_t CachingAllocator::new_pool() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

uint64_t CachingAllocator::pool_for(const Queue& queue) const {
  if (const CommandList* list = queue.capture()) [[unlikely]]
    return list->pool();
  const auto index = static_cast<size_t>(device_.index());
  return index < thread_pools.size() ? thread_pools[index] : 0;
}

uint64_t CachingAllocator::use_pool(uint64_t pool) {
  const auto index = static_cast<size_t>(device_.index());
  if (thread_pools.size() <= index) thread_pools.resize(index + 1, 0);
  return std::exchange(thread_pools[index], pool);
}

CachingAllocator::Pool& CachingAllocator::pool(uint64_t id) {
  Pool& pool = pools_[id];
  pool.id = id;
  return pool;
}

void CachingAllocator::retain_pool(uint64_t id) {
  std::lock_guard lock(mutex_);
  ++pool(id).users;
}

void CachingAllocator::release_pool(uint64_t id) {
  std::lock_guard lock(mutex_);
  --pool(id).users;
}

int CachingAllocator::users(uint64_t id) const {
  std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  return found == pools_.end() ? 0 : found->second.users;
}

CachingAllocator::Block* CachingAllocator::find_free(size_t bytes, Queue& queue, Pool& pool, bool large) {
  FreeBlocks& blocks = pool.blocks(large);
  Block key{nullptr, bytes, 0, &queue, large, &pool};
  auto it = blocks.lower_bound(&key);
  if (it == blocks.end() || (*it)->queue != &queue) return nullptr;
  Block* block = *it;
  blocks.erase(it);
  if (block->split()) {
    change(statistics_.inactive_split, large, -1);
    change(statistics_.inactive_split_bytes, large, -static_cast<int64_t>(block->bytes));
  }
  return block;
}

CachingAllocator::Block* CachingAllocator::new_segment(size_t bytes, Queue& queue, Pool& pool, bool large) {
  const size_t size = segment_bytes(bytes);
  const uint64_t reserved = static_cast<uint64_t>(statistics_.reserved_bytes[0].current);
  if (limit_ && reserved + size > limit_) return nullptr;
  if (reserved + size > device_.capabilities().global_memory) return nullptr;
  if (!host_has(device_, size, reserved)) return nullptr;
  void* base = nullptr;
  try {
    base = allocate_segment(device_, size);
  } catch (const OutOfMemory&) {
    return nullptr;
  }
  change(statistics_.segment, large, 1);
  change(statistics_.reserved_bytes, large, static_cast<int64_t>(size));
  Block* block = new Block{static_cast<char*>(base), size, 0, &queue, large, &pool};
  segments_[block->address] = block;
  return block;
}

// Null where there is no room.
CachingAllocator::Block* CachingAllocator::find_or_make(size_t bytes, Queue& queue, Pool& pool, bool large) {
  Block* block = find_free(bytes, queue, pool, large);
  if (!block) block = new_segment(bytes, queue, pool, large);
  if (block) return block;
  ++statistics_.retries;
  process_deferred(true);
  block = find_free(bytes, queue, pool, large);
  if (block) return block;
  device_.synchronize();
  release_free_segments();
  return new_segment(bytes, queue, pool, large);
}

void* CachingAllocator::allocate(size_t requested, Queue& queue, uint64_t pool_id) {
  if (requested == 0) return nullptr;
  std::lock_guard lock(mutex_);
  process_deferred(false);
  const size_t bytes = round_block(requested);
  const bool large = bytes > small_limit;
  Block* block = find_or_make(bytes, queue, pool(pool_id), large);
  if (!block) {
    ++statistics_.out_of_memory;
    raise_out_of_memory(report(requested));
  }
  const size_t rest = block->bytes - bytes;
  if (rest >= (large ? small_limit : block_alignment)) {
    Block* tail = new Block{block->address + bytes, rest, 0, block->queue, large, block->pool};
    tail->previous = block;
    tail->next = block->next;
    if (tail->next) tail->next->previous = tail;
    block->next = tail;
    block->bytes = bytes;
    block->pool->blocks(large).insert(tail);
    change(statistics_.inactive_split, large, 1);
    change(statistics_.inactive_split_bytes, large, static_cast<int64_t>(rest));
  }
  block->allocated = true;
  block->requested = requested;
  live_[block->address] = block;
  count(block, 1);
  change(statistics_.active, large, 1);
  change(statistics_.active_bytes, large, static_cast<int64_t>(block->bytes));
  return block->address;
}

size_t CachingAllocator::free(void* address) noexcept {
  if (!address) return 0;
  std::lock_guard lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end()) {
    std::fprintf(stderr, "torch_ocl: free of an address that is not allocated\n");
    return 0;
  }
  Block* block = it->second;
  live_.erase(it);
  const size_t requested = block->requested;  // the block may disappear in a neighbour
  block->allocated = false;
  count(block, -1);
  if (block->other_queues.empty()) {
    return_block(block);
    return requested;
  }
  try {
    Deferred deferred{block, {}};
    // A queue that captures has nothing to do, and its commands stay in order.
    for (Queue* queue : block->other_queues)
      if (!queue->capture()) deferred.events.push_back(queue->record());
    block->other_queues.clear();
    if (deferred.events.empty())
      return_block(block);
    else
      deferred_.push_back(std::move(deferred));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_ocl: %s; a block of memory is lost\n", error.what());
  }
  return requested;
}

void CachingAllocator::return_block(Block* block) {
  const bool large = block->large;
  FreeBlocks& pool = block->pool->blocks(large);
  change(statistics_.active, large, -1);
  change(statistics_.active_bytes, large, -static_cast<int64_t>(block->bytes));
  auto merge = [&](Block* first, Block* second) {  // both free neighbours; second disappears
    first->bytes += second->bytes;
    first->next = second->next;
    if (first->next) first->next->previous = first;
    delete second;
  };
  auto is_free = [&](Block* b) { return b && !b->allocated && pool.count(b); };
  auto take = [&](Block* b) {
    pool.erase(b);
    change(statistics_.inactive_split, large, -1);
    change(statistics_.inactive_split_bytes, large, -static_cast<int64_t>(b->bytes));
  };
  if (is_free(block->next)) {
    take(block->next);
    merge(block, block->next);
  }
  if (is_free(block->previous)) {
    Block* previous = block->previous;
    take(previous);
    merge(previous, block);
    block = previous;
  }
  pool.insert(block);
  if (block->split()) {
    change(statistics_.inactive_split, large, 1);
    change(statistics_.inactive_split_bytes, large, static_cast<int64_t>(block->bytes));
  }
}

void CachingAllocator::record_queue(void* address, Queue& queue) {
  std::lock_guard lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end() || it->second->queue == &queue) return;
  auto& queues = it->second->other_queues;
  if (std::find(queues.begin(), queues.end(), &queue) == queues.end()) queues.push_back(&queue);
}

void CachingAllocator::process_deferred(bool wait) {
  std::erase_if(deferred_, [&](Deferred& deferred) {
    for (Event& event : deferred.events) {
      if (wait)
        event.wait();
      else if (!event.complete())
        return false;
    }
    return_block(deferred.block);
    return true;
  });
}

void CachingAllocator::release_free_segments() {
  for (auto it = segments_.begin(); it != segments_.end();) {
    Block* block = it->second;
    FreeBlocks& pool = block->pool->blocks(block->large);
    if (block->allocated || block->split() || !pool.count(block) || block->pool->users > 0 ||
        captured_segments::in_use(block->address)) {
      ++it;
      continue;
    }
    pool.erase(block);
    free_segment(block->address);
    change(statistics_.segment, block->large, -1);
    change(statistics_.reserved_bytes, block->large, -static_cast<int64_t>(block->bytes));
    delete block;
    it = segments_.erase(it);
  }
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  device_.synchronize();
  process_deferred(true);
  release_free_segments();
  const auto in_use = [&](const Pool& pool) {
    return std::any_of(segments_.begin(), segments_.end(), [&](const auto& s) { return s.second->pool == &pool; });
  };
  std::erase_if(pools_, [&](const auto& row) { return row.second.users == 0 && !in_use(row.second); });
}

void CachingAllocator::set_limit(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

std::vector<SegmentSnapshot> CachingAllocator::snapshot() const {
  std::lock_guard lock(mutex_);
  std::vector<SegmentSnapshot> result;
  for (const auto& [address, first] : segments_) {
    SegmentSnapshot segment{
        reinterpret_cast<uintptr_t>(address), 0, first->large, first->queue->id(), first->pool->id, {}};
    for (const Block* block = first; block; block = block->next) {
      segment.bytes += block->bytes;
      segment.blocks.push_back(
          {reinterpret_cast<uintptr_t>(block->address), block->bytes, block->requested, block->allocated});
    }
    result.push_back(std::move(segment));
  }
  return result;
}

}  // namespace ocl
