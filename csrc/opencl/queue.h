// In-order command queues (what PyTorch calls a stream) and events on them.
#pragma once

#include "opencl/device.h"

#include <atomic>
#include <cstdint>

namespace ocl {

// Reference-counted cl_event.
class Event {
 public:
  Event() = default;
  explicit Event(cl_event event) : event_(event) {}
  Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  Event(const Event&) = delete;
  ~Event();

  explicit operator bool() const { return event_ != nullptr; }
  cl_event handle() const { return event_; }
  bool complete() const;
  void wait() const;
  // Time at which the command ended, in nanoseconds of the device's clock.
  uint64_t end_time() const;

 private:
  cl_event event_ = nullptr;
};

class Queue {
 public:
  Queue(Device& device, int id);
  Device& device() const { return device_; }
  cl_command_queue handle() const { return handle_; }
  int id() const { return id_; }  // 0 is the default queue

  // Blocks until all work issued so far has ended. Errors: ocl::Error, also for failures of earlier asynchronous commands.
  void finish();
  // Gives issued work to the driver without waiting.
  void flush();
  bool idle() const;
  Event record();           // marker behind all work issued so far, flushed
  void wait(const Event&);  // later work of this queue waits for the event

  // Bytes between addresses of this device's memory (overlap allowed only on unified memory) or host memory. Host-side
  // copies of non-unified devices block unless `blocking` is false and the host range stays alive.
  void copy(void* destination, const void* source, size_t bytes);
  void read(void* host, const void* source, size_t bytes, bool blocking = true);
  void write(void* destination, const void* host, size_t bytes, bool blocking = true);
  void fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes);

  // Counts launches, so that work is flushed to lazy drivers every few commands.
  void issued();

 private:
  Device& device_;
  int id_;
  cl_command_queue handle_ = nullptr;
  std::atomic<uint32_t> unflushed_{0};
};

}  // namespace ocl
