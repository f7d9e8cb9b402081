#include "torch/distributed/reduction.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

namespace ocl::distributed {

using c10d::ReduceOp;

namespace {

at::ScalarType reduced_in(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kComplexFloat:
    case at::kComplexDouble:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return type;
    case at::kShort: return at::kInt;
    case at::kBool: return at::kByte;
    default: TORCH_CHECK(false, "Invalid scalar type: ", type, " tensors can be moved, not reduced");
  }
}

const char* name_of(ReduceOp::RedOpType op) {
  static constexpr const char* names[] = {"SUM",  "AVG", "PRODUCT", "MIN",        "MAX",
                                          "BAND", "BOR", "BXOR",    "PREMUL_SUM", "UNUSED"};
  return names[op];
}

// Sums and products of truth values are truth values.
ReduceOp::RedOpType of_truth(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::BOR: return ReduceOp::MAX;
    case ReduceOp::PRODUCT:
    case ReduceOp::BAND: return ReduceOp::MIN;
    default: return op;
  }
}

double factor_of(const ReduceOp& op) {
  const auto* supplement = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement, "PREMUL_SUM has no factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item().toDouble() : supplement->double_factor;
}

}  // namespace

Reduction::Reduction(const ReduceOp& op, at::ScalarType type, int ranks)
    : op_(op), gloo_(op.op_), type_(reduced_in(type)), truth_(type == at::kBool), ranks_(ranks) {
  const bool bits = gloo_ == ReduceOp::BAND || gloo_ == ReduceOp::BOR || gloo_ == ReduceOp::BXOR;
  TORCH_CHECK(!bits || c10::isIntegralType(type, true), "Cannot use ReduceOp.", name_of(gloo_),
              " with non-integral dtype");
  const bool mean = gloo_ == ReduceOp::AVG;
  TORCH_CHECK(!c10::isComplexType(type) || gloo_ == ReduceOp::SUM || mean || scales(), "all_reduce does not support ",
              name_of(gloo_), " on complex tensors");
  TORCH_CHECK(!truth_ || !(mean || scales()), "Cannot use ReduceOp.", name_of(gloo_), " with Bool");
  TORCH_CHECK(!scales() || c10::isFloatingType(type) || c10::isComplexType(type),
              "Cannot use ReduceOp.PREMUL_SUM with integral dtype");
  TORCH_CHECK(gloo_ != ReduceOp::UNUSED, "Unhandled ReduceOp");
  if (truth_) gloo_ = of_truth(gloo_);
  if (mean || scales()) gloo_ = ReduceOp::SUM;
}

void Reduction::before(const at::Tensor& host) const {
  if (scales()) host.mul_(factor_of(op_));
}

void Reduction::after(const at::Tensor& host) const {
  if (op_.op_ != ReduceOp::AVG) return;
  if (c10::isIntegralType(host.scalar_type(), true))
    host.div_(ranks_, "trunc");
  else
    host.div_(ranks_);
}

at::Tensor Reduction::of_parts(const at::Tensor& parts) const {
  at::Tensor result = parts.select(0, 0);
  for (int64_t i = 1; i < parts.size(0); ++i) {
    const at::Tensor part = parts.select(0, i);
    switch (gloo_) {
      case ReduceOp::SUM: result.add_(part); break;
      case ReduceOp::PRODUCT: result.mul_(part); break;
      case ReduceOp::MIN: at::minimum_out(result, result, part); break;
      case ReduceOp::MAX: at::maximum_out(result, result, part); break;
      case ReduceOp::BAND: result.bitwise_and_(part); break;
      case ReduceOp::BOR: result.bitwise_or_(part); break;
      default: result.bitwise_xor_(part);
    }
  }
  after(result);
  return result;
}

}  // namespace ocl::distributed
