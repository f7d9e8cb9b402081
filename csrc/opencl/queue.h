// In-order command queues (what PyTorch calls a stream) and events on them.
#pragma once

#include "opencl/device.h"
#include "opencl/executor.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace ocl {

class CommandList;

// Nanoseconds of a steady clock, the device's clock of devices with executor().
uint64_t host_time();

// When a command of a device with executor() began and ended. Belongs to an event and, until it has ended, to the
// command.
class HostTimes {
 public:
  void begin() { begin_ = host_time(); }
  void end() { end_ = host_time(); }
  std::pair<uint64_t, uint64_t> get() const { return {begin_, end_}; }
  void release() {
    if (owners_.fetch_sub(1) == 1) delete this;
  }

 private:
  ~HostTimes() = default;
  uint64_t begin_ = 0, end_ = 0;
  std::atomic<int> owners_{2};
};

// Reference-counted cl_event, or a command of an executor (Device::executor), or a place in what is being captured
// (command_list.h), which only queues can wait for.
class Event {
 public:
  using Times = std::pair<uint64_t, uint64_t>;

  Event() = default;
  explicit Event(cl_event event) : event_(event) {}
  Event(Executor& executor, Executor::Ticket ticket, HostTimes* times)
      : executor_(&executor), ticket_(ticket), times_(times) {}
  explicit Event(std::shared_ptr<CommandList> capture) : capture_(std::move(capture)) {}
  Event(Event&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)),
        executor_(other.executor_),
        ticket_(other.ticket_),
        times_(std::exchange(other.times_, nullptr)),
        capture_(std::move(other.capture_)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(executor_, other.executor_);
    std::swap(ticket_, other.ticket_);
    std::swap(times_, other.times_);
    std::swap(capture_, other.capture_);
    return *this;
  }
  Event(const Event&) = delete;
  ~Event();

  explicit operator bool() const { return event_ || times_ || capture_; }
  cl_event handle() const { return event_; }  // null for a command of an executor
  Executor::Ticket ticket() const { return ticket_; }
  CommandList* capture() const { return capture_.get(); }  // null unless recorded on a queue that captured
  bool complete() const;
  void wait() const;
  // Time at which the command ended, in nanoseconds of the device's clock.
  uint64_t end_time() const { return times().second; }
  // When the device began and ended the command, on the same clock.
  Times times() const;

 private:
  cl_event event_ = nullptr;
  Executor* executor_ = nullptr;
  Executor::Ticket ticket_ = 0;
  HostTimes* times_ = nullptr;
  std::shared_ptr<CommandList> capture_;
};

// One command as a profiler sees it.
struct Command {
  enum class Kind { kernel, copy, read, write, fill };
  Kind kind;
  const char* name;  // valid during the call
  size_t bytes = 0;  // moved or filled
};
// Watches every enqueued command; null when off, which is all that an unwatched command pays for. `issued`:
// epoch_time() before the enqueuing call.
using CommandObserver = void (*)(Queue&, const Command&, int64_t issued, Event);
void set_command_observer(CommandObserver observer);
// Nanoseconds since the epoch, the host's clock of profiles.
int64_t epoch_time();

class Queue {
 public:
  Queue(Device& device, int id);
  Device& device() const { return device_; }
  cl_command_queue handle() const { return handle_; }
  int id() const { return id_; }                                                 // 0 is the default queue
  uint64_t commands() const { return issued_.load(std::memory_order_relaxed); }  // issued so far

  // The list that takes what is issued to this queue (command_list.h). Null: it runs.
  CommandList* capture() const {
    CommandList* list = capture_.load(std::memory_order_acquire);
    return list && !Uncaptured::here() ? list : nullptr;
  }
  // While one exists, commands of this thread run also on queues that capture.
  class Uncaptured {
   public:
    Uncaptured() { ++depth_; }
    ~Uncaptured() { --depth_; }
    Uncaptured(const Uncaptured&) = delete;
    static bool here() { return depth_ > 0; }

   private:
    static thread_local int depth_;
  };

  // Blocks until all work issued so far has ended. Errors: ocl::Error, also for failures of earlier asynchronous
  // commands, and while the queue captures.
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

  // counter_count ints of the device's memory, for counting inside of one kernel of this queue at a time: zero before
  // and after it. They live as long as the process. Errors: OutOfMemory.
  static constexpr size_t counter_count = 1024;
  void* counters();

  // Deferred work, which may be fused with the work behind it: `flush` runs before the next command or query of this
  // queue (commands that others enqueue on handle() excepted). Null: there is none.
  void defer(void (*flush)(Queue&)) { deferred_.store(flush, std::memory_order_release); }
  void flush_deferred() {
    if (auto* flush = deferred_.load(std::memory_order_acquire); flush && !NoFlush::here()) [[unlikely]]
      flush(*this);
  }
  // While one exists, commands of this thread do not flush deferred work: the thread is flushing it, or has flushed it
  // and taken locks since.
  class NoFlush {
   public:
    NoFlush() { ++depth_; }
    ~NoFlush() { --depth_; }
    NoFlush(const NoFlush&) = delete;
    static bool here() { return depth_ > 0; }

   private:
    static thread_local int depth_;
  };
  // Whether work must not be deferred: an observer watches commands, or others enqueue on handle().
  bool watched() const { return observer_.load(std::memory_order_relaxed) || shared_.load(std::memory_order_relaxed); }

  // Enqueues one command: `enqueue(cl_event*)` makes the OpenCL call, whose name is for errors. Flushes every few
  // commands, because some drivers start working only then. Not for devices with executor().
  template <class Enqueue>
  void command(const Command& command, const char* call, const Enqueue& enqueue) {
    const CommandObserver observer = observer_.load(std::memory_order_relaxed);
    const int64_t before = observer ? epoch_time() : 0;
    cl_event event = nullptr;
    const cl_int code = enqueue(observer ? &event : nullptr);
    if (code != CL_SUCCESS) [[unlikely]]
      failed(code, command_text(call, command));
    issued();
    if (observer) observer(*this, command, before, Event(event));
  }

  // The same for devices with executor(), of its own type where that is known (no virtual call): `run(data)`, a
  // trivially copyable function object, is called later on another thread with a copy of `data` and returns an error
  // code, which finish() raises. `expected`, `fusion`: see Executor::submit; watched commands are not fused.
  template <class E, class Run>
  void host_command(E& executor, const Command& command, const char* call, float expected, const Run& run,
                    const void* data = nullptr, size_t bytes = 0, const Fusion& fusion = {}) {
    const CommandObserver observer = observer_.load(std::memory_order_relaxed);
    const int64_t before = observer ? epoch_time() : 0;
    HostTimes* const times = observer ? new HostTimes : nullptr;
    const Executor::Ticket ticket = executor.submit(
        expected,
        [this, command, call, times, run](const void* data) {
          if (times) times->begin();
          if (const cl_int code = run(data); code != CL_SUCCESS) [[unlikely]]
            fail_later(code, command_text(call, command));
          if (times) times->end(), times->release();
        },
        data, bytes, observer ? Fusion{} : fusion);
    issued_on_host(ticket);
    if (observer) observer(*this, command, before, Event(executor, ticket, times));
  }

  // Keeps the error of an asynchronous command for the next finish().
  void fail_later(cl_int code, const std::string& what);

  // The queue for others to enqueue on. On devices with executor() such commands run on the enqueuing thread: from now
  // on ours have ended when they are issued.
  cl_command_queue share_handle();
  // To be called after a command that somebody else enqueued here.
  void issued();

 private:
  friend void set_command_observer(CommandObserver observer);
  friend class CommandList;
  void refuse_capture(const char* what) const;
  [[noreturn]] static void failed(cl_int code, const std::string& what);
  static std::string command_text(const char* call, const Command& command);
  template <class Direct, class Enqueue>
  void transfer(const Command& what, const char* call, const Direct& direct, const Enqueue& enqueue,
                const void* data = nullptr, size_t bytes = 0);
  void issued_on_host(Executor::Ticket ticket);
  void finish_on_host();

  struct Failure {
    cl_int code;
    std::string what;
  };

  Device& device_;
  int id_;
  cl_command_queue handle_ = nullptr;
  // Commands issued, flushed to the driver and known to have ended.
  std::atomic<uint64_t> issued_{0}, flushed_{0}, finished_{0};
  std::atomic<Executor::Ticket> ticket_{0};  // the last command of the executor
  std::atomic<bool> shared_{false}, failed_{false};
  std::atomic<void (*)(Queue&)> deferred_{nullptr};
  std::atomic<CommandList*> capture_{nullptr};
  std::mutex counters_mutex_;
  std::atomic<void*> counters_{nullptr};
  std::mutex failure_mutex_;
  std::optional<Failure> failure_;
  std::mutex probe_mutex_;  // of the marker that idle() asks
  Event probe_;
  uint64_t probed_ = 0;
  static std::atomic<CommandObserver> observer_;
};

}  // namespace ocl
