#include "ops/loss/ctc.h"
#include "params/loss.h"

namespace ocl::ops {
namespace {

using params::CtcShape;

CtcShape shape_of(const Ctc& p) {
  return {p.steps,        p.batch,         p.classes,  p.step_stride, p.batch_stride,
          p.class_stride, p.target_stride, p.states(), p.blank,       p.zero_infinity};
}

int64_t group_of(const Device& device) { return device.cpu_style() ? 1 : 64; }

Kernel& kernel_of(KernelSite& site, Device& device, const Ctc& p) {
  require_dtype(device, p.dtype, "ctc_loss");
  return site.get(device, Variant().add(p.dtype), [&] {
    Defines defines;
    dtype(defines, "D", p.dtype);
    return defines.add("GROUP", group_of(device));
  });
}

}  // namespace

void ctc_forward(Queue& queue, const Ctc& p, void* loss, void* log_alpha, const void* log_probs, const void* targets,
                 const void* sequences) {
  static KernelSite site("loss/ctc.cl", "ctc_alpha");
  const int64_t group = group_of(queue.device());
  launch(queue, kernel_of(site, queue.device(), p), Range(p.batch * group), Range(group), loss, log_alpha, log_probs,
         targets, sequences, shape_of(p));
}

void ctc_backward(Queue& queue, const Ctc& p, void* grad_log_probs, void* log_beta, const void* grad, const void* loss,
                  const void* log_alpha, const void* log_probs, const void* targets, const void* sequences) {
  static KernelSite beta("loss/ctc.cl", "ctc_beta"), gradient("loss/ctc.cl", "ctc_gradient");
  Device& device = queue.device();
  const int64_t group = group_of(device);
  launch(queue, kernel_of(beta, device, p), Range(p.batch * group), Range(group), log_beta, log_probs, targets,
         sequences, shape_of(p));
  launch(queue, kernel_of(gradient, device, p), Range(round_up(p.steps * p.batch, group)), Range(group), grad_log_probs,
         grad, loss, log_alpha, static_cast<const void*>(log_beta), log_probs, targets, sequences, shape_of(p));
}

}  // namespace ocl::ops
