#include "onnxruntime/value.h"

#include <cstring>

namespace ocl::ort {

int64_t count_of(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

HostTensor HostTensor::of(Sizes values) {
  const auto n = static_cast<int64_t>(values.size());
  return {DType::int64, {n}, std::move(values), {}};
}

HostTensor HostTensor::scalar(int64_t value) { return {DType::int64, {}, {value}, {}}; }

namespace {

// Calls f with a zero of the host's type of `dtype`; false for a type that has none.
template <class F>
bool with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::int64: f(int64_t{}); return true;
    case DType::int32: f(int32_t{}); return true;
    case DType::int16: f(int16_t{}); return true;
    case DType::int8: f(int8_t{}); return true;
    case DType::uint8:
    case DType::boolean: f(uint8_t{}); return true;
    case DType::float32: f(float{}); return true;
    case DType::float64: f(double{}); return true;
    default: return false;
  }
}

[[noreturn]] void refuse(DType dtype) {
  throw InvalidArgument(std::string("the host does not handle elements of ") + ops::name_of(dtype));
}

}  // namespace

bool HostTensor::handles(DType dtype) {
  return with_type(dtype, [](auto) {});
}

HostTensor HostTensor::decode(DType dtype, Sizes sizes, const void* elements) {
  HostTensor t{dtype, std::move(sizes), {}, {}};
  const auto n = static_cast<size_t>(t.count());
  const bool handled = with_type(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < n; ++i) {
      T value;
      std::memcpy(&value, static_cast<const char*>(elements) + i * sizeof(T), sizeof(T));
      if constexpr (std::is_floating_point_v<T>)
        t.reals.push_back(value);
      else
        t.integers.push_back(value);
    }
  });
  if (!handled) refuse(dtype);
  return t;
}

std::vector<std::byte> HostTensor::encode() const {
  const auto n = static_cast<size_t>(count());
  std::vector<std::byte> bytes(n * ops::size_of(dtype));
  const bool handled = with_type(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < n; ++i) {
      const T value = std::is_floating_point_v<T> ? static_cast<T>(real(i)) : static_cast<T>(integer(i));
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  if (!handled) refuse(dtype);
  return bytes;
}

std::shared_ptr<void> allocate(Queue& queue, size_t bytes) {
  CachingAllocator& allocator = queue.device().allocator();
  // Empty tensors have an address as well: a null one means that an operator's tensor is absent.
  return {allocator.allocate(std::max<size_t>(bytes, 1), queue), [&allocator](void* data) { allocator.free(data); }};
}

Value upload(Queue& queue, DType dtype, const Sizes& sizes, const void* elements) {
  const size_t bytes = static_cast<size_t>(count_of(sizes)) * ops::size_of(dtype);
  Value value;
  value.memory = allocate(queue, bytes);
  value.view = TensorView::contiguous(value.memory.get(), dtype, sizes);
  if (bytes) queue.write(value.memory.get(), elements, bytes);
  return value;
}

Value upload(Queue& queue, const HostTensor& tensor) {
  return upload(queue, tensor.dtype, tensor.sizes, tensor.encode().data());
}

HostTensor download(Queue& queue, const TensorView& dense) {
  std::vector<std::byte> bytes(static_cast<size_t>(dense.numel()) * ops::size_of(dense.dtype));
  if (!bytes.empty()) queue.read(bytes.data(), dense.data, bytes.size());
  return HostTensor::decode(dense.dtype, sizes_of(dense), bytes.data());
}

}  // namespace ocl::ort
