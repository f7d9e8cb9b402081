// Activations, forward and backward.
#include "torch/aten/elementwise_macros.h"
#include "torch/aten/elementwise_unstructured.h"
#include "torch/aten/versions.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/Activation.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/_prelu_kernel_native.h>
#include <ATen/ops/elu_backward_meta.h>
#include <ATen/ops/elu_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/glu_meta.h>
#include <ATen/ops/hardshrink_backward_meta.h>
#include <ATen/ops/hardshrink_meta.h>
#include <ATen/ops/hardsigmoid_backward_meta.h>
#include <ATen/ops/hardsigmoid_meta.h>
#include <ATen/ops/leaky_relu_backward_meta.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <ATen/ops/logit_backward_meta.h>
#include <ATen/ops/logit_native.h>
#include <ATen/ops/mish_meta.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/softplus_backward_meta.h>
#include <ATen/ops/softplus_meta.h>
#include <ATen/ops/softshrink_backward_meta.h>
#include <ATen/ops/softshrink_meta.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/threshold_backward_meta.h>

namespace ocl::aten {

namespace {

// Structured kernels with scalar arguments: STRUCTURED(f, meta class, (parameters), (meta arguments), row, scalars...)
// makes f_out and f_new.
#define LIST(...) __VA_ARGS__
#define STRUCTURED(f, meta_name, PARAMETERS, ARGUMENTS, row, ...)      \
  struct f##_kernel final : Out<at::meta::structured_##meta_name, 1> { \
    using Out::Out;                                                    \
  };                                                                   \
  at::Tensor& f##_out(LIST PARAMETERS, at::Tensor& out) {              \
    f##_kernel kernel(out);                                            \
    kernel.meta ARGUMENTS;                                             \
    run(row, kernel, {__VA_ARGS__});                                   \
    kernel.finish();                                                   \
    return out;                                                        \
  }                                                                    \
  at::Tensor f##_new PARAMETERS {                                      \
    New<at::meta::structured_##meta_name> kernel;                      \
    kernel.meta ARGUMENTS;                                             \
    run(row, kernel, {__VA_ARGS__});                                   \
    return std::move(kernel.result);                                   \
  }
#define TENSOR_IN const at::Tensor&
#define SCALAR_IN const at::Scalar&

OCL_UNARY(silu, "silu")
OCL_UNARY(mish, "mish")
OCL_UNARY(hardsigmoid, "hardsigmoid")
OCL_BINARY(sigmoid_backward, sigmoid_backward, "sigmoid_backward")
OCL_BINARY(tanh_backward, tanh_backward, "tanh_backward")
OCL_BINARY(silu_backward, silu_backward, "silu_backward")
OCL_BINARY(hardsigmoid_backward, hardsigmoid_backward, "hardsigmoid_backward")

bool is_tanh(std::string_view approximate) {
  return at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh;
}
STRUCTURED(gelu, gelu, (TENSOR_IN self, std::string_view approximate), (self, approximate),
           is_tanh(approximate) ? OCL_ROW("gelu_tanh") : OCL_ROW("gelu"))
STRUCTURED(gelu_backward, gelu_backward, (TENSOR_IN grad, TENSOR_IN self, std::string_view approximate),
           (grad, self, approximate), is_tanh(approximate) ? OCL_ROW("gelu_tanh_backward") : OCL_ROW("gelu_backward"))
STRUCTURED(leaky_relu, leaky_relu, (TENSOR_IN self, SCALAR_IN slope), (self, slope), OCL_ROW("leaky_relu"),
           scalar_of(slope))
STRUCTURED(leaky_relu_backward, leaky_relu_backward, (TENSOR_IN grad, TENSOR_IN self, SCALAR_IN slope, bool is_result),
           (grad, self, slope, is_result), OCL_ROW("leaky_relu_backward"), scalar_of(slope))
STRUCTURED(elu, elu, (TENSOR_IN self, SCALAR_IN alpha, SCALAR_IN scale, SCALAR_IN input_scale),
           (self, alpha, scale, input_scale), OCL_ROW("elu"), alpha.toDouble() * scale.toDouble(), scalar_of(scale),
           scalar_of(input_scale))
STRUCTURED(elu_backward, elu_backward,
           (TENSOR_IN grad, SCALAR_IN alpha, SCALAR_IN scale, SCALAR_IN input_scale, bool is_result, TENSOR_IN self),
           (grad, alpha, scale, input_scale, is_result, self),
           is_result ? OCL_ROW("elu_backward_result") : OCL_ROW("elu_backward"), alpha.toDouble() * scale.toDouble(),
           scalar_of(scale), scalar_of(input_scale))
STRUCTURED(hardshrink, hardshrink, (TENSOR_IN self, SCALAR_IN lambda), (self, lambda), OCL_ROW("hardshrink"),
           scalar_of(lambda))
STRUCTURED(hardshrink_backward, hardshrink_backward, (TENSOR_IN grad, TENSOR_IN self, SCALAR_IN lambda),
           (grad, self, lambda), OCL_ROW("shrink_backward"), scalar_of(lambda))
STRUCTURED(softshrink, softshrink, (TENSOR_IN self, SCALAR_IN lambda), (self, lambda), OCL_ROW("softshrink"),
           scalar_of(lambda))
STRUCTURED(softshrink_backward, softshrink_backward, (TENSOR_IN grad, TENSOR_IN self, SCALAR_IN lambda),
           (grad, self, lambda), OCL_ROW("shrink_backward"), scalar_of(lambda))
STRUCTURED(softplus, softplus, (TENSOR_IN self, SCALAR_IN beta, SCALAR_IN threshold), (self, beta, threshold),
           OCL_ROW("softplus"), scalar_of(beta), scalar_of(threshold))
STRUCTURED(softplus_backward, softplus_backward, (TENSOR_IN grad, TENSOR_IN self, SCALAR_IN beta, SCALAR_IN threshold),
           (grad, self, beta, threshold), OCL_ROW("softplus_backward"), scalar_of(beta), scalar_of(threshold))
STRUCTURED(threshold_backward, threshold_backward, (TENSOR_IN grad, TENSOR_IN self, SCALAR_IN threshold),
           (grad, self, threshold), OCL_ROW("threshold_backward"), scalar_of(threshold))

// ---- operators without a structured kernel
// glu has one, but its iterator borrows two halves of the input that end with the meta function. What that function
// checks and allocates is kept.
void run_glu(const at::Tensor& self, int64_t dim, const at::Tensor& out) {
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  const int64_t half = self.size(d) / 2;
  binary(OCL_ROW("glu"), self.narrow(d, 0, half), self.narrow(d, half, half), out);
}
at::Tensor& glu_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  struct Kernel final : Out<at::meta::structured_glu, 1> {
    using Out::Out;
  } kernel(out);
  kernel.meta(self, dim);
  run_glu(self, dim, kernel.output(0));
  kernel.finish();
  return out;
}
at::Tensor glu_new(const at::Tensor& self, int64_t dim) {
  New<at::meta::structured_glu> kernel;
  kernel.meta(self, dim);
  run_glu(self, dim, kernel.result);
  return std::move(kernel.result);
}

// d/da (a sigmoid(b)) and d/db, into the two halves of the result
at::Tensor& glu_backward_out(const at::Tensor& grad, const at::Tensor& self, int64_t dim, at::Tensor& out) {
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  const int64_t half = self.size(d) / 2;
  const at::Tensor a = self.narrow(d, 0, half), gate = self.narrow(d, half, half).sigmoid();
  at::native::resize_output(out, self.sizes());
  out.narrow(d, 0, half).copy_(at::mul(grad, gate));
  out.narrow(d, half, half).copy_(at::sigmoid_backward(at::mul(grad, a), gate));
  return out;
}
at::Tensor glu_backward(const at::Tensor& grad, const at::Tensor& self, int64_t dim) {
  at::Tensor out = at::empty_like(self);
  return glu_backward_out(grad, self, dim, out);
}

at::Tensor hardswish(const at::Tensor& self) { return unary(OCL_ROW("hardswish"), self, {}); }
at::Tensor& hardswish_out(const at::Tensor& self, at::Tensor& out) {
  return unary(OCL_ROW("hardswish"), self, out), out;
}
at::Tensor& hardswish_(at::Tensor& self) { return unary(OCL_ROW("hardswish"), self, self), self; }
at::Tensor hardswish_backward(const at::Tensor& grad, const at::Tensor& self) {
  return binary(OCL_ROW("hardswish_backward"), grad, self, {});
}
at::Tensor mish_backward(const at::Tensor& grad, const at::Tensor& self) {
  return binary(OCL_ROW("mish_backward"), grad, self, {});
}

at::Tensor hardtanh_backward(const at::Tensor& grad, const at::Tensor& self, const at::Scalar& low,
                             const at::Scalar& high) {
  return binary(OCL_ROW("hardtanh_backward"), grad, self, {}, {scalar_of(low), scalar_of(high)});
}
at::Tensor& hardtanh_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Scalar& low,
                                  const at::Scalar& high, at::Tensor& out) {
  return binary(OCL_ROW("hardtanh_backward"), grad, self, out, {scalar_of(low), scalar_of(high)}), out;
}
at::Tensor& hardtanh_out(const at::Tensor& self, const at::Scalar& low, const at::Scalar& high, at::Tensor& out) {
  check_hardtanh(self.scalar_type(), low, high);
  TORCH_CHECK(low.toDouble() <= high.toDouble(), "hardtanh: min_val must not be larger than max_val");
  const at::Scalar least = clamp_limit(low, self.scalar_type(), true);
  const at::Scalar largest = clamp_limit(high, self.scalar_type(), false);
  return unary(OCL_ROW("clamp"), self, out, {scalar_of(least), scalar_of(largest)}), out;
}
at::Tensor hardtanh(const at::Tensor& self, const at::Scalar& low, const at::Scalar& high) {
  at::Tensor out = at::empty_like(self);
  return hardtanh_out(self, low, high, out);
}
at::Tensor& hardtanh_(at::Tensor& self, const at::Scalar& low, const at::Scalar& high) {
  return hardtanh_out(self, low, high, self);
}

std::tuple<at::Tensor, at::Tensor> log_sigmoid_forward(const at::Tensor& self) {
  return {unary(OCL_ROW("log_sigmoid"), self, {}), at::empty({0}, self.options())};
}
std::tuple<at::Tensor&, at::Tensor&> log_sigmoid_forward_out(const at::Tensor& self, at::Tensor& out,
                                                             at::Tensor& buffer) {
  unary(OCL_ROW("log_sigmoid"), self, out);
  return {out, buffer};
}
at::Tensor log_sigmoid_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor&) {
  return binary(OCL_ROW("log_sigmoid_backward"), grad, self, {});
}
at::Tensor& log_sigmoid_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor&,
                                     at::Tensor& out) {
  return binary(OCL_ROW("log_sigmoid_backward"), grad, self, out), out;
}

// ATen prepares the iterator and calls these.
void prelu_kernel(at::TensorIterator& iterator) { run(OCL_ROW("prelu"), iterator); }
void logit_kernel(at::TensorIteratorBase& iterator, const at::Scalar& eps) {
  if (eps.toDouble() < 0)
    run(OCL_ROW("logit"), iterator);
  else
    run(OCL_ROW("logit_eps"), iterator, {scalar_of(eps)});
}

std::tuple<at::Tensor, at::Tensor> prelu_backward(const at::Tensor& grad, const at::Tensor& self,
                                                  const at::Tensor& weight) {
  return {ternary(OCL_ROW("prelu_backward"), grad, self, weight, {}),
          binary(OCL_ROW("prelu_backward_weight"), grad, self, {})};
}

struct LogitBackward final : Out<at::meta::structured_logit_backward, 1> {
  using Out::Out;
};
at::Tensor& logit_backward_out(const at::Tensor& grad, const at::Tensor& self, std::optional<double> eps,
                               at::Tensor& out) {
  LogitBackward kernel(out);
  kernel.meta(grad, self, eps);
  if (eps && *eps >= 0)
    run(OCL_ROW("logit_eps_backward"), kernel, {*eps});
  else
    run(OCL_ROW("logit_backward"), kernel);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_IMPL(m, silu, "silu", "", ".out");
  OCL_IMPL(m, mish, "mish", "", ".out");
  OCL_IMPL(m, hardsigmoid, "hardsigmoid", "", ".out");
  OCL_IMPL_NEW(m, sigmoid_backward, "sigmoid_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, tanh_backward, "tanh_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, silu_backward, "silu_backward", "",
               ".grad_input");  // without it the composition of sigmoid and products would be taken
  OCL_IMPL_NEW(m, hardsigmoid_backward, "hardsigmoid_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, gelu, "gelu", "", ".out");
  OCL_IMPL_NEW(m, gelu_backward, "gelu_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, leaky_relu, "leaky_relu", "", ".out");
  OCL_IMPL_NEW(m, leaky_relu_backward, "leaky_relu_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, elu, "elu", "", ".out");
  OCL_IMPL_NEW(m, elu_backward, "elu_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, hardshrink, "hardshrink", "", ".out");
  OCL_IMPL_NEW(m, hardshrink_backward, "hardshrink_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, softshrink, "softshrink", "", ".out");
  OCL_IMPL_NEW(m, softshrink_backward, "softshrink_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, softplus, "softplus", "", ".out");
  OCL_IMPL_NEW(m, softplus_backward, "softplus_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, threshold_backward, "threshold_backward", "", ".grad_input");
  OCL_IMPL_NEW(m, glu, "glu", "", ".out");
  m.impl("glu_backward", glu_backward);
  m.impl("glu_backward.grad_input", glu_backward_out);
  m.impl("hardswish", hardswish);
  m.impl("hardswish.out", hardswish_out);
  m.impl("hardswish_", hardswish_);
  m.impl("hardswish_backward", hardswish_backward);
  m.impl("mish_backward", mish_backward);
  m.impl("hardtanh", hardtanh);
  m.impl("hardtanh.out", hardtanh_out);
  m.impl("hardtanh_", hardtanh_);
  m.impl("hardtanh_backward", hardtanh_backward);
  m.impl("hardtanh_backward.grad_input", hardtanh_backward_out);
  m.impl("log_sigmoid_forward", log_sigmoid_forward);
  m.impl("log_sigmoid_forward.output", log_sigmoid_forward_out);
  m.impl("log_sigmoid_backward", log_sigmoid_backward);
  m.impl("log_sigmoid_backward.grad_input", log_sigmoid_backward_out);
  m.impl("_prelu_kernel", at::native::_prelu_kernel);
  m.impl("_prelu_kernel_backward", prelu_backward);
  m.impl("logit", at::native::logit);
  m.impl("logit_", at::native::logit_);
  m.impl("logit.out", at::native::logit_out);
  m.impl("logit_backward.grad_input", logit_backward_out);
}

}  // namespace ocl::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(prelu_stub, &ocl::aten::prelu_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(logit_stub, &ocl::aten::logit_kernel)

}  // namespace at::native
