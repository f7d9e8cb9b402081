// softmax and log_softmax, forward and backward.
#include "torch/aten/dense_output.h"
#include "torch/aten/many_dims.h"
#include "ops/softmax/softmax.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp_native.h>

namespace ocl::aten {
namespace {

using at::Tensor;

ops::SoftmaxProblem problem_of(const Tensor& dense, int64_t dim, ops::DType output, bool log) {
  if (too_many_dims(dense))
    return ops::softmax_problem(view(around(dense, at::maybe_wrap_dim(dim, dense.dim()))), 1, output, log);
  return ops::softmax_problem(view(dense), dim, output, log);
}

template <class Meta, bool log>
Tensor& forward(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 1> op(out);
  op.meta(self, dim, half_to_float);
  if (self.numel() == 0) return out;
  if (!at::isFloatingType(self.scalar_type())) not_implemented_for(log ? "log_softmax" : "softmax", self.scalar_type());
  const auto x = contiguous(self);
  const DenseOutput y(op.output(0));
  ops::softmax_forward(queue_for(self), problem_of(*x, dim, dtype_of(y.tensor().scalar_type()), log), address(*x),
                       y.data());
  y.finish();
  op.finish();
  return out;
}

template <class Meta, bool log>
Tensor& backward(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType input_dtype,
                 Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(output));
  Out<Meta, 1> op(grad_input);
  TORCH_CHECK(grad.sizes() == output.sizes(), "Expected grad of size ", output.sizes(), ", but got ", grad.sizes());
  op.meta(grad, output, dim, input_dtype);
  if (output.numel() == 0) return grad_input;
  const auto g = contiguous(grad), y = contiguous(output);
  const DenseOutput dx(op.output(0));
  ops::SoftmaxProblem problem = problem_of(*y, dim, dtype_of(output.scalar_type()), log);
  problem.input = dtype_of(dx.tensor().scalar_type());
  ops::softmax_backward(queue_for(output), problem, address(*g), address(*y), dx.data());
  dx.finish();
  op.finish();
  return grad_input;
}

// One kernel for one dimension of floating tensors; ATen's composition of maximum, exponential, sum and logarithm
// otherwise: where the kernel would be slow, and for half types, because the composition rounds between its steps.
bool one_kernel(const Tensor& self, at::IntArrayRef dim) {
  if (dim.size() != 1 || self.dim() == 0 || self.numel() == 0 || too_many_dims(self)) return false;
  if (self.scalar_type() != at::kFloat && self.scalar_type() != at::kDouble) return false;
  const int64_t axis = at::maybe_wrap_dim(dim[0], self.dim());
  const ops::DType dtype = dtype_of(self.scalar_type());
  return ops::prefers_logsumexp(queue_for(self).device(), ops::softmax_problem(view(self), axis, dtype, false));
}

Tensor logsumexp_of(const Tensor& self, at::IntArrayRef dim, bool keepdim) {
  if (!one_kernel(self, dim)) return at::native::logsumexp(self, dim, keepdim);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const int64_t axis = at::maybe_wrap_dim(dim[0], self.dim());
  at::DimVector sizes(self.sizes());
  sizes[axis] = 1;
  Tensor result = at::empty(sizes, self.options().memory_format(at::MemoryFormat::Contiguous));
  const auto x = contiguous(self);
  ops::logsumexp(queue_for(self), ops::softmax_problem(view(*x), axis, dtype_of(self.scalar_type()), false),
                 address(*x), address(result));
  return keepdim ? result : result.squeeze(axis);
}

Tensor& logsumexp_out(const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out) {
  const bool alike = out.device() == self.device() &&
                     out.scalar_type() == self.scalar_type();  // ATen's composition refuses or converts others
  if (!alike || !one_kernel(self, dim)) return at::native::logsumexp_out(self, dim, keepdim, out);
  const Tensor result = logsumexp_of(self, dim, keepdim);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("logsumexp", logsumexp_of);
  m.impl("logsumexp.out", logsumexp_out);
  m.impl("_softmax.out", TORCH_FN((forward<at::meta::structured__softmax, false>)));
  m.impl("_log_softmax.out", TORCH_FN((forward<at::meta::structured__log_softmax, true>)));
  m.impl("_softmax_backward_data.out", TORCH_FN((backward<at::meta::structured__softmax_backward_data, false>)));
  m.impl("_log_softmax_backward_data.out", TORCH_FN((backward<at::meta::structured__log_softmax_backward_data, true>)));
}

}  // namespace ocl::aten
