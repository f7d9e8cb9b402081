// In-order command queues (what PyTorch calls a stream) and events on them.
#pragma once

#include "opencl/device.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace ocl {

// Reference-counted cl_event, or the times of a command that had ended when it was issued (Device::host_launch).
class Event {
 public:
  using Times = std::pair<uint64_t, uint64_t>;

  Event() = default;
  explicit Event(cl_event event) : event_(event) {}
  explicit Event(Times times) : times_(times) {}
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)), times_(std::exchange(other.times_, {})) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(times_, other.times_);
    return *this;
  }
  Event(const Event&) = delete;
  ~Event();

  explicit operator bool() const { return event_ || times_.second; }
  cl_event handle() const { return event_; }  // null for a command that had ended
  bool complete() const;
  void wait() const;
  // Time at which the command ended, in nanoseconds of the device's clock.
  uint64_t end_time() const { return times().second; }
  // When the device began and ended the command, on the same clock.
  Times times() const;

 private:
  cl_event event_ = nullptr;
  Times times_{0, 0};
};

// One command as a profiler sees it.
struct Command {
  enum class Kind { kernel, copy, read, write, fill };
  Kind kind;
  const char* name;  // valid during the call
  size_t bytes = 0;  // moved or filled
};
// Watches every enqueued command; null when off, which is all that an unwatched command pays for. `issued`: epoch_time() before the enqueuing call.
using CommandObserver = void (*)(Queue&, const Command&, int64_t issued, Event);
void set_command_observer(CommandObserver observer);
// Nanoseconds since the epoch, the host's clock of profiles.
int64_t epoch_time();
// Nanoseconds of a steady clock, the device's clock of devices with host_launch().
uint64_t host_time();

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
  // Whether all work issued so far has ended.
  bool idle();
  Event record();           // marker behind all work issued so far, flushed
  void wait(const Event&);  // later work of this queue waits for the event

  // Bytes between addresses of this device's memory (overlap allowed only on unified memory) or host memory. Host-side
  // copies of non-unified devices block unless `blocking` is false and the host range stays alive.
  void copy(void* destination, const void* source, size_t bytes);
  void read(void* host, const void* source, size_t bytes, bool blocking = true);
  void write(void* destination, const void* host, size_t bytes, bool blocking = true);
  void fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes);

  // Where commands run on the thread that enqueues them, the lock that keeps those of several threads in order; elsewhere nothing.
  std::unique_lock<std::mutex> take_turn() { return device_.host_launch() ? std::unique_lock(turn_) : std::unique_lock<std::mutex>(); }

  // Enqueues one command: `enqueue(cl_event*)` makes the OpenCL call, whose name is for errors. Flushes every few commands, because some
  // drivers start working only then.
  template <class Enqueue>
  void command(const Command& command, const char* call, Enqueue&& enqueue) {
    const std::unique_lock<std::mutex> turn = take_turn();
    const CommandObserver observer = observer_.load(std::memory_order_relaxed);
    const int64_t before = observer ? epoch_time() : 0;
    const uint64_t start = observer && turn ? host_time() : 0;
    cl_event event = nullptr;
    const cl_int code = enqueue(observer && !turn ? &event : nullptr);
    if (code != CL_SUCCESS) [[unlikely]]
      failed(code, call, command);
    if (observer) observer(*this, command, before, turn ? Event({start, host_time()}) : Event(event));
    issued();
  }
  // To be called after a command that somebody else enqueued here.
  void issued();

 private:
  friend void set_command_observer(CommandObserver observer);
  [[noreturn]] static void failed(cl_int code, const char* call, const Command& command);

  Device& device_;
  int id_;
  cl_command_queue handle_ = nullptr;
  // Commands issued, flushed to the driver and known to have ended.
  std::atomic<uint64_t> issued_{0}, flushed_{0}, finished_{0};
  std::mutex turn_;
  std::mutex probe_mutex_;  // of the marker that idle() asks
  Event probe_;
  uint64_t probed_ = 0;
  static std::atomic<CommandObserver> observer_;
};

}  // namespace ocl
