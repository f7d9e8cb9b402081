#include "ops/loss/nll.h"

#include "ops/core/device_errors.h"
#include "ops/core/lanes.h"
#include "params/loss.h"

#include <algorithm>

namespace ocl::ops {
namespace {

using params::LossShape;

LossShape make_shape(const NllProblem& p) {
  return {p.batch,
          p.classes,
          p.inner,
          p.batch_stride,
          p.class_stride,
          p.inner_stride,
          p.ignore_index,
          static_cast<int32_t>(p.reduction),
          0};
}

const ErrorSite target_error("nll_loss");
KernelSite elements_site("loss/nll.cl", "nll_elements"), reduce_site("loss/nll.cl", "nll_reduce"),
    finish_site("loss/nll.cl", "nll_finish");
KernelSite backward_site("loss/nll.cl", "nll_backward"), backward_cpu_site("loss/nll.cl", "nll_backward_cpu");

Kernel& kernel(KernelSite& site, Device& device, DType type) {
  return site.get(device, Variant().add(type), [&] { return lane_defines(type); });
}

}  // namespace

void nll_forward(Queue& queue, const NllProblem& p, const void* input, const void* target, const void* weight,
                 void* output, void* total_weight) {
  Device& device = queue.device();
  require_floating(device, p.dtype, "nll_loss");
  const LossShape s = make_shape(p);
  const int64_t elements = p.batch * p.inner;
  const bool cpu = device.cpu_style();
  if (p.reduction == LossReduction::none) {
    const int64_t items = std::max<int64_t>(1, elements);  // one even without elements: total_weight
    launch(queue, kernel(elements_site, device, p.dtype),
           cpu ? Range(std::min(items, cpu_tasks(device, items, 4096))) : gpu_range(items), cpu ? Range(1) : Range(256),
           input, target, weight, output, total_weight, s, device_errors(device).data(), target_error.code());
    return;
  }
  const int64_t groups = cpu ? std::max<int64_t>(1, std::min(elements, cpu_tasks(device, elements, 4096)))
                             : std::clamp<int64_t>(elements / 256, 1, 1024);
  Workspace partial(queue, 2 * groups * acc_bytes(p.dtype));
  const size_t items = cpu ? 1 : 256;
  launch(queue, kernel(reduce_site, device, p.dtype), Range(groups * items), Range(items), input, target, weight,
         output, total_weight, partial.data(), s, device_errors(device).data(), target_error.code());
  if (groups > 1)
    launch(queue, kernel(finish_site, device, p.dtype), Range(items), Range(items), partial.data(), output,
           total_weight, static_cast<int32_t>(groups), s.reduction);
}

void nll_backward(Queue& queue, const NllProblem& p, const void* grad, const void* target, const void* weight,
                  const void* total_weight, void* dx) {
  Device& device = queue.device();
  require_floating(device, p.dtype, "nll_loss_backward");
  const int64_t elements = p.batch * p.classes * p.inner;
  if (elements == 0) return;
  const LossShape s = make_shape(p);
  if (device.cpu_style()) {
    const int64_t rows = p.inner == 1 ? p.batch : p.batch * p.classes;
    launch(queue, kernel(backward_cpu_site, device, p.dtype), Range(std::min(rows, cpu_tasks(device, elements))),
           Range(1), grad, target, weight, total_weight, dx, s);
  } else {
    launch(queue, kernel(backward_site, device, p.dtype), gpu_range(elements), Range(256), grad, target, weight,
           total_weight, dx, s);
  }
}

}  // namespace ocl::ops
