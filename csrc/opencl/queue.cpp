#include "opencl/queue.h"

#include "opencl/command_list.h"
#include "opencl/memory/segment.h"
#include "opencl/memory/out_of_memory.h"
#include "opencl/part_executor.h"

#include <chrono>
#include <array>
#include <cstring>

namespace ocl {

Event::~Event() {
  if (event_) report(clReleaseEvent(event_), "clReleaseEvent");
  if (times_) times_->release();
}

static void refuse_host(const CommandList* capture) {
  if (capture) throw Error("an event that was recorded while a graph was captured says nothing about the device");
}

bool Event::complete() const {
  refuse_host(capture_.get());
  if (times_) return executor_->complete(ticket_);
  cl_int status = CL_QUEUED;
  check(clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr), "clGetEventInfo");
  if (status < 0) throw_error(status, "an asynchronous command");
  return status == CL_COMPLETE;
}

void Event::wait() const {
  refuse_host(capture_.get());
  if (times_) return executor_->wait(ticket_);
  check(clWaitForEvents(1, &event_), "clWaitForEvents");
}

Event::Times Event::times() const {
  refuse_host(capture_.get());
  if (times_) {
    wait();
    return times_->get();
  }
  cl_ulong start = 0, end = 0;
  check(clGetEventProfilingInfo(event_, CL_PROFILING_COMMAND_START, sizeof(start), &start, nullptr),
        "clGetEventProfilingInfo");
  check(clGetEventProfilingInfo(event_, CL_PROFILING_COMMAND_END, sizeof(end), &end, nullptr),
        "clGetEventProfilingInfo");
  return {start, end};
}

std::atomic<CommandObserver> Queue::observer_{nullptr};
thread_local int Queue::NoFlush::depth_ = 0;
thread_local int Queue::Uncaptured::depth_ = 0;

void set_command_observer(CommandObserver observer) { Queue::observer_.store(observer); }

int64_t epoch_time() { return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

uint64_t host_time() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Queue::Queue(Device& device, int id) : device_(device), id_(id) {
  cl_int code = CL_SUCCESS;
  const cl_command_queue_properties execution = device.executor() ? device.executor()->queue_properties() : 0;
  handle_ = clCreateCommandQueue(device.context(), device.id(), CL_QUEUE_PROFILING_ENABLE | execution, &code);
  check(code, "clCreateCommandQueue");
}

static void raise_to(std::atomic<uint64_t>& counter, uint64_t value) {
  uint64_t now = counter.load(std::memory_order_relaxed);
  while (now < value && !counter.compare_exchange_weak(now, value, std::memory_order_relaxed)) {}
}

void Queue::refuse_capture(const char* what) const {
  if (CommandList* list = capture()) [[unlikely]]
    list->refuse(what);
}

void Queue::finish() {
  refuse_capture("waiting for the device");
  flush_deferred();
  const uint64_t issued = issued_.load(std::memory_order_relaxed);
  const uint64_t finished = finished_.load(std::memory_order_relaxed);
  if (finished >= issued) return;  // nothing since the last time
  if (device_.executor()) finish_on_host();
  if (!device_.executor() || shared_.load()) check(clFinish(handle_), "clFinish");
  raise_to(flushed_, issued);
  raise_to(finished_, issued);
}

void Queue::issued_on_host(Executor::Ticket ticket) {
  raise_to(ticket_, ticket);
  issued_.fetch_add(1, std::memory_order_relaxed);
  if (shared_.load(std::memory_order_relaxed)) device_.executor()->wait(ticket);
}

void Queue::finish_on_host() {
  device_.executor()->wait(ticket_.load(std::memory_order_relaxed));
  if (!failed_.exchange(false)) return;
  std::optional<Failure> failure;
  {
    std::lock_guard lock(failure_mutex_);
    failure.swap(failure_);
  }
  if (failure) failed(failure->code, failure->what);
}

void Queue::fail_later(cl_int code, const std::string& what) {
  std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = {code, what};
  failed_.store(true);
}

cl_command_queue Queue::share_handle() {
  refuse_capture("sharing the stream's queue");
  flush_deferred();
  if (!shared_.exchange(true) && device_.executor()) device_.executor()->wait(ticket_.load());
  return handle_;
}

void Queue::flush() {
  if (device_.executor()) device_.executor()->start();
  raise_to(flushed_, issued_.load(std::memory_order_relaxed));
  check(clFlush(handle_), "clFlush");
}

void Queue::issued() {
  // Drivers that batch until a flush (Intel's CPU runtime, GPUs) start working while the host prepares further
  // launches.
  const uint64_t issued = issued_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (device_.executor()) return;  // nothing to flush
  if (issued - flushed_.load(std::memory_order_relaxed) >= 8) flush();
}

std::string Queue::command_text(const char* call, const Command& command) {
  return command.kind == Command::Kind::kernel ? std::string(call) + "(" + command.name + ")" : call;
}

void Queue::failed(cl_int code, const std::string& what) {
  // Some drivers find memory for a buffer when a command first uses it.
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE)
    raise_out_of_memory(what + " failed: OpenCL out of memory (" + error_name(code) + ")");
  throw_error(code, what.c_str());
}

Event Queue::record() {
  flush_deferred();
  if (CommandList* list = capture()) [[unlikely]]
    return Event(list->shared_from_this());
  if (Executor* executor = device_.executor()) {
    auto* times = new HostTimes;
    const Executor::Ticket ticket = executor->submit(1, [times](const void*) {
      times->begin();
      times->end();
      times->release();
    });
    raise_to(ticket_, ticket);
    return Event(*executor, ticket, times);
  }
  cl_event event = nullptr;
  check(clEnqueueMarkerWithWaitList(handle_, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  flush();
  return Event(event);
}

bool Queue::idle() {
  refuse_capture("asking whether the device is idle");
  flush_deferred();
  const uint64_t issued = issued_.load(std::memory_order_relaxed);
  if (finished_.load(std::memory_order_relaxed) >= issued) return true;
  if (device_.executor()) return device_.executor()->complete(ticket_.load(std::memory_order_relaxed));
  std::lock_guard lock(probe_mutex_);
  if (!probe_ || probed_ < issued) {
    probe_ = record();
    probed_ = issued;
  }
  if (!probe_.complete()) return false;
  raise_to(finished_, probed_);
  return finished_.load(std::memory_order_relaxed) >= issued;
}

void Queue::wait(const Event& event) {
  flush_deferred();
  if (!event) return;
  if (CommandList* list = event.capture()) [[unlikely]] {
    if (!list->capturing()) throw Error("the event was recorded by the capture of a graph that has ended");
    return list->join(*this);
  }
  if (capture()) return event.wait();  // once for all replays
  cl_event handle = event.handle();
  if (!device_.executor() && handle) {
    check(clEnqueueBarrierWithWaitList(handle_, 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
    issued_.fetch_add(1, std::memory_order_relaxed);
  } else if (device_.executor() && !handle && order_of(event.ticket()) == order_of(device_)) {
    issued_on_host(event.ticket());  // executors keep the commands of their queues in order
  } else {
    event.wait();
  }
}

// One of the four transfers: by memcpy where commands run on threads of this process and addresses are the device's,
// otherwise by the driver.
template <class Direct, class Enqueue>
void Queue::transfer(const Command& what, const char* call, const Direct& direct, const Enqueue& enqueue,
                     const void* data, size_t bytes) {
  flush_deferred();
  Executor* executor = device_.executor();
  if (!executor) return command(what, call, enqueue);
  const float expected = executor->copy_time(what.bytes);
  if (device_.takes_addresses())
    host_command(
        *executor, what, call, expected, [=](const void* kept) { return direct(*executor, kept), CL_SUCCESS; }, data,
        bytes);
  else
    host_command(*executor, what, call, expected, [=](const void*) -> cl_int { return enqueue(nullptr); });
}

void Queue::copy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;
  const Location to = locate(destination), from = locate(source);
  flush_deferred();
  if (CommandList* list = capture()) [[unlikely]]
    return list->add_copy(*this, destination, source, bytes);
  transfer(
      {Command::Kind::copy, "Memcpy DtoD", bytes}, "clEnqueueCopyBuffer",
      [=](Executor& executor, const void*) { executor.copy(destination, source, bytes); },
      [=, queue = handle_](cl_event* event) {
        return clEnqueueCopyBuffer(queue, from.buffer, to.buffer, from.offset, to.offset, bytes, 0, nullptr, event);
      });
}

// Whether the threads of the pool share a copy that the caller waits for. One thread does not take the whole bandwidth
// of memory; but for short copies it is done before the others are awake.
static bool copied_by_pool(const Device& device, size_t bytes) {
  constexpr size_t worthwhile = size_t{1} << 20;
  return bytes >= worthwhile && device.executor() && device.takes_addresses();
}

void Queue::read(void* host, const void* source, size_t bytes, bool blocking) {
  if (bytes == 0) return;
  const Location from = locate(source);
  if (blocking) refuse_capture("a copy to the host");
  flush_deferred();
  if (CommandList* list = capture()) [[unlikely]]
    return list->add_read(*this, host, source, bytes);
  if (device_.capabilities().unified_memory && blocking && !copied_by_pool(device_, bytes)) {
    finish();
    std::memcpy(host, source, bytes);
    return;
  }
  transfer(
      {Command::Kind::read, "Memcpy DtoH", bytes}, "clEnqueueReadBuffer",
      [=](Executor& executor, const void*) { executor.copy(host, source, bytes); },
      [=, queue = handle_](cl_event* event) {
        return clEnqueueReadBuffer(queue, from.buffer, blocking ? CL_TRUE : CL_FALSE, from.offset, bytes, host, 0,
                                   nullptr, event);
      });
  if (!blocking)
    flush();
  else if (device_.executor())
    finish();
}

void Queue::write(void* destination, const void* host, size_t bytes, bool blocking) {
  if (bytes == 0) return;
  const Location to = locate(destination);
  flush_deferred();
  if (CommandList* list = capture()) [[unlikely]] {
    if (!blocking) return list->add_write(*this, destination, host, bytes);
    if (bytes > 4096) list->refuse("a copy of more than 4096 bytes from memory of the host that is not pinned");
    return list->add_copy(*this, destination, list->constant(*this, host, bytes), bytes);
  }
  // Little enough to be kept until its turn comes.
  const bool keep = bytes <= 4096 && device_.executor() && device_.takes_addresses();
  if (device_.capabilities().unified_memory && blocking && !keep && !copied_by_pool(device_, bytes)) {
    finish();
    std::memcpy(destination, host, bytes);
    return;
  }
  transfer(
      {Command::Kind::write, "Memcpy HtoD", bytes}, "clEnqueueWriteBuffer",
      [=](Executor& executor, const void* kept) { executor.copy(destination, keep ? kept : host, bytes); },
      [=, queue = handle_](cl_event* event) {
        return clEnqueueWriteBuffer(queue, to.buffer, blocking ? CL_TRUE : CL_FALSE, to.offset, bytes, host, 0, nullptr,
                                    event);
      },
      host, keep ? bytes : 0);
  if (!blocking)
    flush();
  else if (device_.executor() && !keep)
    finish();
}

void Queue::fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  if (bytes == 0) return;
  const Location to = locate(destination);
  flush_deferred();
  if (CommandList* list = capture()) [[unlikely]]
    return list->add_fill(*this, destination, pattern, pattern_bytes, bytes);
  std::array<char, 128> kept;  // OpenCL's longest
  std::memcpy(kept.data(), pattern, pattern_bytes);
  transfer(
      {Command::Kind::fill, "Memset", bytes}, "clEnqueueFillBuffer",
      [=](Executor& executor, const void*) { executor.fill(destination, kept.data(), pattern_bytes, bytes); },
      [=, queue = handle_](cl_event* event) {
        return clEnqueueFillBuffer(queue, to.buffer, kept.data(), pattern_bytes, to.offset, bytes, 0, nullptr, event);
      });
}

void* Queue::counters() {
  if (CommandList* list = capture()) [[unlikely]]
    return list->counters(*this);
  if (void* memory = counters_.load(std::memory_order_acquire)) [[likely]]
    return memory;
  std::lock_guard lock(counters_mutex_);
  if (!counters_.load()) {
    constexpr size_t bytes = counter_count * sizeof(int32_t);
    void* memory = allocate_segment(device_, bytes);
    const int32_t zero = 0;
    fill(memory, &zero, sizeof zero, bytes);
    counters_.store(memory, std::memory_order_release);
  }
  return counters_.load();
}

}  // namespace ocl
