// Losses that are elementwise functions of input and target, reduced behind them, forward and backward.
#include "torch/aten/elementwise_macros.h"
#include "torch/aten/elementwise_unstructured.h"
#include "ops/loss/range.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

namespace ocl::aten {

namespace {

at::Tensor reduce(const at::Tensor& loss, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return at::mean(loss);
  if (reduction == at::Reduction::Sum) return at::sum(loss);
  return loss;
}
at::Tensor& reduce_into(const at::Tensor& loss, int64_t reduction, at::Tensor& out) {
  TORCH_CHECK(at::canCast(loss.scalar_type(), out.scalar_type()), "result type ", loss.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, reduction == at::Reduction::None ? loss.sizes() : at::IntArrayRef());
  return out.copy_(reduce(loss, reduction));
}
double norm_of(const at::Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
}

at::Tensor& mse_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction, at::Tensor& out) {
  return reduce_into(binary(OCL_ROW("mse"), self, target, {}), reduction, out);
}
at::Tensor mse_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  return reduce(binary(OCL_ROW("mse"), self, target, {}), reduction);
}
at::Tensor mse_loss_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                             int64_t reduction) {
  return ternary(OCL_ROW("mse_backward"), grad, self, target, {}, {2.0 * norm_of(self, reduction)});
}
at::Tensor& mse_loss_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                  int64_t reduction, at::Tensor& out) {
  return ternary(OCL_ROW("mse_backward"), grad, self, target, out, {2.0 * norm_of(self, reduction)}), out;
}

at::Tensor smooth_l1_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double beta) {
  TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
  return reduce(binary(OCL_ROW("smooth_l1"), self, target, {}, {beta}), reduction);
}
at::Tensor& smooth_l1_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double beta,
                               at::Tensor& out) {
  TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
  return reduce_into(binary(OCL_ROW("smooth_l1"), self, target, {}, {beta}), reduction, out);
}
at::Tensor& smooth_l1_loss_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                        int64_t reduction, double beta, at::Tensor& out) {
  return ternary(OCL_ROW("smooth_l1_backward"), grad, self, target, out, {norm_of(self, reduction), beta}), out;
}

at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  return reduce(binary(OCL_ROW("huber"), self, target, {}, {delta}), reduction);
}
at::Tensor& huber_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta,
                           at::Tensor& out) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  return reduce_into(binary(OCL_ROW("huber"), self, target, {}, {delta}), reduction, out);
}
at::Tensor& huber_loss_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                    int64_t reduction, double delta, at::Tensor& out) {
  return ternary(OCL_ROW("huber_backward"), grad, self, target, out, {norm_of(self, reduction), delta}), out;
}

at::Tensor weighted(const at::Tensor& loss, const std::optional<at::Tensor>& weight) {
  return weight && weight->defined() ? loss.mul_(*weight) : loss;
}
// -b log(a) - (1 - b) log(1 - a). Numbers that are no probabilities are reported at the next synchronisation.
at::Tensor binary_cross_entropies(const at::Tensor& self, const at::Tensor& target) {
  static const ops::ErrorSite input_error("all elements of input should be between 0 and 1",
                                          ops::ErrorSite::Kind::message);
  static const ops::ErrorSite target_error("all elements of target should be between 0 and 1",
                                           ops::ErrorSite::Kind::message);
  TORCH_CHECK(self.scalar_type() == target.scalar_type(), "Found dtype ", target.scalar_type(), " but expected ",
              self.scalar_type());
  at::Tensor loss = binary(OCL_ROW("binary_cross_entropy"), self, target, {});
  for (const auto& [tensor, error] : {std::pair(&self, &input_error), std::pair(&target, &target_error)}) {
    const at::Tensor dense = tensor->is_non_overlapping_and_dense() ? *tensor : tensor->contiguous();
    ops::check_unit_range(queue_for(self), dtype_of(dense.scalar_type()), address(dense), dense.numel(), *error);
  }
  return loss;
}
at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target,
                                const std::optional<at::Tensor>& weight, int64_t reduction) {
  return reduce(weighted(binary_cross_entropies(self, target), weight), reduction);
}
at::Tensor& binary_cross_entropy_out(const at::Tensor& self, const at::Tensor& target,
                                     const std::optional<at::Tensor>& weight, int64_t reduction, at::Tensor& out) {
  return reduce_into(weighted(binary_cross_entropies(self, target), weight), reduction, out);
}
at::Tensor binary_cross_entropy_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                         const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor result = weighted(ternary(OCL_ROW("binary_cross_entropy_backward"), grad, self, target, {}), weight);
  return reduction == at::Reduction::Mean ? result.div_(self.numel()) : result;
}
at::Tensor& binary_cross_entropy_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                              const std::optional<at::Tensor>& weight, int64_t reduction,
                                              at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  return out.copy_(ocl::aten::binary_cross_entropy_backward(grad, self, target, weight, reduction));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mse_loss", mse_loss);
  m.impl("mse_loss.out", mse_loss_out);
  m.impl("mse_loss_backward", mse_loss_backward);
  m.impl("mse_loss_backward.grad_input", mse_loss_backward_out);
  m.impl("smooth_l1_loss", smooth_l1_loss);
  m.impl("smooth_l1_loss.out", smooth_l1_loss_out);
  m.impl("smooth_l1_loss_backward.grad_input", smooth_l1_loss_backward_out);
  m.impl("huber_loss", huber_loss);
  m.impl("huber_loss.out", huber_loss_out);
  m.impl("huber_loss_backward.out", huber_loss_backward_out);
  m.impl("binary_cross_entropy", binary_cross_entropy);
  m.impl("binary_cross_entropy.out", binary_cross_entropy_out);
  m.impl("binary_cross_entropy_backward", binary_cross_entropy_backward);
  m.impl("binary_cross_entropy_backward.grad_input", binary_cross_entropy_backward_out);
}

}  // namespace ocl::aten
