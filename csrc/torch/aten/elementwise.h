// Running a row of the elementwise table on a TensorIterator.
#pragma once

#include "torch/aten/common.h"
#include "ops/elementwise/elementwise.h"

namespace ocl::aten {

ops::ElementwiseScalar scalar_of(const at::Scalar& scalar);

// Raises ATen's error ("value cannot be converted to type int8_t without overflow") unless the dtype can hold the
// value.
void check_convertible(const at::Scalar& value, at::ScalarType type);

// Launches the row on the iterator's operands. Operands keep their own dtypes (TensorIterator converts nothing off the
// CPU); CPU scalars become kernel arguments. compute: the iterator's common dtype unless given. `name` is ATen's kernel
// name for the "not implemented" error.
void run(const ops::ElementwiseRow& row, at::TensorIteratorBase& iterator,
         at::ArrayRef<ops::ElementwiseScalar> scalars = {}, std::optional<at::ScalarType> compute = std::nullopt,
         const char* name = nullptr);

}  // namespace ocl::aten
