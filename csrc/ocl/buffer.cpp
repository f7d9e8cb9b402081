#include "ocl/buffer.h"

#include "ops/core/device_errors.h"

#include <cstdint>
#include <string>
#include <utility>

namespace ocl {

static size_t bytes_of(ops::DType dtype, std::span<const int64_t> sizes) {
  size_t count = ops::info(dtype).bytes;
  for (const int64_t size : sizes) {
    if (size < 0) throw InvalidArgument("a tensor cannot have a size of " + std::to_string(size));
    if (size > 0 && count > SIZE_MAX / static_cast<size_t>(size))
      throw InvalidArgument("a tensor of more bytes than can be counted");
    count *= static_cast<size_t>(size);
  }
  return count;
}

Buffer::Buffer(Queue& queue, size_t bytes)
    : queue_(&queue), data_(queue.device().allocator().allocate(bytes, queue)), bytes_(bytes) {}

Buffer::Buffer(Queue& queue, ops::DType dtype, std::span<const int64_t> sizes) : Buffer(queue, bytes_of(dtype, sizes)) {
  tensor_ = view(dtype, sizes);
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(queue_, other.queue_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(tensor_, other.tensor_);
  return *this;
}

Buffer::~Buffer() {
  if (data_) queue_->device().allocator().free(data_);
}

void Buffer::check_range(size_t bytes, size_t offset) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    throw InvalidArgument("bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
                          " of a buffer of " + std::to_string(bytes_));
}

ops::TensorView Buffer::view(ops::DType dtype, std::span<const int64_t> sizes, size_t offset) const {
  check_range(bytes_of(dtype, sizes), offset);
  if (offset % ops::info(dtype).bytes != 0)
    throw InvalidArgument("a view that begins at byte " + std::to_string(offset) + ", inside an element");
  return ops::TensorView::contiguous(static_cast<char*>(data_) + offset, dtype, sizes);
}

void Buffer::write(const void* host, size_t bytes, size_t offset) {
  check_range(bytes, offset);
  if (bytes) queue_->write(static_cast<char*>(data_) + offset, host, bytes);
}

void Buffer::read(void* host, size_t bytes, size_t offset) const {
  check_range(bytes, offset);
  if (!bytes) return;
  queue_->read(host, static_cast<const char*>(data_) + offset, bytes);
  ops::check_device_errors(*queue_);
}

}  // namespace ocl
