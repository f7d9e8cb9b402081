// Tensors while a model runs: on the device, or on the host where they are sizes, axes and other numbers that decide
// what is run.
#pragma once

#include "ops/core/context.h"

#include <memory>
#include <span>
#include <vector>

namespace ocl::ort {

using ops::DType;
using ops::TensorView;
using Sizes = std::vector<int64_t>;

inline Sizes sizes_of(const TensorView& view) { return {view.sizes.begin(), view.sizes.begin() + view.dims}; }
int64_t count_of(std::span<const int64_t> sizes);

// A small tensor whose elements the host knows: in `integers` for whole numbers and booleans, else in `reals`.
struct HostTensor {
  DType dtype = DType::int64;
  Sizes sizes;
  std::vector<int64_t> integers;
  std::vector<double> reals;

  bool whole() const { return ops::is_integral(dtype); }
  int64_t count() const { return count_of(sizes); }
  double real(size_t i) const { return whole() ? static_cast<double>(integers[i]) : reals[i]; }
  int64_t integer(size_t i) const { return whole() ? integers[i] : static_cast<int64_t>(reals[i]); }

  static HostTensor of(Sizes values);       // int64, one dimension
  static HostTensor scalar(int64_t value);  // int64, no dimension
  // From and to elements as the device has them. Errors: InvalidArgument for types that the host does not handle.
  static HostTensor decode(DType dtype, Sizes sizes, const void* elements);
  std::vector<std::byte> encode() const;
  // Whether the host handles the type.
  static bool handles(DType dtype);
};

// How many elements are kept on the host at most: sizes and axes have a few, an attention mask has thousands.
inline constexpr int64_t host_limit = 256;

struct Value {
  TensorView view;               // data is null where only the host has the elements
  std::shared_ptr<void> memory;  // who owns the view's memory; null where somebody else does
  std::shared_ptr<const HostTensor> host;
};

// Device memory that goes back to the allocator with its last owner, in the order of the queue. Errors: OutOfMemory.
std::shared_ptr<void> allocate(Queue& queue, size_t bytes);
// The tensor's elements on the device.
Value upload(Queue& queue, const HostTensor& tensor);
Value upload(Queue& queue, DType dtype, const Sizes& sizes, const void* elements);
// Waits for the queue.
HostTensor download(Queue& queue, const TensorView& dense);

}  // namespace ocl::ort
