#include "ops/pad/pad.h"

#include "ops/core/lanes.h"
#include "params/pad.h"

#include <climits>

namespace ocl::ops {
namespace {

using params::PadShape;

int64_t volume(const std::array<int64_t, 3>& size) { return size[0] * size[1] * size[2]; }

PadShape make_shape(const PadProblem& p) {
  require(volume(p.input) <= INT_MAX && volume(p.output) <= INT_MAX,
          "pad: planes of 2^31 elements and more are not supported");
  PadShape s{p.planes, volume(p.input), volume(p.output), {}, {}, {}, 0};
  for (int d = 0; d < 3; ++d) {
    s.in[d] = static_cast<int32_t>(p.input[d]);
    s.out[d] = static_cast<int32_t>(p.output[d]);
    s.left[d] = static_cast<int32_t>(p.left[d]);
  }
  return s;
}

// Forward only moves bits: one program per element size.
DType bits_of(DType type) {
  switch (size_of(type)) {
    case 1: return DType::uint8;
    case 2: return DType::uint16;
    case 4: return DType::uint32;
    case 8: return DType::uint64;
    default: throw InvalidArgument(std::string("pad: element type ") + info(type).aten + " is not supported");
  }
}

KernelSite elements_forward("pad/pad.cl", "elements_forward"), elements_backward("pad/pad.cl", "elements_backward");
KernelSite rows_forward("pad/pad.cl", "rows_forward"), rows_backward("pad/pad.cl", "rows_backward");

Kernel& kernel(KernelSite& site, Device& device, DType type, bool reflect, bool backward) {
  return site.get(device, Variant().add(type).add(reflect, 1),
                  [&] { return lane_defines(type).add("REFLECT", reflect).add("BACKWARD", backward); });
}

void run(Queue& queue, const PadProblem& p, KernelSite& rows_site, KernelSite& elements_site, bool backward,
         const void* from, void* to) {
  Device& device = queue.device();
  const PadShape s = make_shape(p);
  const auto& extent = backward ? p.input : p.output;
  const int64_t elements = p.planes * volume(extent);
  if (elements == 0) return;
  const DType type = backward ? p.dtype : bits_of(p.dtype);
  if (device.cpu_style())
    launch(queue, kernel(rows_site, device, type, p.reflect, backward),
           Range(std::min(p.planes * extent[0] * extent[1], cpu_tasks(device, elements))), Range(1), from, to, s);
  else
    launch(queue, kernel(elements_site, device, type, p.reflect, backward), gpu_range(elements), Range(256), from, to,
           s);
}

}  // namespace

void pad_forward(Queue& queue, const PadProblem& p, const void* x, void* y) {
  run(queue, p, rows_forward, elements_forward, false, x, y);
}

void pad_backward(Queue& queue, const PadProblem& p, const void* grad, void* dx) {
  require_floating(queue.device(), p.dtype, "pad_backward");
  run(queue, p, rows_backward, elements_backward, true, grad, dx);
}

}  // namespace ocl::ops
