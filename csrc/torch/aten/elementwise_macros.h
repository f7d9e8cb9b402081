// One line per operator: a row of the elementwise table behind ATen's own meta function (checks, promotion, overlap,
// out= semantics). Every operator has three forms, f_out(operands, out), f_new(operands) and f_in_place(self,
// operands).
#pragma once

#include "torch/aten/elementwise.h"

// The row, looked up once.
#define OCL_ROW(name)                                           \
  ([]() -> const ::ocl::ops::ElementwiseRow& {                  \
    static const auto& row = ::ocl::ops::elementwise_row(name); \
    return row;                                                 \
  }())

// f(self) from at::meta::structured_<op>, whose compute type is COMPUTE (std::nullopt: the common one).
#define OCL_UNARY_COMPUTED(op, row, COMPUTE)                      \
  struct op##_unary final : Out<at::meta::structured_##op, 1> {   \
    using Out::Out;                                               \
  };                                                              \
  at::Tensor& op##_out(const at::Tensor& self, at::Tensor& out) { \
    op##_unary kernel(out);                                       \
    kernel.meta(self);                                            \
    run(OCL_ROW(row), kernel, {}, COMPUTE);                       \
    return out;                                                   \
  }                                                               \
  at::Tensor op##_new(const at::Tensor& self) {                   \
    New<at::meta::structured_##op> kernel;                        \
    kernel.meta(self);                                            \
    run(OCL_ROW(row), kernel, {}, COMPUTE);                       \
    return std::move(kernel.result);                              \
  }                                                               \
  [[maybe_unused]] at::Tensor& op##_in_place(at::Tensor& self) { return ocl::aten::op##_out(self, self); }
#define OCL_UNARY(op, row) OCL_UNARY_COMPUTED(op, row, std::nullopt)
// The same for results that are boolean whatever the input: the input's dtype is the compute type.
#define OCL_UNARY_TO_BOOL(op, row) OCL_UNARY_COMPUTED(op, row, self.scalar_type())

// f(self, other) from at::meta::structured_<meta_name>; OTHER: its type.
#define OCL_BINARY_WITH(f, meta_name, row, OTHER)                                    \
  struct f##_binary final : Out<at::meta::structured_##meta_name, 1> {               \
    using Out::Out;                                                                  \
  };                                                                                 \
  at::Tensor& f##_out(const at::Tensor& self, const OTHER& other, at::Tensor& out) { \
    f##_binary kernel(out);                                                          \
    kernel.meta(self, other);                                                        \
    run(OCL_ROW(row), kernel);                                                       \
    return out;                                                                      \
  }                                                                                  \
  at::Tensor f##_new(const at::Tensor& self, const OTHER& other) {                   \
    New<at::meta::structured_##meta_name> kernel;                                    \
    kernel.meta(self, other);                                                        \
    run(OCL_ROW(row), kernel);                                                       \
    return std::move(kernel.result);                                                 \
  }                                                                                  \
  [[maybe_unused]] at::Tensor& f##_in_place(at::Tensor& self, const OTHER& other) {  \
    return ocl::aten::f##_out(self, other, self);                                    \
  }
#define OCL_BINARY(f, meta_name, row) OCL_BINARY_WITH(f, meta_name, row, at::Tensor)
#define OCL_COMPARE(op)                     \
  OCL_BINARY(op##_tensor, op##_Tensor, #op) \
  OCL_BINARY_WITH(op##_scalar, op##_Scalar, #op, at::Scalar)

// Registration of the forms that ATen has: out and new, or all three. Overloads with their point, as ".Tensor"; "" for
// none.
#define OCL_IMPL_NEW(m, f, op, overload, out_overload) \
  m.impl(op out_overload, f##_out);                    \
  m.impl(op overload, f##_new)
#define OCL_IMPL(m, f, op, overload, out_overload) \
  OCL_IMPL_NEW(m, f, op, overload, out_overload);  \
  m.impl(op "_" overload, f##_in_place)
