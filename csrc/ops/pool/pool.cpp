#include "ops/pool/pool.h"

#include "ops/core/lanes.h"
#include "params/pool.h"

#include <climits>

namespace ocl::ops {
namespace {

using params::PoolShape;

int64_t volume(const std::array<int64_t, 3>& size) { return size[0] * size[1] * size[2]; }

PoolShape make_shape(const PoolProblem& p) {
  require(volume(p.input) <= INT_MAX && volume(p.output) <= INT_MAX,
          "pool: planes of 2^31 elements and more are not supported");
  PoolShape s{p.batch,
              p.channels,
              volume(p.input),
              volume(p.output),
              {},
              {},
              {},
              {},
              {},
              {},
              p.count_include_pad,
              static_cast<int32_t>(p.divisor)};
  for (int d = 0; d < 3; ++d) {
    s.in[d] = static_cast<int32_t>(p.input[d]);
    s.out[d] = static_cast<int32_t>(p.output[d]);
    s.kernel_size[d] = static_cast<int32_t>(p.kernel[d]);
    s.stride[d] = static_cast<int32_t>(p.stride[d]);
    s.padding[d] = static_cast<int32_t>(p.padding[d]);
    s.dilation[d] = static_cast<int32_t>(p.dilation[d]);
  }
  return s;
}

// One pixel per plane: the order of memory is the same, and rows of positions suit the channels-first kernels (global
// pooling).
PoolProblem simplified(PoolProblem p) {
  if (p.adaptive && volume(p.output) == 1 && !p.channels_last) p.input = {1, 1, volume(p.input)};
  return p;
}

Kernel& kernel(KernelSite& site, Device& device, const PoolProblem& p, int stride_w = 0, int kernel_w = 0) {
  const uint64_t variant = Variant()
                               .add(p.dtype)
                               .add(p.kind == PoolKind::max, 1)
                               .add(p.adaptive, 1)
                               .add(p.channels_last, 1)
                               .add(stride_w, 2)
                               .add(kernel_w, 2);
  return site.get(device, variant, [&] {
    Defines defines = lane_defines(p.dtype);
    defines.add("POOL_MAX", p.kind == PoolKind::max)
        .add("ADAPTIVE", p.adaptive)
        .add("CHANNELS_LAST", p.channels_last)
        .add("HALF", is_half(p.dtype));
    return defines.add("STRIDE_W", stride_w).add("KERNEL_W", kernel_w);
  });
}

KernelSite elements_forward("pool/pool.cl", "pool_forward"), elements_backward("pool/pool.cl", "pool_backward");
KernelSite planes_forward("pool/planes.cpu.cl", "planes_forward"),
    planes_backward("pool/planes.cpu.cl", "planes_backward");
KernelSite channels_forward("pool/channels.cpu.cl", "channels_forward"),
    channels_backward("pool/channels.cpu.cl", "channels_backward");

KernelSite windows_forward("pool/windows.gpu.cl", "windows_forward"),
    windows_backward("pool/windows.gpu.cl", "windows_backward");

// Small square windows of a plane.
bool is_small_window(const PoolProblem& p, int64_t elements) {
  const bool plane = p.kernel[0] == 1 && p.input[0] == 1 && p.output[0] == 1 && p.padding[0] == 0;
  const bool small =
      p.kernel[1] == p.kernel[2] && (p.kernel[2] == 2 || p.kernel[2] == 3) && p.dilation[1] == 1 && p.dilation[2] == 1;
  return !p.adaptive && plane && small && elements < INT_MAX - 256;
}

// Kernel of one work-item per element; in the CPU style a work-item takes thousands of them.
void launch_elements(Queue& queue, Kernel& k, int64_t elements, int64_t work, const auto&... arguments) {
  if (queue.device().cpu_style())
    launch(queue, k, Range(std::min(elements, cpu_tasks(queue.device(), work))), Range(1), arguments...);
  else
    launch(queue, k, gpu_range(elements), Range(256), arguments...);
}

}  // namespace

void pool_forward(Queue& queue, const PoolProblem& problem, const void* x, void* y, void* index) {
  Device& device = queue.device();
  require_floating(device, problem.dtype, "pool");
  const PoolProblem p = simplified(problem);
  const PoolShape s = make_shape(p);
  const int64_t outputs = p.batch * p.channels * s.out_plane;
  if (outputs == 0) return;
  require(s.in_plane > 0, "pool: the input has no elements");
  const int64_t work = std::max(outputs, p.batch * p.channels * s.in_plane);
  if (device.cpu_style() && p.channels_last) {
    const int64_t pixels = p.batch * s.out_plane;
    launch(queue, kernel(channels_forward, device, p), Range(std::min(pixels, cpu_tasks(device, work))), Range(1), x, y,
           index, s);
  } else if (device.cpu_style() && !p.adaptive) {
    const int stride_w = p.stride[2] <= 2 ? static_cast<int>(p.stride[2]) : 0;
    const int kernel_w = p.kernel[2] == 2 || p.kernel[2] == 3 ? static_cast<int>(p.kernel[2]) : 0;
    const int64_t rows = p.batch * p.channels * p.output[0] * p.output[1];
    launch(queue, kernel(planes_forward, device, p, stride_w, kernel_w), Range(std::min(rows, cpu_tasks(device, work))),
           Range(1), x, y, index, s);
  } else if (!device.cpu_style() && is_small_window(p, outputs)) {
    launch(queue, kernel(windows_forward, device, p, 0, static_cast<int>(p.kernel[2])),
           Range(static_cast<size_t>(round_up(outputs, 256))), Range(256), x, y, index, s,
           static_cast<int32_t>(outputs));
  } else {
    launch_elements(queue, kernel(elements_forward, device, p), outputs, work, x, y, index, s);
  }
}

void pool_backward(Queue& queue, const PoolProblem& problem, const void* grad, const void* index, void* dx) {
  Device& device = queue.device();
  require_floating(device, problem.dtype, "pool_backward");
  // An index refers to the unsimplified plane, which has the same order.
  const PoolProblem p = simplified(problem);
  const PoolShape s = make_shape(p);
  const int64_t planes = p.batch * p.channels, inputs = planes * s.in_plane;
  if (inputs == 0) return;
  const int64_t work = std::max(inputs, planes * s.out_plane);
  if (device.cpu_style() && p.channels_last)
    launch(queue, kernel(channels_backward, device, p), Range(std::min(p.batch * s.in_plane, cpu_tasks(device, work))),
           Range(1), grad, index, dx, s);
  else if (device.cpu_style()) {
    // A task of a half type has a plane of sums of its own, which should stay in its cache.
    const int64_t most = is_half(p.dtype) ? 4 * device.capabilities().compute_units : planes,
                  tasks = std::min({planes, most, cpu_tasks(device, work)});
    Workspace sums(queue, is_half(p.dtype) ? static_cast<size_t>(tasks * s.in_plane) * acc_bytes(p.dtype) : 0);
    launch(queue, kernel(planes_backward, device, p), Range(tasks), Range(1), grad, index, dx, sums.data(), s);
  } else if (p.kind == PoolKind::max && p.stride[1] == p.stride[2] && p.stride[2] <= 2 && is_small_window(p, inputs)) {
    Kernel& k = kernel(windows_backward, device, p, static_cast<int>(p.stride[2]), static_cast<int>(p.kernel[2]));
    launch(queue, k, Range(static_cast<size_t>(round_up(inputs, 256))), Range(256), grad, index, dx, s,
           static_cast<int32_t>(inputs));
  } else
    launch_elements(queue, kernel(elements_backward, device, p), inputs, work, grad, index, dx, s);
}

}  // namespace ocl::ops
