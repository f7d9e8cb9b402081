#include "ops/grid_sample/grid_sample.h"
#include "opencl/capabilities/float_atomics.h"
#include "params/grid_sample.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {
namespace {

using params::GridShape;

GridShape shape_of(const GridSample& p) {
  return {p.batch,        p.channels, p.points, {p.image[0], p.image[1], p.image[2]}, static_cast<int32_t>(p.padding),
          p.align_corners};
}

Kernel& kernel_of(KernelSite& site, Device& device, const GridSample& p, bool atomic) {
  require_dtype(device, p.dtype, "grid_sampler");
  if (p.dims == 3 && p.interpolation == GridInterpolation::bicubic)
    throw InvalidArgument("grid_sampler: bicubic interpolation is two-dimensional");
  const Variant variant = Variant()
                              .add(p.dtype)
                              .add(static_cast<uint64_t>(p.dims), 2)
                              .add(static_cast<uint64_t>(p.interpolation), 2)
                              .add(atomic, 1);
  return site.get(device, variant, [&] {
    Defines defines;
    dtype(defines, "D", p.dtype);
    dtype(defines, "A", p.dtype == DType::float64 ? DType::float64 : DType::float32);
    return add_atomic_defines(defines.add("DIMS", p.dims).add("INTERPOLATION", static_cast<int64_t>(p.interpolation)),
                              device, atomic);
  });
}

struct Split {
  int64_t block;
  Range global, local;
};
Split points_of(const Device& device, const GridSample& p) {
  const int64_t points = p.batch * p.points;
  if (!device.cpu_style()) return {1, Range(round_up(points, 256)), Range(256)};
  const int64_t block = ceil_div(points, cpu_tasks(device, points, std::max<int64_t>(16, 8192 / p.channels)));
  return {block, Range(ceil_div(points, block)), Range(1)};
}

}  // namespace

void grid_sample(Queue& queue, const GridSample& p, void* output, const void* input, const void* grid) {
  if (p.batch * p.channels * p.points == 0) return;
  static KernelSite site("grid_sample/grid_sample.cl", "grid_sample");
  const Split s = points_of(queue.device(), p);
  launch(queue, kernel_of(site, queue.device(), p, false), s.global, s.local, output, input, grid, shape_of(p),
         s.block);
}

void grid_sample_backward(Queue& queue, const GridSample& p, void* grad_input, void* grad_grid, const void* grad_output,
                          const void* input, const void* grid, bool deterministic) {
  if (p.batch * p.points == 0) return;
  static KernelSite site_grid("grid_sample/grid_sample.cl", "grid_gradient"),
      site_planes("grid_sample/grid_sample.cl", "image_gradient_planes"),
      site_points("grid_sample/grid_sample.cl", "image_gradient_points");
  Device& device = queue.device();
  const Split s = points_of(device, p);
  if (grad_grid)
    launch(queue, kernel_of(site_grid, device, p, false), s.global, s.local, grad_grid, grad_output, input, grid,
           shape_of(p), s.block);
  if (!grad_input || p.channels == 0) return;
  const bool atomics = !device.cpu_style() && !deterministic &&
                       (size_of(p.dtype) <= 4 || device.capabilities().has_extension("cl_khr_int64_base_atomics"));
  if (atomics) {
    launch(queue, kernel_of(site_points, device, p, true), s.global, s.local, grad_input, grad_output, grid,
           shape_of(p), s.block);
    return;
  }
  // A work-item owns `block` channels of one image: every point of the grid is visited in order.
  const int64_t wanted =
      ceil_div(int64_t{device.cpu_style() ? 4 * device.capabilities().compute_units : 16384}, p.batch);
  const int64_t block = ceil_div(p.channels, std::min(p.channels, wanted)),
                items = p.batch * ceil_div(p.channels, block);
  const int64_t group = device.cpu_style() ? 1 : 64;
  launch(queue, kernel_of(site_planes, device, p, false), Range(round_up(items, group)), Range(group), grad_input,
         grad_output, grid, shape_of(p), block);
}

}  // namespace ocl::ops
