// softmax and log_softmax, forward and backward.
#include "aten/dense_output.h"
#include "ops/softmax/softmax.h"

#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>

namespace ocl::aten {
namespace {

using at::Tensor;

template <class Meta, bool log>
Tensor& forward(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 1> op(out);
  op.meta(self, dim, half_to_float);
  if (self.numel() == 0) return out;
  if (!at::isFloatingType(self.scalar_type())) not_implemented_for(log ? "log_softmax" : "softmax", self.scalar_type());
  const auto x = contiguous(self);
  const DenseOutput y(op.output(0));
  ops::softmax_forward(queue_for(self), ops::softmax_problem(view(*x), dim, dtype_of(y.tensor().scalar_type()), log), x->data_ptr(), y.data());
  y.finish();
  op.finish();
  return out;
}

template <class Meta, bool log>
Tensor& backward(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType input_dtype, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(output));
  Out<Meta, 1> op(grad_input);
  op.meta(grad, output, dim, input_dtype);
  if (output.numel() == 0) return grad_input;
  const auto g = contiguous(grad), y = contiguous(output);
  const DenseOutput dx(op.output(0));
  ops::SoftmaxProblem problem = ops::softmax_problem(view(*y), dim, dtype_of(output.scalar_type()), log);
  problem.input = dtype_of(dx.tensor().scalar_type());
  ops::softmax_backward(queue_for(output), problem, g->data_ptr(), y->data_ptr(), dx.data());
  dx.finish();
  op.finish();
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_softmax.out", TORCH_FN((forward<at::meta::structured__softmax, false>)));
  m.impl("_log_softmax.out", TORCH_FN((forward<at::meta::structured__log_softmax, true>)));
  m.impl("_softmax_backward_data.out", TORCH_FN((backward<at::meta::structured__softmax_backward_data, false>)));
  m.impl("_log_softmax_backward_data.out", TORCH_FN((backward<at::meta::structured__log_softmax_backward_data, true>)));
}

}  // namespace ocl::aten
