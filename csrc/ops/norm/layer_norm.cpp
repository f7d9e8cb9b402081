#include "ops/norm/layer_norm.h"

#include "ops/core/lanes.h"

#include <algorithm>

namespace ocl::ops {
namespace {

KernelSite cpu_layer_forward("norm/layer_norm.cpu.cl", "layer_forward"),
    cpu_layer_backward("norm/layer_norm.cpu.cl", "layer_backward");
KernelSite gpu_layer_forward("norm/layer_norm.gpu.cl", "layer_forward"),
    gpu_layer_backward("norm/layer_norm.gpu.cl", "layer_backward");
KernelSite gpu_layer_parameters("norm/layer_norm.gpu.cl", "layer_parameters");
KernelSite cpu_group_forward("norm/group_norm.cpu.cl", "group_forward"),
    cpu_group_backward("norm/group_norm.cpu.cl", "group_backward");
KernelSite gpu_group_forward("norm/layer_norm.gpu.cl", "group_forward"),
    gpu_group_backward("norm/layer_norm.gpu.cl", "group_backward");
KernelSite add_parts("norm/reduce_parts.cl", "add_parts"), add_batch("norm/reduce_parts.cl", "add_batch");

Kernel& kernel(KernelSite& site, Device& device, DType x, DType w, bool rms) {
  return site.get(device, Variant().add(x).add(w).add(rms, 1), [&] {
    Defines defines = lane_defines(x);
    return dtype(defines, "W_DTYPE", w).add("RMS", rms);
  });
}

// One work-item per element, few in the CPU style.
std::pair<Range, Range> vector_range(const Device& device, int64_t n) {
  if (device.cpu_style())
    return {Range(std::clamp<int64_t>(n / 256, 1, device.capabilities().compute_units)), Range(1)};
  return {Range(round_up(n, 64)), Range(64)};
}

}  // namespace

void layer_norm_forward(Queue& queue, const LayerNormProblem& p, const void* x, const void* weight, const void* bias,
                        void* y, void* mean, void* rstd) {
  Device& device = queue.device();
  require_floating(device, p.dtype, "layer_norm");
  if (p.rows == 0 || p.n == 0) return;
  with_acc(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool cpu = device.cpu_style();
    const Range global = cpu ? Range(std::min(p.rows, cpu_tasks(device, p.rows * p.n))) : Range(p.rows * 256);
    launch(queue, kernel(cpu ? cpu_layer_forward : gpu_layer_forward, device, p.dtype, p.parameter, p.rms), global,
           cpu ? Range(1) : Range(256), x, y, weight, bias, mean, rstd, p.rows, p.n, static_cast<T>(p.eps));
  });
}

void layer_norm_backward(Queue& queue, const LayerNormProblem& p, const void* grad, const void* x, const void* mean,
                         const void* rstd, const void* weight, void* grad_input, void* grad_weight, void* grad_bias) {
  Device& device = queue.device();
  require_floating(device, p.dtype, "layer_norm_backward");
  if (p.n == 0) return;
  const bool parameters = grad_weight || grad_bias;
  const int64_t padded = round_up(p.n, 16), units = device.capabilities().compute_units;
  // Rows are shared by few tasks: each has a private sum of the parameter gradients.
  const int64_t parts = device.cpu_style() ? std::clamp<int64_t>(p.rows * p.n / 16384, 1,
                                                                 std::min<int64_t>(p.rows ? p.rows : 1, 2 * units))
                                           : std::clamp<int64_t>(p.rows / 64, 1, 64);
  Workspace partial(queue, parameters ? 2 * parts * padded * acc_bytes(p.dtype) : 0);
  if (device.cpu_style()) {
    const int64_t tasks = parameters ? parts : std::min(p.rows, cpu_tasks(device, p.rows * p.n));
    launch(queue, kernel(cpu_layer_backward, device, p.dtype, p.parameter, p.rms), Range(tasks), Range(1), x, grad,
           grad_input, weight, mean, rstd, partial.data(), p.rows, p.n, padded);
  } else {
    if (grad_input)
      launch(queue, kernel(gpu_layer_backward, device, p.dtype, p.parameter, p.rms), Range(p.rows * 256), Range(256), x,
             grad, grad_input, weight, mean, rstd, p.n);
    if (parameters)
      launch(queue, kernel(gpu_layer_parameters, device, p.dtype, p.parameter, p.rms),
             Range(ceil_div(p.n, 32) * 256, parts), Range(256, 1), x, grad, mean, rstd, partial.data(), p.rows, p.n,
             padded);
  }
  if (!parameters) return;
  const auto [global, local] = vector_range(device, p.n);
  launch(queue, kernel(add_parts, device, p.dtype, p.parameter, false), global, local, partial.data(), grad_weight,
         grad_bias, p.n, padded, static_cast<int32_t>(parts));
}

void group_norm_forward(Queue& queue, const GroupNormProblem& p, const void* x, const void* weight, const void* bias,
                        void* y, void* mean, void* rstd) {
  Device& device = queue.device();
  require_floating(device, p.dtype, "group_norm");
  const int64_t rows = p.batch * p.groups, members = p.channels / p.groups;
  if (rows * members * p.inner == 0) return;
  with_acc(p.dtype, [&](auto zero) {
    const auto eps = static_cast<decltype(zero)>(p.eps);
    if (device.cpu_style())
      launch(queue, kernel(cpu_group_forward, device, p.dtype, p.parameter, false),
             Range(std::min(rows, cpu_tasks(device, rows * members * p.inner))), Range(1), x, y, weight, bias, mean,
             rstd, rows, p.groups, members, p.inner, eps);
    else
      launch(queue, kernel(gpu_group_forward, device, p.dtype, p.parameter, false), Range(rows * 256), Range(256), x, y,
             weight, bias, mean, rstd, p.groups, members, p.inner, eps);
  });
}

void group_norm_backward(Queue& queue, const GroupNormProblem& p, const void* grad, const void* x, const void* mean,
                         const void* rstd, const void* weight, void* grad_input, void* grad_weight, void* grad_bias) {
  Device& device = queue.device();
  require_floating(device, p.dtype, "group_norm_backward");
  const int64_t rows = p.batch * p.groups, members = p.channels / p.groups;
  if (rows * members * p.inner == 0) return;
  Workspace sums(queue, p.batch * p.channels * acc_bytes(p.dtype)),
      dots(queue, p.batch * p.channels * acc_bytes(p.dtype));
  if (device.cpu_style())
    launch(queue, kernel(cpu_group_backward, device, p.dtype, p.parameter, false),
           Range(std::min(rows, cpu_tasks(device, rows * members * p.inner))), Range(1), x, grad, grad_input, weight,
           mean, rstd, sums.data(), dots.data(), rows, p.groups, members, p.inner);
  else
    launch(queue, kernel(gpu_group_backward, device, p.dtype, p.parameter, false), Range(rows * 256), Range(256), x,
           grad, grad_input, weight, mean, rstd, sums.data(), dots.data(), p.groups, members, p.inner);
  if (!grad_weight && !grad_bias) return;
  const auto [global, local] = vector_range(device, p.channels);
  launch(queue, kernel(add_batch, device, p.dtype, p.parameter, false), global, local, sums.data(), dots.data(), rstd,
         grad_weight, grad_bias, p.batch, p.channels, p.groups);
}

}  // namespace ocl::ops
