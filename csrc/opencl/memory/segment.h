// Device memory as addresses. Memory comes in segments (one cl_mem each); an ordered map turns any address inside a
// segment into (cl_mem, byte offset). On devices that share memory with the host the segment is host memory
// (CL_MEM_USE_HOST_PTR) and the address is the host address; elsewhere the segment reserves address space that nobody
// dereferences.
#pragma once

#include "opencl/device.h"

#include <cstddef>

namespace ocl {

// Readable bytes kept before and after every block, so that vector kernels may over-read instead of masking.
inline constexpr size_t slack_bytes = 256;

struct Location {
  cl_mem buffer = nullptr;
  size_t offset = 0;  // bytes
  Device* device = nullptr;
};

struct SegmentInfo {
  Device* device = nullptr;
  char* base = nullptr;
  size_t bytes = 0;
};

// A new segment of `bytes` usable bytes. Errors: OutOfMemory.
void* allocate_segment(Device& device, size_t bytes);
// For tests: the next `count` calls of allocate_segment() throw OutOfMemory.
void refuse_segments(int count);
// The segment must not be in use by queued work.
void free_segment(void* base);

// Errors: InvalidArgument when the address belongs to no segment. A null address gives a null buffer.
Location locate(const void* address);
// Everything null when the address belongs to no segment.
Location find_location(const void* address) noexcept;
// The device and range of the segment that holds the address; device == nullptr when none does.
SegmentInfo find_segment(const void* address) noexcept;

}  // namespace ocl
