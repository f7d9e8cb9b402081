#include "ops/shape/shape.h"
#include "params/shape.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace ocl::ops {
namespace {

// How many consecutive results a work-item makes: many on CPU devices, one elsewhere.
struct Split {
  int64_t block;
  Range global, local;
};
Split split(const Device& device, int64_t count, int64_t per_task = 16384) {
  if (!device.cpu_style()) return {1, Range(round_up(count, 256)), Range(256)};
  const int64_t block = ceil_div(count, cpu_tasks(device, count, per_task));
  return {block, Range(ceil_div(count, block)), Range(1)};
}

Kernel& by_width(KernelSite& site, Device& device, size_t bytes) {
  return site.get(device, Variant().add(bytes, 6), [&] { return Defines().add("BYTES", static_cast<int64_t>(bytes)); });
}

Kernel& by_dtype(KernelSite& site, Device& device, DType type) {
  require_dtype(device, type, "shape");
  return site.get(device, Variant().add(type), [&] {
    Defines defines;
    return dtype(defines, "D", type);
  });
}

using params::TriangleShape;
using params::UnfoldShape;
using params::WindowShape;

// The bits of 1 in each dtype.
std::array<uint64_t, 2> one_bits(DType dtype) {
  const float f = 1;
  const double d = 1;
  std::array<uint64_t, 2> bits{1, 0};
  switch (dtype) {
    case DType::float16:
    case DType::complex32: bits[0] = 0x3c00; break;
    case DType::bfloat16: bits[0] = 0x3f80; break;
    case DType::float32:
    case DType::complex64: std::memset(&bits, 0, sizeof bits), std::memcpy(&bits, &f, sizeof f); break;
    case DType::float64:
    case DType::complex128: std::memcpy(&bits, &d, sizeof d); break;
    default: break;
  }
  return bits;
}

}  // namespace

void triangle(Queue& queue, const TensorView& out, const TensorView& self, int64_t diagonal, bool upper) {
  if (out.numel() == 0) return;
  static KernelSite site("shape/shape.cl", "triangle");
  Device& device = queue.device();
  TriangleShape shape{};
  shape.dims = out.dims - 2;
  shape.upper = upper;
  shape.rows = out.size(-2);
  shape.columns = out.size(-1);
  shape.total_rows = out.numel() / shape.columns;
  shape.diagonal = std::clamp(diagonal, -shape.rows, shape.columns);
  shape.out_row = out.stride(-2);
  shape.out_column = out.stride(-1);
  shape.in_row = self.stride(-2);
  shape.in_column = self.stride(-1);
  for (int d = 0; d < shape.dims; ++d) {
    shape.sizes[d] = out.sizes[d];
    shape.out[d] = out.strides[d];
    shape.in[d] = self.strides[d];
  }
  Split s =
      split(device, device.cpu_style() ? shape.total_rows : out.numel(), std::max<int64_t>(1, 16384 / shape.columns));
  launch(queue, by_width(site, device, size_of(out.dtype)), s.global, s.local, out.data, self.data, shape, s.block);
}

void eye(Queue& queue, const TensorView& out) {
  if (out.numel() == 0) return;
  static KernelSite site("shape/shape.cl", "eye");
  Device& device = queue.device();
  const Split s = split(device, out.numel());
  const auto one = one_bits(out.dtype);
  launch(queue, by_width(site, device, size_of(out.dtype)), s.global, s.local, out.data, out.sizes[0], out.sizes[1],
         out.strides[0], out.strides[1], one[0], one[1], s.block);
}

void progression(Queue& queue, const TensorView& out, ProgressionKind kind, const Progression& p) {
  const int64_t n = out.numel();
  if (n == 0) return;
  static KernelSite site("shape/range.cl", "progression");
  Device& device = queue.device();
  require_dtype(device, out.dtype, "arange");
  const bool integer = is_integral(out.dtype) && kind == ProgressionKind::arange, wide = device.capabilities().fp64;
  const DType compute = integer ? DType::int64 : wide ? DType::float64 : DType::float32;
  Kernel& kernel = site.get(device, Variant().add(out.dtype).add(compute).add(static_cast<uint64_t>(kind), 2), [&] {
    Defines defines;
    dtype(defines, "D", out.dtype);
    return dtype(defines, "C", compute).add("KIND", static_cast<int64_t>(kind));
  });
  const Split s = split(device, n);
  const auto run = [&](auto start, auto step, auto end, auto base) {
    launch(queue, kernel, s.global, s.local, out.data, start, step, end, base, n, s.block);
  };
  if (integer)
    run(p.integer_start, p.integer_step, int64_t{0}, int64_t{0});
  else if (wide)
    run(p.start, p.step, p.end, p.base);
  else
    run(static_cast<float>(p.start), static_cast<float>(p.step), static_cast<float>(p.end), static_cast<float>(p.base));
}

namespace {

WindowShape window_shape(const Windows& w, int64_t rows) {
  return {w.kernel[0], w.kernel[1], w.dilation[0], w.dilation[1], w.padding[0], w.padding[1], w.stride[0],
          w.stride[1], w.image[0],  w.image[1],    w.count[0],    w.count[1],   rows};
}

}  // namespace

void im2col(Queue& queue, const TensorView& columns, const TensorView& image, const Windows& windows, int64_t rows) {
  static KernelSite site("shape/windows.cl", "im2col");
  const int64_t total = columns.numel();
  if (total == 0) return;
  Device& device = queue.device();
  const int64_t length = windows.count[0] * windows.count[1], lines = rows * windows.kernel[0] * windows.kernel[1];
  const Split s = split(device, device.cpu_style() ? lines : total, std::max<int64_t>(1, 16384 / length));
  launch(queue, by_dtype(site, device, image.dtype), s.global, s.local, columns.data, image.data,
         window_shape(windows, rows), s.block);
}

void col2im(Queue& queue, const TensorView& image, const TensorView& columns, const Windows& windows, int64_t rows) {
  static KernelSite site("shape/windows.cl", "col2im");
  const int64_t total = image.numel();
  if (total == 0) return;
  Device& device = queue.device();
  const int64_t work = windows.kernel[0] * windows.kernel[1] * windows.count[0] * windows.count[1];
  const Split s =
      split(device, device.cpu_style() ? rows : total, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)));
  launch(queue, by_dtype(site, device, image.dtype), s.global, s.local, image.data, columns.data,
         window_shape(windows, rows), s.block);
}

void unfold_backward(Queue& queue, const TensorView& grad_in, const TensorView& grad, int dim, int64_t size,
                     int64_t step) {
  static KernelSite site("shape/windows.cl", "unfold_backward");
  if (grad_in.numel() == 0) return;
  if (!grad_in.is_contiguous() || grad.dims != grad_in.dims + 1)
    throw InvalidArgument("unfold_backward: grad_in must be contiguous with one dimension less than grad");
  Device& device = queue.device();
  UnfoldShape shape{};
  shape.dims = grad_in.dims;
  shape.dim = dim < 0 ? dim + grad_in.dims : dim;
  shape.size = size;
  shape.step = step;
  shape.windows = grad.sizes[shape.dim];
  shape.last_stride = grad.strides[grad.dims - 1];
  shape.total = grad_in.numel();
  std::copy_n(grad_in.sizes.begin(), grad_in.dims, shape.sizes);
  std::copy_n(grad.strides.begin(), grad_in.dims, shape.grad);
  const Split s = split(device, shape.total, 4096);
  launch(queue, by_dtype(site, device, grad.dtype), s.global, s.local, grad_in.data, grad.data, shape, s.block);
}

void repeat_indices(Queue& queue, const TensorView& out, const TensorView& cumulative) {
  static KernelSite site("shape/shape.cl", "repeat_indices");
  const int64_t total = out.numel();
  if (total == 0) return;
  if (out.dtype != cumulative.dtype || !(out.dtype == DType::int64 || out.dtype == DType::int32))
    throw InvalidArgument("repeat_interleave: counts and result must both be int64 or int32");
  Device& device = queue.device();
  const Split s = split(device, total);
  launch(queue, by_width(site, device, size_of(out.dtype)), s.global, s.local, out.data, cumulative.data,
         cumulative.numel(), total, s.block);
}

void triangle_indices(Queue& queue, const TensorView& out, int64_t rows, int64_t columns, int64_t diagonal,
                      bool upper) {
  static KernelSite site("shape/shape.cl", "triangle_indices");
  const int64_t total = out.size(1);
  if (total == 0) return;
  if (!(out.dtype == DType::int64 || out.dtype == DType::int32))
    throw InvalidArgument("tril_indices: the result must be int64 or int32");
  Device& device = queue.device();
  const Split s = split(device, rows, std::max<int64_t>(1, 16384 / columns));
  launch(queue, by_width(site, device, size_of(out.dtype)), s.global, s.local, out.data, rows, columns, diagonal, total,
         int32_t{upper}, s.block);
}

}  // namespace ocl::ops
