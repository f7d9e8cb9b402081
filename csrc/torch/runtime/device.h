// The thread's current device and streams, and the map between c10 streams and OpenCL queues.
#pragma once

#include "opencl/queue.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace ocl::runtime {

inline constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device();
// Errors: c10::Error when the index is not in [0, device_count()).
void set_device(c10::DeviceIndex index);
// Errors as set_device; -1 is allowed.
void check_index(c10::DeviceIndex index);
c10::DeviceIndex exchange_device(c10::DeviceIndex index);

// index -1: the current device.
Device& device(c10::DeviceIndex index = -1);

// The queue behind the thread's current stream on a device.
Queue& current_queue(c10::DeviceIndex index = -1);
// Opens no device.
c10::Stream current_stream(c10::DeviceIndex index = -1);
void set_stream(c10::Stream stream);
c10::Stream stream_of(const Queue& queue);
Queue& queue_of(c10::Stream stream);

// Waits for one stream, or all of a device. Errors: c10::AcceleratorError for what failed on the device since the last
// time, with the OpenCL error code, or CL_INVALID_VALUE for an index out of range that a kernel met.
void synchronize(Queue& queue);
void synchronize_device(c10::DeviceIndex index);
// Blocking copy to the host; raises like synchronize.
void read(Queue& queue, void* host, const void* source, size_t bytes);

}  // namespace ocl::runtime
