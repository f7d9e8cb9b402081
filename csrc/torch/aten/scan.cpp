// Cumulative operators.
#include "ops/scan/scan.h"

#include "torch/aten/common.h"
#include "torch/aten/many_dims.h"
#include "torch/aten/on_cpu.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_logcumsumexp_ops.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/empty_like.h>

namespace ocl::aten {

namespace {

using at::Tensor;

void run(ops::Scan op, const Tensor& self, int64_t dim, const Tensor& out, const Tensor& index = {}) {
  if (out.numel() == 0) return;
  const c10::OptionalDeviceGuard guard(out.device());
  if (too_many_dims(self)) {
    dim = at::maybe_wrap_dim(dim, self.dim());
    return change_around(out, dim, [&](const Tensor& values) {
      if (!index.defined()) return run(op, around(self, dim), 1, values);
      change_around(index, dim, [&](const Tensor& places) { run(op, around(self, dim), 1, values, places); });
    });
  }
  ops::scan(queue_for(out), op, view(self), static_cast<int>(at::maybe_wrap_dim(dim, self.dim())), view(out),
            index.defined() ? view(index) : ops::TensorView{});
}

template <class Meta, ops::Scan scan>
Tensor& cumulative_out(const Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, Tensor& out) {
  Out<Meta, 1> op(out);
  op.meta(self, dim, dtype);
  run(scan, self, dim, op.output(0));
  op.finish();
  return out;
}

// cummax and cummin check, resize and then call these.
template <ops::Scan scan>
void cumulative_extremum(const Tensor& self, Tensor& values, Tensor& indices, int64_t dim) {
  run(scan, self, dim, values, indices);
}

Tensor& logcumsumexp_out(const Tensor& self, int64_t dim, Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (self.is_complex()) return on_cpu<at::_ops::_logcumsumexp_out>(self, dim, out);
  if (!self.is_floating_point()) not_implemented_for("logcumsumexp", self.scalar_type());
  at::native::resize_output(out, self.sizes());
  run(ops::Scan::logcumsumexp, self, dim, out);
  return out;
}

Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return logcumsumexp_out(self, dim, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cumsum.out", cumulative_out<at::meta::structured_cumsum, ops::Scan::cumsum>);
  m.impl("cumprod.out", cumulative_out<at::meta::structured_cumprod, ops::Scan::cumprod>);
  m.impl("_cummax_helper", cumulative_extremum<ops::Scan::cummax>);
  m.impl("_cummin_helper", cumulative_extremum<ops::Scan::cummin>);
  m.impl("_logcumsumexp", logcumsumexp);
  m.impl("_logcumsumexp.out", logcumsumexp_out);
}

}  // namespace ocl::aten
