#include "ops/vision/roi_align.h"
#include "opencl/capabilities/float_atomics.h"
#include "params/vision.h"

#include <algorithm>

namespace ocl::ops {
namespace {

using params::RoiShape;

RoiShape shape_of(const RoiAlign& p) {
  return {p.batch, p.channels, p.height, p.width, p.regions, p.bins_y, p.bins_x, p.sampling_ratio, p.aligned, 0};
}

int block_of(const Device& device) { return device.cpu_style() ? 16 : 1; }

Kernel& kernel_of(KernelSite& site, Device& device, const RoiAlign& p, bool atomic) {
  require_dtype(device, p.dtype, "roi_align");
  return site.get(device, Variant().add(p.dtype).add(atomic, 1), [&] {
    Defines defines;
    dtype(defines, "D", p.dtype);
    dtype(defines, "A", accumulate_type(p.dtype));
    return add_atomic_defines(defines.add("BLOCK", block_of(device)), device, atomic);
  });
}

// Launches with `scale` in the type that the kernel computes in.
template <class... Arguments>
void launch_scaled(Queue& queue, Kernel& kernel, const RoiAlign& p, const Range& global, const Range& local,
                   const void* a, const void* b, const void* c, const Arguments&... rest) {
  if (p.dtype == DType::float64)
    launch(queue, kernel, global, local, a, b, c, shape_of(p), p.scale, rest...);
  else
    launch(queue, kernel, global, local, a, b, c, shape_of(p), static_cast<float>(p.scale), rest...);
}

Range bins_of(const Device& device, const RoiAlign& p) {
  return Range(round_up(p.bins_y * p.bins_x, int64_t{16}), ceil_div(p.channels, int64_t{block_of(device)}), p.regions);
}

}  // namespace

void roi_align(Queue& queue, const RoiAlign& p, void* output, const void* image, const void* regions) {
  static KernelSite site("vision/roi_align.cl", "roi_align");
  Device& device = queue.device();
  launch_scaled(queue, kernel_of(site, device, p, false), p, bins_of(device, p), Range(16, 1, 1), output, image,
                regions);
}

void roi_align_backward(Queue& queue, const RoiAlign& p, void* grad_image, const void* grad_output, const void* regions,
                        bool deterministic) {
  static KernelSite bins("vision/roi_align.cl", "roi_align_gradient_bins"),
      planes("vision/roi_align.cl", "roi_align_gradient_planes");
  if (p.batch * p.channels * p.height * p.width * p.regions * p.bins_y * p.bins_x == 0) return;
  Device& device = queue.device();
  const bool atomics = !device.cpu_style() && !deterministic &&
                       (p.dtype != DType::float64 || device.capabilities().has_extension("cl_khr_int64_base_atomics"));
  if (atomics) {
    launch_scaled(queue, kernel_of(bins, device, p, true), p, bins_of(device, p), Range(16, 1, 1), grad_image,
                  grad_output, regions);
    return;
  }
  const int64_t wanted =
      ceil_div(int64_t{device.cpu_style() ? 4 * device.capabilities().compute_units : 16384}, p.batch);
  const int64_t block = ceil_div(p.channels, std::min(p.channels, wanted)),
                items = p.batch * ceil_div(p.channels, block);
  const int64_t group = device.cpu_style() ? 1 : 64;
  launch_scaled(queue, kernel_of(planes, device, p, false), p, Range(round_up(items, group)), Range(group), grad_image,
                grad_output, regions, block);
}

}  // namespace ocl::ops
