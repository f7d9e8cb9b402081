// Statistics of the caching allocator, and its report when memory is short.
#include "opencl/memory/caching_allocator.h"
#include "opencl/memory/host_memory.h"

#include <algorithm>
#include <cstdio>

namespace ocl {

namespace {

std::string human(uint64_t bytes) {
  char text[32];
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

}  // namespace

void MemoryStat::increase(int64_t n) {
  current += n;
  allocated += n;
  peak = std::max(peak, current);
}

void MemoryStat::decrease(int64_t n) {
  current -= n;
  freed += n;
}

AllocatorStatistics CachingAllocator::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

static void for_all(AllocatorStatistics& s, void (MemoryStat::*method)()) {
  for (MemoryStats* stats : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
                             &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
    for (MemoryStat& stat : *stats) (stat.*method)();
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  for_all(statistics_, &MemoryStat::reset_peak);
}

void CachingAllocator::reset_accumulated() {
  std::lock_guard lock(mutex_);
  for_all(statistics_, &MemoryStat::reset_accumulated);
  statistics_.retries = statistics_.out_of_memory = 0;
}

std::pair<size_t, size_t> CachingAllocator::memory_info() const {
  std::lock_guard lock(mutex_);
  const uint64_t total = device_.capabilities().global_memory,
                 reserved = static_cast<uint64_t>(statistics_.reserved_bytes[0].current);
  uint64_t free = total > reserved ? total - reserved : 0;
  if (const auto available = host_available(device_)) free = std::min(free, *available);
  return {free, total};
}

std::string CachingAllocator::report(size_t bytes) const {
  const auto& s = statistics_;
  const uint64_t allocated = static_cast<uint64_t>(s.allocated_bytes[0].current),
                 reserved = static_cast<uint64_t>(s.reserved_bytes[0].current);
  std::string text = "OpenCL out of memory. Tried to allocate " + human(bytes) + ". Device " +
                     std::to_string(device_.index()) + " (" + device_.capabilities().name +
                     ") has a total capacity of " + human(device_.capabilities().global_memory);
  if (limit_) text += ", of which this process may reserve " + human(limit_);
  if (const auto available = host_available(device_))
    text += ". The host, or the control group of this process, has " + human(*available) + " left";
  const ErrorWords& words = error_words();
  text += ". Of the reserved " + human(reserved) + ", " + human(allocated) + " " + words.allocated + " and " +
          human(reserved - allocated) + " is cached. If the cached part is large, " + words.empty_cache +
          " or smaller batches may help.";
  return text;
}

}  // namespace ocl
