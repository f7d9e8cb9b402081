// Fused LSTM and GRU cells: ATen's RNN modules call them on every device but the CPU, and they have no CPU kernel to
// fall back to.
#include "torch/aten/common.h"
#include "ops/rnn/rnn.h"

#include <ATen/ops/_thnn_differentiable_gru_cell_backward_native.h>
#include <ATen/ops/_thnn_differentiable_lstm_cell_backward_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace ocl::aten {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Contiguous copies where needed, alive as long as the cell.
struct Gates {
  Tensor input, recurrent, input_bias, recurrent_bias;
  Gates(const char* name, int parts, const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& state,
        const OptionalTensor& bias1, const OptionalTensor& bias2)
      : input(input_gates.contiguous()), recurrent(hidden_gates.contiguous()) {
    if (bias1 && bias1->defined()) input_bias = bias1->contiguous();
    if (bias2 && bias2->defined()) recurrent_bias = bias2->contiguous();
    TORCH_CHECK(input.dim() == 2 && state.dim() == 2 && input.sizes() == recurrent.sizes() &&
                    input.size(0) == state.size(0) && input.size(1) == parts * state.size(1),
                name, ": gates ", input.sizes(), " and ", recurrent.sizes(), " do not match the state ", state.sizes());
    for (const Tensor* t : {&input, &recurrent, &input_bias, &recurrent_bias})
      TORCH_CHECK(!t->defined() || (t->device() == state.device() && t->scalar_type() == state.scalar_type()), name,
                  ": all tensors must have the device and dtype of the state");
    TORCH_CHECK(input_bias.defined() == recurrent_bias.defined(), name, ": needs both biases or none");
    TORCH_CHECK(
        !input_bias.defined() || (input_bias.numel() == input.size(1) && recurrent_bias.numel() == input.size(1)), name,
        ": biases must have ", input.size(1), " elements");
  }
  ops::CellGates views() const {
    ops::CellGates result{view(input), view(recurrent), {}, {}};
    if (input_bias.defined()) {
      result.input_bias = view(input_bias);
      result.recurrent_bias = view(recurrent_bias);
    }
    return result;
  }
};

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const c10::DeviceGuard guard(cx.device());
  const Tensor state = cx.contiguous();
  const Gates gates("_thnn_fused_lstm_cell", 4, input_gates, hidden_gates, state, input_bias, hidden_bias);
  Tensor hy = at::empty_like(state), cy = at::empty_like(state), workspace = at::empty_like(gates.input);
  ops::lstm_cell(queue_for(state), gates.views(), view(state), view(hy), view(cy), view(workspace));
  return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  const bool has_hy = grad_hy && grad_hy->defined(), has_cy = grad_cy && grad_cy->defined();
  if (!has_hy && !has_cy) return {};
  const c10::DeviceGuard guard(cx.device());
  const Tensor dh = has_hy ? grad_hy->contiguous() : Tensor(), dc = has_cy ? grad_cy->contiguous() : Tensor();
  const Tensor c = cx.contiguous(), next = cy.contiguous(), saved = workspace.contiguous();
  Tensor grad_gates = at::empty_like(saved), grad_cx = at::empty_like(c);
  ops::lstm_cell_backward(queue_for(c), has_hy ? view(dh) : ops::TensorView{}, has_cy ? view(dc) : ops::TensorView{},
                          view(c), view(next), view(saved), view(grad_gates), view(grad_cx));
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0, false) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const c10::DeviceGuard guard(hx.device());
  const Tensor state = hx.contiguous();
  const Gates gates("_thnn_fused_gru_cell", 3, input_gates, hidden_gates, state, input_bias, hidden_bias);
  Tensor hy = at::empty_like(state), workspace = at::empty({state.size(0), state.size(1) * 5}, state.options());
  ops::gru_cell(queue_for(state), gates.views(), view(state), view(hy), view(workspace));
  return {hy, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const c10::DeviceGuard guard(workspace.device());
  const Tensor dh = grad_hy.contiguous(), saved = workspace.contiguous();
  const int64_t hidden = saved.size(1) / 5;
  Tensor grad_input = at::empty({saved.size(0), hidden * 3}, saved.options());
  Tensor grad_recurrent = at::empty_like(grad_input), grad_hx = at::empty_like(dh);
  ops::gru_cell_backward(queue_for(saved), view(dh), view(saved), view(grad_input), view(grad_recurrent),
                         view(grad_hx));
  Tensor input_bias, recurrent_bias;
  if (has_bias) {
    input_bias = grad_input.sum(0, false);
    recurrent_bias = grad_recurrent.sum(0, false);
  }
  return {grad_input, grad_recurrent, grad_hx, input_bias, recurrent_bias};
}

// ATen's composites divide the gates into so many parts along dimension 1, and read a part that is not there.
void check_parts(const char* name, int64_t parts, const Tensor& input_gates, const Tensor& hidden_gates) {
  for (const Tensor* gates : {&input_gates, &hidden_gates})
    TORCH_CHECK(gates->dim() > 1 && gates->size(1) > 0 && gates->size(1) % parts == 0, name, ": expected ", parts,
                " gates side by side, got ", gates->sizes());
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> differentiable_lstm_cell_backward(
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const Tensor& input_gates, const Tensor& hidden_gates,
    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias, const Tensor& cx, const Tensor& cy) {
  check_parts("_thnn_differentiable_lstm_cell_backward", 4, input_gates, hidden_gates);
  return at::native::_thnn_differentiable_lstm_cell_backward(grad_hy, grad_cy, input_gates, hidden_gates, input_bias,
                                                             hidden_bias, cx, cy);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> differentiable_gru_cell_backward(
    const Tensor& grad_hy, const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  check_parts("_thnn_differentiable_gru_cell_backward", 3, input_gates, hidden_gates);
  return at::native::_thnn_differentiable_gru_cell_backward(grad_hy, input_gates, hidden_gates, hx, input_bias,
                                                            hidden_bias);
}

// Under autograd as well: the composites are made of operators that are differentiated, for second derivatives.
void register_differentiable(torch::Library& m) {
  m.impl("_thnn_differentiable_lstm_cell_backward", &differentiable_lstm_cell_backward);
  m.impl("_thnn_differentiable_gru_cell_backward", &differentiable_gru_cell_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { register_differentiable(m); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_differentiable(m);
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", &gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

}  // namespace ocl::aten
