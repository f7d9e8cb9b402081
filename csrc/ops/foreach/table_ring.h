// Small tables that the host writes and a kernel reads soon after, without waiting: a ring of device memory per queue.
// A slot is taken again only when the kernels that read it have ended.
#pragma once

#include "opencl/queue.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace ocl::ops {

class TableRing {
 public:
  // The ring of a queue, made at first use and kept for ever.
  static TableRing& of(Queue& queue);

  // Copies `table` to the device and calls `use` with its address; work issued inside may read it. Errors: OutOfMemory,
  // not for tables that reserve() made room for.
  void with(const std::vector<uint64_t>& table, const std::function<void(const void*)>& use);

  // Makes room for tables of this size in every slot. Errors: OutOfMemory; the slots then are as before or larger.
  void reserve(size_t bytes);

 private:
  explicit TableRing(Queue& queue) : queue_(queue) {}

  struct Slot {
    void* memory = nullptr;
    size_t bytes = 0;
    std::vector<uint64_t> staging;  // source of the asynchronous copy
    Event used;
  };
  Slot& take(size_t bytes);
  void grow(Slot& slot, size_t bytes);

  Queue& queue_;
  std::mutex mutex_;
  std::array<Slot, 32> slots_;
  size_t next_ = 0;
  std::atomic<size_t> reserved_{0};  // bytes that every slot has
};

}  // namespace ocl::ops
