// Launching a kernel: launch(queue, kernel, global, local, arguments...).
#pragma once

#include "opencl/memory.h"
#include "opencl/program.h"

#include <array>
#include <type_traits>

namespace ocl {

// Up to three dimensions of work-items. Empty local range: the driver chooses.
struct Range {
  std::array<size_t, 3> size{1, 1, 1};
  unsigned dimensions = 0;
  constexpr Range() = default;
  constexpr Range(size_t x) : size{x, 1, 1}, dimensions(1) {}
  constexpr Range(size_t x, size_t y) : size{x, y, 1}, dimensions(2) {}
  constexpr Range(size_t x, size_t y, size_t z) : size{x, y, z}, dimensions(3) {}
};

// __local memory of this many bytes as an argument.
struct LocalMemory {
  size_t bytes;
};

namespace detail {

void set_argument(Kernel& kernel, unsigned index, size_t bytes, const void* value);
// The buffer of a location: as cl_mem, or by its address where the device takes those (Device::takes_addresses).
void set_buffer(Kernel& kernel, unsigned index, const void* address, const Location& location);
void set_address(Kernel& kernel, unsigned index, const void* address);
void enqueue(Queue& queue, Kernel& kernel, const Range& global, const Range& local);
// Errors: PyTorch's "Expected all tensors to be on the same device" when the address is not memory of the kernel's device.
Location locate_for(Kernel& kernel, unsigned index, const void* address);

template <class T>
void set(Kernel& kernel, unsigned& index, const T& argument) {
  if constexpr (std::is_pointer_v<T>) {
    Location location = locate_for(kernel, index, argument);
    cl_ulong offset = location.offset;
    set_buffer(kernel, index++, argument, location);
    set_argument(kernel, index++, sizeof(offset), &offset);
  } else if constexpr (std::is_same_v<T, LocalMemory>) {
    set_argument(kernel, index++, argument.bytes, nullptr);
  } else {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>, "pass int, long, float, double or a plain struct");
    set_argument(kernel, index++, sizeof(T), &argument);
  }
}

}  // namespace detail

// Sets the arguments in order and enqueues. A pointer is a device address and becomes two kernel arguments, the buffer and the
// byte offset (macro TENSOR in common/memory.clh); numbers must have exactly the width of the kernel's parameter (int32_t for int,
// int64_t for long). A range with a zero size does nothing. `global` must be a multiple of `local`.
template <class... Arguments>
void launch(Queue& queue, Kernel& kernel, const Range& global, const Range& local, const Arguments&... arguments) {
  if (global.size[0] == 0 || global.size[1] == 0 || global.size[2] == 0) return;
  std::lock_guard<std::mutex> lock(kernel.mutex());
  unsigned index = 0;
  (detail::set(kernel, index, arguments), ...);
  detail::enqueue(queue, kernel, global, local);
}

}  // namespace ocl
