#include "ops/core/device_errors.h"

#include "opencl/command_list.h"
#include "opencl/memory/segment.h"

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace ocl::ops {
namespace {

struct Site {
  const char* op;
  ErrorSite::Kind kind;
};

struct Sites {
  std::mutex mutex;
  std::deque<Site> rows;
};

Sites& sites() {
  static Sites* instance = new Sites;
  return *instance;
}

struct Record {
  int32_t code, unused;
  int64_t value, bound;
};

std::string describe(const Record& record) {
  Site site{"a kernel", ErrorSite::Kind::index_out_of_range};
  {
    std::lock_guard lock(sites().mutex);
    if (record.code > 0 && static_cast<size_t>(record.code) <= sites().rows.size())
      site = sites().rows[record.code - 1];
  }
  std::string op(site.op);
  if (site.kind == ErrorSite::Kind::message) return op;
  const std::string value = std::to_string(record.value), bound = std::to_string(record.bound);
  if (site.kind == ErrorSite::Kind::source_too_small)
    return op + ": source has " + bound + " elements, fewer than the mask selects (element " + value + " was needed)";
  return "index out of range in " + op + ": index " + value + " is out of bounds for dimension with size " + bound;
}

}  // namespace

ErrorSite::ErrorSite(const char* op, Kind kind) {
  std::lock_guard lock(sites().mutex);
  sites().rows.push_back({op, kind});
  code_ = static_cast<int32_t>(sites().rows.size());
}

// A segment of its own: statistics of the caching allocator count only the user's memory.
ErrorFlag::ErrorFlag(Device& device)
    : data_(static_cast<int32_t*>(allocate_segment(device, 4096))),
      host_visible_(device.capabilities().unified_memory) {
  const Record none{};
  const Queue::Uncaptured now;
  device.default_queue().write(data_, &none, sizeof none);
}

int32_t* ErrorFlag::data() {
  armed_.store(true, std::memory_order_relaxed);
  if (CommandList::captures() > 0) in_graphs_.store(true, std::memory_order_relaxed);
  return data_;
}

void ErrorFlag::check(Queue& queue) {
  const bool armed = armed_.exchange(false, std::memory_order_relaxed);
  if (!armed && !in_graphs_.load(std::memory_order_relaxed)) return;
  Record record{};
  if (host_visible_) {
    if (*static_cast<volatile int32_t*>(data_) == 0) return;
    std::memcpy(&record, data_, sizeof record);
  } else {
    queue.read(&record, data_, sizeof record);
  }
  if (record.code == 0) return;
  const Record none{};
  queue.write(data_, &none, sizeof none);
  throw KernelError(describe(record));
}

ErrorFlag& device_errors(Device& device) {
  static std::mutex mutex;
  static auto* flags = new std::vector<std::unique_ptr<ErrorFlag>>;
  std::lock_guard lock(mutex);
  const size_t index = static_cast<size_t>(device.index());
  if (flags->size() <= index) flags->resize(index + 1);
  if (!(*flags)[index]) (*flags)[index] = std::make_unique<ErrorFlag>(device);
  return *(*flags)[index];
}

void check_device_errors(Queue& queue) { device_errors(queue.device()).check(queue); }

}  // namespace ocl::ops
