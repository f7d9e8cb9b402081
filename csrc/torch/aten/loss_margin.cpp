// multi_margin_loss and multilabel_margin_loss, composed from gathers, differences and sums.
#include "torch/aten/common.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace ocl::aten {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

void check_long(const Tensor& target) {
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
}

struct Sizes {
  int64_t batch = 0, classes = 0;
};

Tensor reduced(const Tensor& rows, int64_t reduction, at::IntArrayRef shape) {
  if (reduction == at::Reduction::Mean) return rows.mean();
  if (reduction == at::Reduction::Sum) return rows.sum();
  return rows.view(shape);
}

// The gradient of the reduced loss for every row, [batch, 1].
Tensor per_row(const Tensor& grad, int64_t reduction, int64_t batch) {
  const Tensor g = grad.reshape({-1, 1}).expand({batch, 1});
  return reduction == at::Reduction::Mean ? g / batch : g;
}

Tensor& resized(Tensor& out, const Tensor& value) {
  at::native::resize_output(out, value.sizes());
  return out.copy_(value);
}

// ---- one target: mean over the other classes of max(0, margin - x[target] + x)^p weight[target]
struct MultiMargin {
  Tensor x, target, z, weight;  // [batch, classes], [batch, 1], [batch, classes], [batch, 1] or undefined
  Sizes sizes;
  bool squared;

  MultiMargin(const Tensor& self, const Tensor& target_, const at::Scalar& p, const at::Scalar& margin,
              const OptionalTensor& weight_) {
    at::native::multi_margin_loss_shape_check(sizes.batch, sizes.classes, self.dim(), self, target_, weight_);
    TORCH_CHECK(p.equal(1) || p.equal(2), "only p == 1 and p == 2 supported");
    if (!at::isFloatingType(self.scalar_type())) not_implemented_for("multi_margin_loss", self.scalar_type());
    check_long(target_);
    squared = p.equal(2);
    x = self.reshape({sizes.batch, sizes.classes});
    target = target_.reshape({sizes.batch, 1});
    z = x - x.gather(1, target) + margin;
    z = at::where(z > 0, z, at::zeros({}, z.options())).scatter(1, target, 0);
    if (weight_ && weight_->defined()) weight = weight_->index_select(0, target.view(-1)).view({-1, 1});
  }
  Tensor weighted(const Tensor& t) const { return weight.defined() ? t * weight : t; }
};

Tensor multi_margin_loss(const Tensor& self, const Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                         const OptionalTensor& weight, int64_t reduction) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const MultiMargin m(self, target, p, margin, weight);
  return reduced(m.weighted(m.squared ? m.z * m.z : m.z).sum(1) / m.sizes.classes, reduction, target.sizes());
}
Tensor& multi_margin_loss_out(const Tensor& self, const Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                              const OptionalTensor& weight, int64_t reduction, Tensor& out) {
  return resized(out, aten::multi_margin_loss(self, target, p, margin, weight, reduction));
}

Tensor multi_margin_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const at::Scalar& p,
                                  const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const MultiMargin m(self, target, p, margin, weight);
  const Tensor slope = m.weighted(m.squared ? 2 * m.z : (m.z > 0).to(self.scalar_type())) / m.sizes.classes;
  return (slope.scatter_add(1, m.target, -slope.sum(1, true)) * per_row(grad, reduction, m.sizes.batch))
      .view(self.sizes());
}
Tensor& multi_margin_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                                       const at::Scalar& p, const at::Scalar& margin, const OptionalTensor& weight,
                                       int64_t reduction, Tensor& out) {
  return resized(out, aten::multi_margin_loss_backward(grad, self, target, p, margin, weight, reduction));
}

// ---- several targets, the row's entries before its first -1: sum over targets t and other classes i of max(0, 1 -
// x[t] + x[i]) / classes
struct MultiLabel {
  Tensor x, target, valid,
      others;  // [batch, classes]; target is 0 where it is not valid; others: classes that are no target
  Sizes sizes;

  MultiLabel(const Tensor& self, const Tensor& target_) {
    at::native::multilabel_margin_loss_shape_check(sizes.batch, sizes.classes, self.dim(), self, target_);
    if (!at::isFloatingType(self.scalar_type())) not_implemented_for("multilabel_margin_loss", self.scalar_type());
    check_long(target_);
    x = self.reshape({sizes.batch, sizes.classes});
    const Tensor given = target_.reshape({sizes.batch, sizes.classes});
    valid = (given >= 0).to(at::kLong).cumprod(1).to(x.scalar_type());
    target = given * valid.to(at::kLong);
    others = at::zeros_like(x).scatter_add(1, target, valid).eq(0).to(x.scalar_type());
  }
  // f(z [batch, count, classes], first target, their number) for some targets at a time, so that z stays small
  template <class F>
  void each(F&& f) const {
    const int64_t count = std::max<int64_t>(1, (int64_t{1} << 24) / std::max<int64_t>(1, x.numel()));
    const Tensor scores = x.gather(1, target);
    for (int64_t first = 0; first < sizes.classes; first += count) {
      const int64_t n = std::min(count, sizes.classes - first);
      const Tensor z = x.unsqueeze(1) - scores.narrow(1, first, n).unsqueeze(2) + 1;
      f(z, valid.narrow(1, first, n).unsqueeze(2) * others.unsqueeze(1), first, n);
    }
  }
};

std::tuple<Tensor, Tensor> multilabel_margin_loss_forward(const Tensor& self, const Tensor& target, int64_t reduction) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const MultiLabel m(self, target);
  const Tensor rows = at::zeros({m.sizes.batch}, self.options()), zero = at::zeros({}, self.options());
  m.each([&](const Tensor& z, const Tensor& mask, int64_t, int64_t) {
    rows.add_((at::where(z > 0, z, zero) * mask).sum(at::IntArrayRef{1, 2}));
  });
  const at::DimVector shape = target.dim() <= 1 ? at::DimVector{} : at::DimVector{m.sizes.batch};
  return {reduced(rows / m.sizes.classes, reduction, shape), (1 - m.others).view(target.sizes())};
}
std::tuple<Tensor&, Tensor&> multilabel_margin_loss_forward_out(const Tensor& self, const Tensor& target,
                                                                int64_t reduction, Tensor& output, Tensor& is_target) {
  const auto [value, targets] = aten::multilabel_margin_loss_forward(self, target, reduction);
  return {resized(output, value), resized(is_target, targets)};
}

Tensor multilabel_margin_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                                       const Tensor& /*is_target*/) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const MultiLabel m(self, target);
  const Tensor result = at::zeros_like(m.x);
  m.each([&](const Tensor& z, const Tensor& mask, int64_t first, int64_t count) {
    const Tensor slope = (z > 0).to(self.scalar_type()) * mask;
    result.add_(slope.sum(1));
    result.scatter_add_(1, m.target.narrow(1, first, count), -slope.sum(2));
  });
  return (result * per_row(grad, reduction, m.sizes.batch) / m.sizes.classes).view(self.sizes());
}
Tensor& multilabel_margin_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                                            int64_t reduction, const Tensor& is_target, Tensor& out) {
  return resized(out, aten::multilabel_margin_loss_backward(grad, self, target, reduction, is_target));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("multi_margin_loss", multi_margin_loss);
  m.impl("multi_margin_loss.out", multi_margin_loss_out);
  m.impl("multi_margin_loss_backward", multi_margin_loss_backward);
  m.impl("multi_margin_loss_backward.grad_input", multi_margin_loss_backward_out);
  m.impl("multilabel_margin_loss_forward", multilabel_margin_loss_forward);
  m.impl("multilabel_margin_loss_forward.output", multilabel_margin_loss_forward_out);
  m.impl("multilabel_margin_loss_backward", multilabel_margin_loss_backward);
  m.impl("multilabel_margin_loss_backward.grad_input", multilabel_margin_loss_backward_out);
}

}  // namespace ocl::aten
