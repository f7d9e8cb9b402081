// One line per operator: a row of the elementwise table behind ATen's own meta function (checks, promotion, overlap, out= semantics).
#pragma once

#include "aten/elementwise.h"

// The row, looked up once.
#define OCL_ROW(name)                                             \
  ([]() -> const ::ocl::ops::ElementwiseRow& {                    \
    static const auto& row = ::ocl::ops::elementwise_row(name);   \
    return row;                                                   \
  }())

// op.out(self) from at::meta::structured_<op>
#define OCL_UNARY(op, row)                                                       \
  struct op##_unary final : Out<at::meta::structured_##op, 1> { using Out::Out; }; \
  at::Tensor& op##_out(const at::Tensor& self, at::Tensor& out) {                \
    op##_unary kernel(out);                                                      \
    kernel.meta(self);                                                           \
    run(OCL_ROW(row), kernel);                                                   \
    return out;                                                                  \
  }
// The same for results that are boolean whatever the input: the input's dtype is the compute type.
#define OCL_UNARY_TO_BOOL(op, row)                                               \
  struct op##_unary final : Out<at::meta::structured_##op, 1> { using Out::Out; }; \
  at::Tensor& op##_out(const at::Tensor& self, at::Tensor& out) {                \
    op##_unary kernel(out);                                                      \
    kernel.meta(self);                                                           \
    run(OCL_ROW(row), kernel, {}, self.scalar_type());                           \
    return out;                                                                  \
  }
// function(self, other) from at::meta::structured_<meta>
#define OCL_BINARY(function, meta_name, row)                                                  \
  struct function##_binary final : Out<at::meta::structured_##meta_name, 1> { using Out::Out; }; \
  at::Tensor& function(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {    \
    function##_binary kernel(out);                                                            \
    kernel.meta(self, other);                                                                 \
    run(OCL_ROW(row), kernel);                                                                \
    return out;                                                                               \
  }
#define OCL_COMPARE(op)                                                                               \
  OCL_BINARY(op##_tensor_out, op##_Tensor, #op)                                                       \
  struct op##_scalar_kernel final : Out<at::meta::structured_##op##_Scalar, 1> { using Out::Out; };   \
  at::Tensor& op##_scalar_out(const at::Tensor& self, const at::Scalar& other, at::Tensor& out) {     \
    op##_scalar_kernel kernel(out);                                                                   \
    kernel.meta(self, other);                                                                         \
    run(OCL_ROW(#op), kernel);                                                                        \
    return out;                                                                                       \
  }
