// The host's memory, where it is a device's: on CPU devices, and on GPUs that share memory with the host. Pages take
// memory when they are first written, and then it is too late for an error: the system ends a process that has no
// memory left, or a process of its control group. So segments that are promised and not written yet are counted here.
#pragma once

#include <cstdint>
#include <optional>

namespace ocl {

class Device;

// Bytes that segments of this device may still take without harm; nothing: they are not the host's, or it is unknown.
std::optional<uint64_t> host_available(const Device& device);
// Whether a new segment of `bytes` finds memory. `reserved`: bytes of the segments that there are (saves a look at
// their pages where memory is plenty).
bool host_has(const Device& device, uint64_t bytes, uint64_t reserved);

// Bytes in segments of this device that were never written. By segment.cpp, which knows the segments.
uint64_t unwritten_bytes(const Device& device);

}  // namespace ocl
