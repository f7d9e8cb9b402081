#include "opencl/queue.h"

#include "opencl/host_launch.h"
#include "opencl/memory.h"
#include "opencl/out_of_memory.h"

#include <chrono>
#include <cstring>

namespace ocl {

Event::~Event() {
  if (event_) report(clReleaseEvent(event_), "clReleaseEvent");
}

bool Event::complete() const {
  if (!event_ && times_.second) return true;
  cl_int status = CL_QUEUED;
  check(clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr), "clGetEventInfo");
  if (status < 0) throw_error(status, "an asynchronous command");
  return status == CL_COMPLETE;
}

void Event::wait() const {
  if (!event_ && times_.second) return;
  check(clWaitForEvents(1, &event_), "clWaitForEvents");
}

Event::Times Event::times() const {
  if (!event_ && times_.second) return times_;
  cl_ulong start = 0, end = 0;
  check(clGetEventProfilingInfo(event_, CL_PROFILING_COMMAND_START, sizeof(start), &start, nullptr), "clGetEventProfilingInfo");
  check(clGetEventProfilingInfo(event_, CL_PROFILING_COMMAND_END, sizeof(end), &end, nullptr), "clGetEventProfilingInfo");
  return {start, end};
}

std::atomic<CommandObserver> Queue::observer_{nullptr};

void set_command_observer(CommandObserver observer) { Queue::observer_.store(observer); }

int64_t epoch_time() { return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

uint64_t host_time() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Queue::Queue(Device& device, int id) : device_(device), id_(id) {
  cl_int code = CL_SUCCESS;
  handle_ = clCreateCommandQueue(device.context(), device.id(), CL_QUEUE_PROFILING_ENABLE, &code);
  check(code, "clCreateCommandQueue");
}

static void raise_to(std::atomic<uint64_t>& counter, uint64_t value) {
  uint64_t now = counter.load(std::memory_order_relaxed);
  while (now < value && !counter.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

void Queue::finish() {
  const uint64_t issued = issued_.load(std::memory_order_relaxed);
  if (finished_.load(std::memory_order_relaxed) >= issued) return;  // nothing since the last time
  const auto turn = take_turn();
  check(clFinish(handle_), "clFinish");
  raise_to(flushed_, issued);
  raise_to(finished_, issued);
}

void Queue::flush() {
  raise_to(flushed_, issued_.load(std::memory_order_relaxed));
  check(clFlush(handle_), "clFlush");
}

void Queue::issued() {
  // Drivers that batch until a flush (Intel's CPU runtime, GPUs) start working while the host prepares further launches.
  const uint64_t issued = issued_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (device_.host_launch()) return;  // it has ended
  if (issued - flushed_.load(std::memory_order_relaxed) >= 8) flush();
}

void Queue::failed(cl_int code, const char* call, const Command& command) {
  std::string what = call;
  if (command.kind == Command::Kind::kernel) what += std::string("(") + command.name + ")";
  // Some drivers find memory for a buffer when a command first uses it.
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE) raise_out_of_memory(what + " failed: OpenCL out of memory (" + error_name(code) + ")");
  throw_error(code, what.c_str());
}

Event Queue::record() {
  if (const auto turn = take_turn()) {
    const uint64_t now = host_time();
    return Event({now, now});
  }
  cl_event event = nullptr;
  check(clEnqueueMarkerWithWaitList(handle_, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  flush();
  return Event(event);
}

bool Queue::idle() {
  const uint64_t issued = issued_.load(std::memory_order_relaxed);
  if (finished_.load(std::memory_order_relaxed) >= issued) return true;
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
  cl_event handle = event.handle();
  if (!handle) return;  // ended
  check(clEnqueueBarrierWithWaitList(handle_, 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
  issued_.fetch_add(1, std::memory_order_relaxed);
}

void Queue::copy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;
  Location to = locate(destination), from = locate(source);
  command({Command::Kind::copy, "Memcpy DtoD", bytes}, "clEnqueueCopyBuffer", [&](cl_event* event) -> cl_int {
    if (device_.takes_addresses()) return device_.host_launch()->copy(destination, source, bytes), CL_SUCCESS;
    return clEnqueueCopyBuffer(handle_, from.buffer, to.buffer, from.offset, to.offset, bytes, 0, nullptr, event);
  });
}

void Queue::read(void* host, const void* source, size_t bytes, bool blocking) {
  if (bytes == 0) return;
  Location from = locate(source);
  if (device_.capabilities().unified_memory && blocking) {
    finish();
    std::memcpy(host, source, bytes);
    return;
  }
  command({Command::Kind::read, "Memcpy DtoH", bytes}, "clEnqueueReadBuffer", [&](cl_event* event) {
    return clEnqueueReadBuffer(handle_, from.buffer, blocking ? CL_TRUE : CL_FALSE, from.offset, bytes, host, 0, nullptr, event);
  });
  if (!blocking) flush();
}

void Queue::write(void* destination, const void* host, size_t bytes, bool blocking) {
  if (bytes == 0) return;
  Location to = locate(destination);
  if (device_.capabilities().unified_memory && blocking) {
    finish();
    std::memcpy(destination, host, bytes);
    return;
  }
  command({Command::Kind::write, "Memcpy HtoD", bytes}, "clEnqueueWriteBuffer", [&](cl_event* event) {
    return clEnqueueWriteBuffer(handle_, to.buffer, blocking ? CL_TRUE : CL_FALSE, to.offset, bytes, host, 0, nullptr, event);
  });
  if (!blocking) flush();
}

void Queue::fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  if (bytes == 0) return;
  Location to = locate(destination);
  command({Command::Kind::fill, "Memset", bytes}, "clEnqueueFillBuffer", [&](cl_event* event) -> cl_int {
    if (device_.takes_addresses()) return device_.host_launch()->fill(destination, pattern, pattern_bytes, bytes), CL_SUCCESS;
    return clEnqueueFillBuffer(handle_, to.buffer, pattern, pattern_bytes, to.offset, bytes, 0, nullptr, event);
  });
}

}  // namespace ocl
