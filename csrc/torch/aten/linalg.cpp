// Linear algebra that is made of other operators.
#include "torch/aten/common.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

namespace ocl::aten {
namespace {

using at::Tensor;

struct Cross : Out<at::meta::structured_linalg_cross, 1> {
  using Out::Out;
};

// Elements (start, start + 1, start + 2) modulo 3 along dim.
Tensor turned(const Tensor& t, int64_t dim, int64_t start) {
  return at::cat({t.narrow(dim, start, 3 - start), t.narrow(dim, 0, start)}, dim);
}

Tensor& cross_out(const Tensor& self, const Tensor& other, int64_t dim, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Cross op(out);
  op.meta(self, other, dim);
  if (op.output(0).scalar_type() == at::kBool) not_implemented_for("cross", at::kBool);
  dim = at::maybe_wrap_dim(dim, op.output(0).dim());
  const Tensor a = self.expand(op.output(0).sizes()), b = other.expand(op.output(0).sizes());
  const Tensor left = at::mul(turned(a, dim, 1), turned(b, dim, 2)),
               right = at::mul(turned(a, dim, 2), turned(b, dim, 1));
  op.output(0).copy_(left.sub_(right));
  op.finish();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("linalg_cross.out", cross_out); }

}  // namespace ocl::aten
