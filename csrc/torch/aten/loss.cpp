// nll_loss (one target per row) and nll_loss2d (one target per pixel).
#include "torch/aten/dense_output.h"
#include "ops/loss/nll.h"

#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

namespace ocl::aten {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// self is [C], [N, C] or [N, C, *] with inner dimensions that collapse (made contiguous otherwise, see `collapsible`).
ops::NllProblem make_problem(const Tensor& self, int64_t reduction, int64_t ignore_index) {
  ops::NllProblem p;
  p.dtype = dtype_of(self.scalar_type());
  p.reduction = static_cast<ops::LossReduction>(reduction);
  p.ignore_index = ignore_index;
  const bool batched = self.dim() > 1;
  p.batch = batched ? self.size(0) : 1;
  p.batch_stride = batched ? self.stride(0) : 0;
  p.classes = self.size(batched ? 1 : 0);
  p.class_stride = self.stride(batched ? 1 : 0);
  for (int64_t d = 2; d < self.dim(); ++d) {
    p.inner *= self.size(d);
    if (self.size(d) > 1) p.inner_stride = self.stride(d);  // a dimension of size 1 may have any
  }
  return p;
}

// Rows, and pixels of contiguous or channels-last images, are read where they lie.
Tensor collapsible(const Tensor& self) {
  if (self.dim() <= 2 || self.is_contiguous() || self.is_contiguous(at::MemoryFormat::ChannelsLast)) return self;
  return self.contiguous();
}

Tensor as_classes(const Tensor& target) {
  return target.scalar_type() == at::kLong ? target.contiguous() : target.to(at::kLong).contiguous();
}

Tensor weight_like(const OptionalTensor& weight, const Tensor& self) {
  const Tensor w = dense(weight);
  TORCH_CHECK(!w.defined() || w.scalar_type() == self.scalar_type(), "expected scalar type ", self.scalar_type(),
              " but found ", w.scalar_type());
  return w;
}

// Without classes every target is wrong: said here, where there is nothing to compute, not by the device.
void check_classes(const Tensor& target, int64_t classes, int64_t ignore_index) {
  if (classes > 0 || target.numel() == 0) return;
  const Tensor wrong = target.cpu().masked_select(target.cpu().ne(ignore_index));
  TORCH_CHECK_INDEX(wrong.numel() == 0, "Target ", wrong[0].item<int64_t>(), " is out of bounds.");
}

void run_forward(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction,
                 int64_t ignore_index, const Tensor& output, const Tensor& total_weight) {
  check_classes(target, self.size(self.dim() > 1 ? 1 : 0), ignore_index);
  const Tensor x = collapsible(self), t = as_classes(target), w = weight_like(weight, self);
  const DenseOutput y(output), total(total_weight);
  ops::nll_forward(queue_for(self), make_problem(x, reduction, ignore_index), address(x), address(t), address(w),
                   y.data(), total.data());
  y.finish();
  total.finish();
}

void run_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                  int64_t reduction, int64_t ignore_index, const Tensor& total_weight, const Tensor& grad_input) {
  const Tensor g = grad.contiguous(), t = as_classes(target), w = weight_like(weight, self);
  const DenseOutput dx(grad_input);
  ops::nll_backward(queue_for(self), make_problem(dx.tensor(), reduction, ignore_index), address(g), address(t),
                    address(w), address(total_weight), dx.data());
  dx.finish();
}

std::tuple<Tensor&, Tensor&> nll_loss_forward_out(const Tensor& self, const Tensor& target,
                                                  const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                                  Tensor& output, Tensor& total_weight) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<at::meta::structured_nll_loss_forward, 2> op(output, total_weight);
  op.meta(self, target, reference(weight), reduction, ignore_index);
  run_forward(self, target, weight, reduction, ignore_index, op.output(0), op.output(1));
  op.finish();
  return {output, total_weight};
}

Tensor& nll_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                              const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                              const Tensor& total_weight, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<at::meta::structured_nll_loss_backward, 1> op(grad_input);
  op.meta(grad, self, target, reference(weight), reduction, ignore_index, total_weight);
  run_backward(grad, self, target, weight, reduction, ignore_index, total_weight, op.output(0));
  op.finish();
  return grad_input;
}

void check_2d(const Tensor& self, const Tensor& target, const OptionalTensor& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(!weight || !weight->defined() || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

std::tuple<Tensor&, Tensor&> nll_loss2d_forward_out(const Tensor& self, const Tensor& target,
                                                    const OptionalTensor& weight, int64_t reduction,
                                                    int64_t ignore_index, Tensor& output, Tensor& total_weight) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check_2d(self, target, weight);
  at::native::resize_output(output, reduction == at::Reduction::None ? target.sizes() : at::IntArrayRef{});
  at::native::resize_output(total_weight, {});
  run_forward(self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

std::tuple<Tensor, Tensor> nll_loss2d_forward(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                                              int64_t reduction, int64_t ignore_index) {
  Tensor output = empty_like_options({0}, self.options()), total_weight = empty_like_options({0}, self.options());
  nll_loss2d_forward_out(self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

Tensor& nll_loss2d_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                                const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                                const Tensor& total_weight, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check_2d(self, target, weight);
  at::native::resize_output(grad_input, self.sizes());
  run_backward(grad, self, target, weight, reduction, ignore_index, total_weight, grad_input);
  return grad_input;
}

Tensor nll_loss2d_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                           int64_t reduction, int64_t ignore_index, const Tensor& total_weight) {
  Tensor grad_input = empty_like_options(self.sizes(), self.options());
  return nll_loss2d_backward_out(grad, self, target, weight, reduction, ignore_index, total_weight, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nll_loss_forward.output", TORCH_FN(nll_loss_forward_out));
  m.impl("nll_loss_backward.grad_input", TORCH_FN(nll_loss_backward_out));
  m.impl("nll_loss2d_forward", TORCH_FN(nll_loss2d_forward));
  m.impl("nll_loss2d_forward.output", TORCH_FN(nll_loss2d_forward_out));
  m.impl("nll_loss2d_backward", TORCH_FN(nll_loss2d_backward));
  m.impl("nll_loss2d_backward.grad_input", TORCH_FN(nll_loss2d_backward_out));
}

}  // namespace ocl::aten
