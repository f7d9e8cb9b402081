#include "opencl/queue.h"

#include "opencl/memory.h"

#include <cstring>

namespace ocl {

Event::~Event() {
  if (event_) report(clReleaseEvent(event_), "clReleaseEvent");
}

bool Event::complete() const {
  cl_int status = CL_QUEUED;
  check(clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr), "clGetEventInfo");
  if (status < 0) throw_error(status, "an asynchronous command");
  return status == CL_COMPLETE;
}

void Event::wait() const { check(clWaitForEvents(1, &event_), "clWaitForEvents"); }

uint64_t Event::end_time() const {
  cl_ulong time = 0;
  check(clGetEventProfilingInfo(event_, CL_PROFILING_COMMAND_END, sizeof(time), &time, nullptr), "clGetEventProfilingInfo");
  return time;
}

Queue::Queue(Device& device, int id) : device_(device), id_(id) {
  cl_int code = CL_SUCCESS;
  handle_ = clCreateCommandQueue(device.context(), device.id(), CL_QUEUE_PROFILING_ENABLE, &code);
  check(code, "clCreateCommandQueue");
}

void Queue::finish() {
  unflushed_.store(0, std::memory_order_relaxed);
  check(clFinish(handle_), "clFinish");
}

void Queue::flush() {
  unflushed_.store(0, std::memory_order_relaxed);
  check(clFlush(handle_), "clFlush");
}

void Queue::issued() {
  // Drivers that batch until a flush (Intel's CPU runtime, GPUs) start working while the host prepares further launches.
  if (unflushed_.fetch_add(1, std::memory_order_relaxed) >= 7) flush();
}

Event Queue::record() {
  cl_event event = nullptr;
  check(clEnqueueMarkerWithWaitList(handle_, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  flush();
  return Event(event);
}

bool Queue::idle() const {
  return const_cast<Queue*>(this)->record().complete();
}

void Queue::wait(const Event& event) {
  cl_event handle = event.handle();
  check(clEnqueueBarrierWithWaitList(handle_, 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
}

void Queue::copy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;
  Location to = locate(destination), from = locate(source);
  check(clEnqueueCopyBuffer(handle_, from.buffer, to.buffer, from.offset, to.offset, bytes, 0, nullptr, nullptr), "clEnqueueCopyBuffer");
  issued();
}

void Queue::read(void* host, const void* source, size_t bytes, bool blocking) {
  if (bytes == 0) return;
  Location from = locate(source);
  if (device_.capabilities().unified_memory && blocking) {
    finish();
    std::memcpy(host, source, bytes);
    return;
  }
  check(clEnqueueReadBuffer(handle_, from.buffer, blocking ? CL_TRUE : CL_FALSE, from.offset, bytes, host, 0, nullptr, nullptr),
        "clEnqueueReadBuffer");
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
  check(clEnqueueWriteBuffer(handle_, to.buffer, blocking ? CL_TRUE : CL_FALSE, to.offset, bytes, host, 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
  if (!blocking) flush();
}

void Queue::fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  if (bytes == 0) return;
  Location to = locate(destination);
  check(clEnqueueFillBuffer(handle_, to.buffer, pattern, pattern_bytes, to.offset, bytes, 0, nullptr, nullptr), "clEnqueueFillBuffer");
  issued();
}

}  // namespace ocl
