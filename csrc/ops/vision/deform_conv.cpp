#include "ops/vision/deform_conv.h"
#include "opencl/capabilities/float_atomics.h"
#include "params/vision.h"

#include <algorithm>

namespace ocl::ops {
namespace {

using params::DeformShape;

DeformShape shape_of(const DeformConv& p, const void* mask) {
  return {p.batch,         p.channels,     p.height,   p.width,        p.kernel_height, p.kernel_width,
          p.output_height, p.output_width, p.stride_y, p.stride_x,     p.padding_y,     p.padding_x,
          p.dilation_y,    p.dilation_x,   p.groups,   mask != nullptr};
}

Kernel& kernel_of(KernelSite& site, Device& device, const DeformConv& p, bool atomic = false) {
  require_dtype(device, p.dtype, "deform_conv2d");
  return site.get(device, Variant().add(p.dtype).add(atomic, 1), [&] {
    Defines defines;
    dtype(defines, "D", p.dtype);
    dtype(defines, "A", accumulate_type(p.dtype));
    return add_atomic_defines(defines, device, atomic);
  });
}

struct Split {
  int64_t block;
  Range global, local;
};
Split taps_of(const Device& device, const DeformConv& p) {
  const int64_t taps = p.batch * p.groups * p.taps() * p.pixels();
  if (!device.cpu_style()) return {1, Range(round_up(taps, int64_t{64})), Range(64)};
  const int64_t block =
      taps == 0 ? 1
                : ceil_div(taps, cpu_tasks(device, taps,
                                           std::max<int64_t>(16, 4096 * p.groups / std::max<int64_t>(1, p.channels))));
  return {block, Range(ceil_div(taps, block)), Range(1)};
}

}  // namespace

void deform_columns(Queue& queue, const DeformConv& p, void* columns, const void* image, const void* offset,
                    const void* mask) {
  static KernelSite site("vision/deform_conv.cl", "deform_columns");
  const Split s = taps_of(queue.device(), p);
  launch(queue, kernel_of(site, queue.device(), p), s.global, s.local, columns, image, offset, mask, shape_of(p, mask),
         s.block);
}

void deform_offset_gradient(Queue& queue, const DeformConv& p, void* grad_offset, void* grad_mask,
                            const void* grad_columns, const void* image, const void* offset, const void* mask) {
  static KernelSite site("vision/deform_conv.cl", "deform_offset_gradient");
  const Split s = taps_of(queue.device(), p);
  launch(queue, kernel_of(site, queue.device(), p), s.global, s.local, grad_offset, grad_mask, grad_columns, image,
         offset, mask, shape_of(p, mask), s.block);
}

void deform_image_gradient(Queue& queue, const DeformConv& p, void* grad_image, const void* grad_columns,
                           const void* offset, const void* mask, bool deterministic) {
  static KernelSite taps("vision/deform_conv.cl", "deform_image_gradient"),
      planes("vision/deform_conv.cl", "deform_image_gradient_planes");
  Device& device = queue.device();
  const bool atomics = !device.cpu_style() && !deterministic &&
                       (p.dtype != DType::float64 || device.capabilities().has_extension("cl_khr_int64_base_atomics"));
  if (atomics) {
    const Split s = taps_of(device, p);
    launch(queue, kernel_of(taps, device, p, true), s.global, s.local, grad_image, grad_columns, offset, mask,
           shape_of(p, mask), s.block);
    return;
  }
  const int64_t group = device.cpu_style() ? 1 : 64;
  launch(queue, kernel_of(planes, device, p), Range(round_up(p.batch * p.channels, group)), Range(group), grad_image,
         grad_columns, offset, mask, shape_of(p, mask));
}

}  // namespace ocl::ops
