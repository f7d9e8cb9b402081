#include "ops/index/compact.h"

#include "ops/core/device_errors.h"
#include "params/index.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {
namespace {

using params::CompactShape;

// A block is what one task, or one work-group, counts and writes in order.
inline constexpr int64_t group_size = 256;
int64_t block_of(const Device& device, int64_t numel) {
  return device.cpu_style() ? std::max<int64_t>(1, ceil_div(numel, cpu_tasks(device, numel, 32768))) : 16 * group_size;
}

// Bits that make an element nonzero: everything but the sign for floating types.
uint64_t nonzero_bits(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16: return 0x7fff;
    case DType::float32: return 0x7fffffff;
    case DType::complex32: return 0x7fff7fff;
    case DType::float64:
    case DType::complex128: return 0x7fffffffffffffff;
    case DType::complex64: return 0x7fffffff7fffffff;
    default: return ~uint64_t{0};
  }
}

Range items(const Device& device, int64_t blocks) {
  return device.cpu_style() ? Range(blocks) : Range(blocks * group_size);
}
Range group(const Device& device) { return device.cpu_style() ? Range(1) : Range(group_size); }

}  // namespace

Compaction::Compaction(Queue& queue, const TensorView& mask)
    : queue_(queue),
      mask_(mask),
      numel_(mask.numel()),
      block_(block_of(queue.device(), numel_)),
      blocks_(ceil_div(numel_, block_)),
      offsets_(queue, static_cast<size_t>(blocks_ + 1) * sizeof(int64_t)) {
  if (!mask.is_contiguous()) throw InvalidArgument("compaction: the mask must be contiguous");
  static KernelSite count("index/compact.cl", "compact_count"), scan("index/compact.cl", "compact_scan");
  Device& device = queue.device();
  const auto defines = [&] {
    return Defines().add("BYTES", static_cast<int64_t>(size_of(mask.dtype))).add("ELEMENT_BYTES", 4);
  };
  const Variant variant = Variant().add(size_of(mask.dtype), 6);
  launch(queue, count.get(device, variant, defines), items(device, blocks_), group(device), offsets_.data(), mask.data,
         nonzero_bits(mask.dtype), numel_, block_, blocks_);
  launch(queue, scan.get(device, variant, defines), items(device, 1), group(device), offsets_.data(), blocks_);
}

int64_t Compaction::count() {
  if (numel_ == 0) return 0;
  int64_t total = 0;
  queue_.read(&total, static_cast<int64_t*>(offsets_.data()) + blocks_, sizeof total);
  return total;
}

void Compaction::write(Write what, void* out, const void* in, int64_t limit, size_t bytes, int64_t row,
                       int64_t column) {
  static const ErrorSite site("masked_scatter_", ErrorSite::Kind::source_too_small);
  static KernelSite sites[] = {{"index/compact.cl", "compact_coordinates"},
                               {"index/compact.cl", "compact_select"},
                               {"index/compact.cl", "compact_scatter"}};
  if (numel_ == 0) return;
  Device& device = queue_.device();
  const size_t mask_bytes = size_of(mask_.dtype);
  Kernel& kernel = sites[static_cast<int>(what)].get(device, Variant().add(mask_bytes, 6).add(bytes, 6), [&] {
    return Defines().add("BYTES", static_cast<int64_t>(mask_bytes)).add("ELEMENT_BYTES", static_cast<int64_t>(bytes));
  });
  CompactShape shape{};
  shape.dims = mask_.dims;
  std::copy_n(mask_.sizes.begin(), mask_.dims, shape.sizes);
  shape.row = row, shape.column = column;
  launch(queue_, kernel, items(device, blocks_), group(device), out, in, mask_.data, offsets_.data(),
         device_errors(device).data(), shape, nonzero_bits(mask_.dtype), numel_, block_, limit, site.code());
}

void Compaction::coordinates(const TensorView& out, int64_t limit) {
  if (limit > 0 && mask_.dims > 0)
    write(Write::coordinates, out.data, nullptr, limit, 4, out.strides[0], out.strides[1]);
}

void Compaction::select(const TensorView& out, const TensorView& values) {
  if (out.numel() > 0) write(Write::select, out.data, values.data, out.numel(), size_of(values.dtype));
}

void Compaction::scatter(const TensorView& values, const TensorView& source) {
  write(Write::scatter, values.data, source.data, source.numel(), size_of(values.dtype));
}

}  // namespace ocl::ops
