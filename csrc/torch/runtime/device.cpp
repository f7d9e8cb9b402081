#include "torch/runtime/device.h"

#include "torch/runtime/openmp.h"

#include "opencl/command_list.h"
#include "ops/core/device_errors.h"

#include <c10/util/Exception.h>

#include <vector>

namespace ocl::runtime {

namespace {

thread_local c10::DeviceIndex this_device = 0;
thread_local std::vector<Queue*> this_queues;  // by device; missing or null: the default queue

}  // namespace

c10::DeviceIndex device_count() noexcept {
  static const auto count = static_cast<c10::DeviceIndex>(Device::count());
  return count;
}

c10::DeviceIndex current_device() { return this_device; }

void check_index(c10::DeviceIndex index) {
  TORCH_CHECK(index >= -1 && index < device_count(), "OCL error: invalid device ordinal ", static_cast<int>(index),
              "; ", static_cast<int>(device_count()), " device(s) are visible");
}

void set_device(c10::DeviceIndex index) {
  check_index(index);
  if (index >= 0) this_device = index;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const c10::DeviceIndex old = this_device;
  if (index >= 0 && index != old) set_device(index);
  return old;
}

Device& device(c10::DeviceIndex index) {
  check_index(index);
  return Device::get(index < 0 ? this_device : index);
}

Queue& current_queue(c10::DeviceIndex index) {
  follow_thread_limit();
  if (index < 0) index = this_device;
  Device& d = device(index);  // also the check against forked children
  if (static_cast<size_t>(index) < this_queues.size() && this_queues[index]) return *this_queues[index];
  return d.default_queue();
}

c10::Stream stream_of(const Queue& queue) {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(device_type, static_cast<c10::DeviceIndex>(queue.device().index())), queue.id());
}

c10::Stream current_stream(c10::DeviceIndex index) {
  if (index < 0) index = this_device;
  const size_t i = static_cast<uint8_t>(index);
  if (i < this_queues.size() && this_queues[i]) return stream_of(*this_queues[i]);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(device_type, index), 0);
}

Queue& queue_of(c10::Stream stream) { return device(stream.device_index()).queue(static_cast<int>(stream.id())); }

void set_stream(c10::Stream stream) {
  const size_t index = static_cast<uint8_t>(stream.device_index());
  if (this_queues.size() <= index) this_queues.resize(index + 1, nullptr);
  this_queues[index] = &queue_of(stream);
}

// Failures of earlier, asynchronous work have CUDA's type.
template <class Wait>
static void reporting(Queue& queue, Wait&& wait) {
  try {
    wait();
    ops::check_device_errors(queue);
  } catch (const OutOfMemory& error) {
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, error.what());
  } catch (const DriverError& error) {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, error.code(),
                                std::string("OCL error: ") + error.what());
  } catch (const KernelError& error) {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, CL_INVALID_VALUE,
                                std::string("OCL error: ") + error.what());
  }
}

void synchronize(Queue& queue) {
  reporting(queue, [&] { queue.finish(); });
}

void synchronize_device(c10::DeviceIndex index) {
  Device& d = device(index);
  if (CommandList* list = current_queue(index).capture()) list->refuse("waiting for the device");
  reporting(d.default_queue(), [&] { d.synchronize(); });
}

void read(Queue& queue, void* host, const void* source, size_t bytes) {
  reporting(queue, [&] { queue.read(host, source, bytes); });
}

}  // namespace ocl::runtime
