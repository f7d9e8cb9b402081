// What the registrations of reductions share.
#pragma once

#include "torch/aten/common.h"
#include "ops/reduce/reduce.h"

namespace ocl::aten {

// The reduced dimensions; an absent or empty list means every one.
ops::DimMask mask_of(const at::Tensor& self, at::OptionalIntArrayRef dims);
ops::DimMask mask_of(const at::Tensor& self, std::optional<int64_t> dim);
// Elements that one result is made of.
int64_t extent_of(const at::Tensor& self, ops::DimMask dims);
// A contiguous [kept, reduced] of a tensor.
at::Tensor kept_and_reduced(const at::Tensor& self, ops::DimMask dims);
at::DimVector reduced_shape(const at::Tensor& self, ops::DimMask dims, bool keepdim);
at::Tensor new_output(const at::Tensor& self, ops::DimMask dims, bool keepdim, at::ScalarType dtype);
// Writes `out`, `index`, or both where defined.
void run_reduction(ops::Reduction op, const at::Tensor& self, ops::DimMask dims, const at::Tensor& out,
                   double parameter = 0, const at::Tensor& index = {});

}  // namespace ocl::aten
