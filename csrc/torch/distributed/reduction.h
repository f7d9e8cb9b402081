// A reduction in terms of what Gloo can do.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>

namespace ocl::distributed {

class Reduction {
 public:
  // Errors: c10::Error for operators that make no sense for the dtype, and dtypes that are not reduced.
  Reduction(const c10d::ReduceOp& op, at::ScalarType type, int ranks);

  // The dtype to reduce in: Gloo knows no int16, and would add bool as numbers.
  at::ScalarType type() const { return type_; }
  c10d::ReduceOp::RedOpType gloo() const { return gloo_; }
  // Whether before() changes anything.
  bool scales() const { return op_ == c10d::ReduceOp::PREMUL_SUM; }
  // In place, on the host: what comes before and after Gloo's part.
  void before(const at::Tensor& host) const;
  void after(const at::Tensor& host) const;
  // The whole reduction of parts of one size on the host: slices along dimension 0 of `parts`, into the first.
  at::Tensor of_parts(const at::Tensor& parts) const;

 private:
  c10d::ReduceOp op_;
  c10d::ReduceOp::RedOpType gloo_;
  at::ScalarType type_;
  bool truth_;
  int ranks_;
};

}  // namespace ocl::distributed
