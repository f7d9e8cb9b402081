// ctc_loss with lengths on the host or in tensors.
#include "torch/aten/common.h"
#include "ops/loss/ctc.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>

namespace ocl::aten {
namespace {

using at::IntArrayRef, at::Tensor;

// The operands on the device, checked with ATen's messages.
struct CtcCall {
  ops::Ctc problem;
  Tensor targets, sequences;

  CtcCall(const Tensor& log_probs, const Tensor& targets_, IntArrayRef input_lengths, IntArrayRef target_lengths,
          int64_t blank, bool zero_infinity) {
    const at::CheckedFrom name = "ctc_loss_gpu";
    const at::TensorArg log_probs_arg(log_probs, "log_probs", 1), targets_arg(targets_, "targets", 2);
    TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
    if (log_probs.scalar_type() != at::kFloat && log_probs.scalar_type() != at::kDouble)
      not_implemented_for("ctc_loss", log_probs.scalar_type());
    at::checkScalarTypes(name, targets_arg, {at::kLong, at::kInt});
    at::checkDim(name, log_probs_arg, 3);
    at::checkDimRange(name, targets_arg, 1, 3);
    problem.dtype = dtype_of(log_probs.scalar_type());
    problem.steps = log_probs.size(0);
    problem.batch = log_probs.size(1);
    problem.classes = log_probs.size(2);
    problem.step_stride = log_probs.stride(0);
    problem.batch_stride = log_probs.stride(1);
    problem.class_stride = log_probs.stride(2);
    problem.blank = blank;
    problem.zero_infinity = zero_infinity;
    TORCH_CHECK(0 <= blank && blank < problem.classes, "blank must be in label range");
    TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == problem.batch,
                "input_lengths must be of size batch_size");
    TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == problem.batch,
                "target_lengths must be of size batch_size");
    targets = targets_.to(log_probs.device(), at::kLong).contiguous();
    const bool joined = targets.dim() == 1;  // the sequences follow each other without padding
    std::vector<int64_t> facts;
    int64_t place = 0;
    for (size_t i = 0; i < input_lengths.size(); ++i) {
      TORCH_CHECK(target_lengths[i] >= 0, "Expected target_lengths to have value at least ", 0, ", but got value ",
                  target_lengths[i], " (while checking arguments for ", name, ")");
      TORCH_CHECK(input_lengths[i] >= 0, "Expected input_lengths to have value at least ", 0, ", but got value ",
                  input_lengths[i], " (while checking arguments for ", name, ")");
      TORCH_CHECK(input_lengths[i] <= problem.steps, "Expected input_lengths to have value at most ", problem.steps,
                  ", but got value ", input_lengths[i], " (while checking arguments for ", name, ")");
      facts.insert(facts.end(), {input_lengths[i], target_lengths[i], place});
      place += joined ? target_lengths[i] : targets.size(1);
      problem.longest = std::max(problem.longest, target_lengths[i]);
    }
    if (joined) {
      at::checkSize(name, targets_arg, 0, place);
    } else {
      at::checkSize(name, targets_arg, 0, problem.batch);
      TORCH_CHECK(targets.size(1) >= problem.longest, "Expected tensor to have size at least ", problem.longest,
                  " at dimension 1, but got size ", targets.size(1), " for ", targets_arg,
                  " (while checking arguments for ", name, ")");
    }
    sequences = at::tensor(facts, at::TensorOptions(at::kLong)).to(log_probs.device());
  }

  // A table over all states and steps, as if nothing could be reached.
  Tensor unreachable(const Tensor& log_probs) const {
    return at::full({problem.batch, problem.steps, problem.states()}, -std::numeric_limits<double>::infinity(),
                    log_probs.options());
  }
};

std::tuple<Tensor, Tensor> ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                                    IntArrayRef target_lengths, int64_t blank, bool zero_infinity) {
  const c10::OptionalDeviceGuard guard(at::device_of(log_probs));
  const CtcCall call(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  const Tensor loss = at::empty({call.problem.batch}, log_probs.options()), log_alpha = call.unreachable(log_probs);
  ops::ctc_forward(queue_for(log_probs), call.problem, address(loss), address(log_alpha), address(log_probs),
                   address(call.targets), address(call.sequences));
  return {loss, log_alpha};
}

Tensor ctc_loss_backward(const Tensor& grad_, const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                         IntArrayRef target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                         bool zero_infinity) {
  const c10::OptionalDeviceGuard guard(at::device_of(log_probs));
  const CtcCall call(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  const Tensor grad = grad_.contiguous(), result = at::empty(log_probs.sizes(), log_probs.options()),
               log_beta = call.unreachable(log_probs);
  ops::ctc_backward(queue_for(log_probs), call.problem, address(result), address(log_beta), address(grad),
                    address(loss.contiguous()), address(log_alpha.contiguous()), address(log_probs),
                    address(call.targets), address(call.sequences));
  return result;
}

std::vector<int64_t> on_host(const Tensor& lengths) {
  const Tensor host = lengths.to(at::kCPU, at::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

void require_integers(const Tensor& input_lengths, const Tensor& target_lengths) {
  TORCH_CHECK(at::isIntegralType(input_lengths.scalar_type(), /*includeBool=*/false), "input_lengths must be integral");
  TORCH_CHECK(at::isIntegralType(target_lengths.scalar_type(), /*includeBool=*/false),
              "target_lengths must be integral");
}

std::tuple<Tensor, Tensor> ctc_loss_tensor(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                                           const Tensor& target_lengths, int64_t blank, bool zero_infinity) {
  require_integers(input_lengths, target_lengths);
  return ctc_loss(log_probs, targets, on_host(input_lengths), on_host(target_lengths), blank, zero_infinity);
}

Tensor ctc_loss_backward_tensor(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                                const Tensor& input_lengths, const Tensor& target_lengths, const Tensor& loss,
                                const Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  require_integers(input_lengths, target_lengths);
  return ctc_loss_backward(grad, log_probs, targets, on_host(input_lengths), on_host(target_lengths), loss, log_alpha,
                           blank, zero_infinity);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", ctc_loss);
  m.impl("_ctc_loss.Tensor", ctc_loss_tensor);
  m.impl("_ctc_loss_backward", ctc_loss_backward);
  m.impl("_ctc_loss_backward.Tensor", ctc_loss_backward_tensor);
}

}  // namespace
}  // namespace ocl::aten
