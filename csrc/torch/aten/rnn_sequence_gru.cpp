// aten::gru as rnn_sequence.cpp does aten::lstm.
#include "torch/aten/rnn_layers.h"
#include "ops/rnn/sequence.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>

namespace ocl::aten {

namespace {

using at::Tensor;
using rnn::contiguous;
using rnn::data;
using rnn::OptionalTensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The same layer by ATen's cells. Time-major like the layer; h0 [rows, hidden]. Returns output, hn.
variable_list layer_of_cells(const Tensor& input, const Tensor& h0, const Tensor& w_ih, const Tensor& w_hh,
                             const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  std::vector<Tensor> weights{w_ih, w_hh};
  if (b_ih.defined()) weights.insert(weights.end(), {b_ih, b_hh});
  auto [output, hn] = at::native::gru(reverse ? at::flip(input, {0}) : input, h0.unsqueeze(0), weights, b_ih.defined(),
                                      1, 0.0, false, false, false);
  return {reverse ? at::flip(output, {0}) : output, hn.squeeze(0)};
}

// input [steps, rows, features], h0 [rows, hidden], w_ih [3 hidden, features], w_hh [3 hidden, hidden], biases [3
// hidden] or none.
class GruLayer : public torch::autograd::Function<GruLayer> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& input, const Tensor& h0, const Tensor& w_ih,
                               const Tensor& w_hh, const OptionalTensor& b_ih, const OptionalTensor& b_hh,
                               bool reverse) {
    const c10::DeviceGuard guard(input.device());
    const ops::RnnSequence sequence{input.size(0), input.size(1), w_hh.size(1), reverse};
    // n's recurrent bias is multiplied by r, the others are simply added.
    OptionalTensor bias;
    Tensor recurrent_bias;
    if (b_ih) {
      bias = b_ih->clone();
      bias->narrow(0, 0, 2 * sequence.hidden).add_(b_hh->narrow(0, 0, 2 * sequence.hidden));
      recurrent_bias = b_hh->narrow(0, 2 * sequence.hidden, sequence.hidden).contiguous();
    }
    const Tensor gates = at::linear(input, w_ih, bias).contiguous(), packed = rnn::pack(w_hh, false),
                 first = h0.contiguous();
    Tensor output = at::empty({sequence.steps, sequence.rows, sequence.hidden}, input.options()),
           recurrent = at::empty_like(output);
    ops::gru_sequence(queue_for(input), sequence, data(packed), data(first), data(recurrent_bias),
                      gates.mutable_data_ptr<float>(), recurrent.mutable_data_ptr<float>(),
                      output.mutable_data_ptr<float>());
    context->save_for_backward(
        {input, h0, w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor()), output, gates, recurrent});
    context->saved_data["reverse"] = reverse;
    context->set_materialize_grads(false);
    return {output, output.select(0, reverse ? 0 : sequence.steps - 1).clone()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const bool reverse = context->saved_data["reverse"].toBool();
    const Tensor &input = saved[0], &h0 = saved[1], &w_ih = saved[2], &w_hh = saved[3], &output = saved[6],
                 &gates = saved[7], &recurrent = saved[8];
    if (at::GradMode::is_enabled()) {
      variable_list all =
          rnn::differentiable_gradients(layer_of_cells(input, h0, w_ih, w_hh, saved[4], saved[5], reverse), gradients,
                                        {saved.begin(), saved.begin() + 6});
      all.emplace_back();
      return all;
    }
    const c10::DeviceGuard guard(input.device());
    const int64_t steps = input.size(0), rows = input.size(1), hidden = w_hh.size(1);
    const Tensor grad_output = contiguous(gradients[0]), grad_hn = contiguous(gradients[1]),
                 packed = rnn::pack(w_hh, true), first = h0.contiguous();
    Tensor grad_gates = at::empty_like(gates), grad_recurrent = at::empty_like(gates),
           grad_h0 = at::empty({rows, hidden}, gates.options());
    ops::gru_sequence_backward(queue_for(input), {steps, rows, hidden, reverse}, data(packed), data(gates),
                               data(recurrent), data(output), data(first),
                               {data(grad_output), data(grad_hn), grad_gates.mutable_data_ptr<float>(),
                                grad_recurrent.mutable_data_ptr<float>(), grad_h0.mutable_data_ptr<float>()});
    const Tensor flat = grad_gates.view({steps * rows, 3 * hidden});
    Tensor grad_input, grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh;
    if (context->needs_input_grad(0)) grad_input = at::mm(flat, w_ih).view(input.sizes());
    if (context->needs_input_grad(2)) grad_w_ih = at::mm(flat.t(), input.reshape({steps * rows, input.size(2)}));
    if (context->needs_input_grad(3)) grad_w_hh = rnn::recurrent_weight_gradient(grad_recurrent, h0, output, reverse);
    if (saved[4].defined()) {
      grad_b_ih = flat.sum(0);
      grad_b_hh = grad_recurrent.view({steps * rows, 3 * hidden}).sum(0);
    }
    return {grad_input, grad_h0, grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh, Tensor()};
  }
};

std::tuple<Tensor, Tensor> gru(const Tensor& input, const Tensor& h0, at::TensorList weights, bool has_biases,
                               int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  if (const auto wide = rnn::widened(input, h0, weights)) {
    const rnn::WithoutAutocast off;
    if (rnn::Network{wide->input, wide->states, wide->weights, has_biases, layers, dropout, train, bidirectional,
                     batch_first}
            .suits(3)) {
      const auto [output, hn] = gru(wide->input, wide->states[0], wide->weights, has_biases, layers, dropout, train,
                                    bidirectional, batch_first);
      return {output.to(wide->results), hn.to(wide->results)};
    }
  }
  const rnn::Network network{input, h0, weights, has_biases, layers, dropout, train, bidirectional, batch_first};
  if (!network.suits(3))
    return at::native::gru(input, h0, weights, has_biases, layers, dropout, train, bidirectional, batch_first);
  std::vector<Tensor> hn;
  const Tensor output = network.run([&](const Tensor& x, int64_t i, const Tensor& w_ih, const Tensor& w_hh,
                                        const OptionalTensor& b_ih, const OptionalTensor& b_hh, bool reverse) {
    const variable_list results = GruLayer::apply(x, h0.select(0, i), w_ih, w_hh, b_ih, b_hh, reverse);
    hn.push_back(results[1]);
    return results[0];
  });
  return {output, at::stack(hn)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("gru.input", &gru); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("gru.input", &gru); }

}  // namespace ocl::aten
