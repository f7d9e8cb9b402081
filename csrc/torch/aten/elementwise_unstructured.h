// Rows of the elementwise table for operators that ATen has no structured kernel of. `out` is the result, or an
// undefined tensor, for which one is allocated; the result is returned.
#pragma once

#include "torch/aten/elementwise.h"

#include <ATen/TensorIterator.h>

#include <initializer_list>

namespace ocl::aten {

inline at::Tensor unary(const ops::ElementwiseRow& row, const at::Tensor& a, at::Tensor out,
                        std::initializer_list<ops::ElementwiseScalar> scalars = {}) {
  auto iterator = at::TensorIterator::unary_op(out, a);
  run(row, iterator, scalars);
  return iterator.output();
}
inline at::Tensor binary(const ops::ElementwiseRow& row, const at::Tensor& a, const at::Tensor& b,
                         const at::Tensor& out, std::initializer_list<ops::ElementwiseScalar> scalars = {}) {
  auto iterator = at::TensorIterator::borrowing_binary_op(out, a, b);
  run(row, iterator, scalars);
  return iterator.output();
}
inline at::Tensor ternary(const ops::ElementwiseRow& row, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                          const at::Tensor& out, std::initializer_list<ops::ElementwiseScalar> scalars = {}) {
  auto iterator = at::TensorIteratorConfig()
                      .add_output(out)
                      .add_const_input(a)
                      .add_const_input(b)
                      .add_const_input(c)
                      .promote_inputs_to_common_dtype(true)
                      .cast_common_dtype_to_outputs(true)
                      .enforce_safe_casting_to_output(true)
                      .build();
  run(row, iterator, scalars);
  return iterator.output();
}

}  // namespace ocl::aten
