// Device memory that somebody owns.
#pragma once

#include "opencl/memory/caching_allocator.h"
#include "ops/core/tensor_view.h"

#include <span>
#include <vector>

namespace ocl {

// A block of the device's caching allocator, given back when the object goes. Work that was issued on its queue before
// then still finds it: memory is reused in the queue's order. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  // `bytes` of memory for work on `queue`; what it holds is not defined. Errors: OutOfMemory.
  Buffer(Queue& queue, size_t bytes);
  // A tensor's memory: contiguous, of these sizes. Errors: InvalidArgument for a negative size; OutOfMemory.
  Buffer(Queue& queue, ops::DType dtype, std::span<const int64_t> sizes);
  Buffer(Queue& queue, ops::DType dtype, std::initializer_list<int64_t> sizes)
      : Buffer(queue, dtype, std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  // Holds a copy of `host`.
  template <class T>
  Buffer(Queue& queue, const std::vector<T>& host) : Buffer(queue, host.size() * sizeof(T)) {
    write(host.data(), host.size() * sizeof(T));
  }
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  ~Buffer();

  void* data() const { return data_; }  // an address for TensorView; the host must not dereference it
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

  // The whole block, or the part from `offset` bytes on, as a contiguous tensor. Errors: InvalidArgument when it does
  // not fit into the block, or the offset is no multiple of the element's size.
  ops::TensorView view(ops::DType dtype, std::span<const int64_t> sizes, size_t offset = 0) const;
  ops::TensorView view(ops::DType dtype, std::initializer_list<int64_t> sizes, size_t offset = 0) const {
    return view(dtype, std::span<const int64_t>(sizes.begin(), sizes.size()), offset);
  }
  // As it was made by element type and sizes.
  const ops::TensorView& tensor() const { return tensor_; }
  operator const ops::TensorView&() const { return tensor_; }

  // From and to the host, behind the work that was issued on the queue. write() returns when `host` may change,
  // read() when it has been written. Errors: InvalidArgument beyond the end; read() also throws what the work issued
  // so far failed with (DriverError, KernelError).
  void write(const void* host, size_t bytes, size_t offset = 0);
  void read(void* host, size_t bytes, size_t offset = 0) const;
  template <class T>
  std::vector<T> read() const {
    std::vector<T> host(bytes_ / sizeof(T));
    read(host.data(), host.size() * sizeof(T));
    return host;
  }

 private:
  void check_range(size_t bytes, size_t offset) const;

  Queue* queue_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  ops::TensorView tensor_{};
};

}  // namespace ocl
