// aten::lstm: layers whose recurrent products are small run as one kernel each (ops/rnn/sequence.h) instead of several
// launches per time step. ATen has no derivative for a whole layer, so it is an autograd function here. Everything else
// takes ATen's composite of cells.
#include "torch/aten/rnn_layers.h"
#include "ops/rnn/sequence.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
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

// The same layer by ATen's cells. Time-major like the layer; states [rows, hidden]. Returns output, hn, cn.
variable_list layer_of_cells(const Tensor& input, const Tensor& h0, const Tensor& c0, const Tensor& w_ih,
                             const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  const std::vector<Tensor> states{h0.unsqueeze(0), c0.unsqueeze(0)};
  std::vector<Tensor> weights{w_ih, w_hh};
  if (b_ih.defined()) weights.insert(weights.end(), {b_ih, b_hh});
  auto [output, hn, cn] = at::native::lstm(reverse ? at::flip(input, {0}) : input, states, weights, b_ih.defined(), 1,
                                           0.0, false, false, false);
  return {reverse ? at::flip(output, {0}) : output, hn.squeeze(0), cn.squeeze(0)};
}

// input [steps, rows, features], states [rows, hidden], w_ih [4 hidden, features], w_hh [4 hidden, hidden], biases [4
// hidden] or none.
class LstmLayer : public torch::autograd::Function<LstmLayer> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& input, const Tensor& h0, const Tensor& c0,
                               const Tensor& w_ih, const Tensor& w_hh, const OptionalTensor& b_ih,
                               const OptionalTensor& b_hh, bool reverse) {
    const c10::DeviceGuard guard(input.device());
    const ops::RnnSequence sequence{input.size(0), input.size(1), w_hh.size(1), reverse};
    const Tensor bias = b_ih ? at::add(*b_ih, *b_hh) : Tensor();
    const Tensor gates = at::linear(input, w_ih, bias.defined() ? OptionalTensor(bias) : std::nullopt).contiguous();
    const Tensor packed = rnn::pack(w_hh, false), first_h = h0.contiguous(), first_c = c0.contiguous();
    Tensor output = at::empty({sequence.steps, sequence.rows, sequence.hidden}, input.options()),
           cells = at::empty_like(output);
    ops::lstm_sequence(queue_for(input), sequence, data(packed), data(first_h), data(first_c),
                       gates.mutable_data_ptr<float>(), output.mutable_data_ptr<float>(),
                       cells.mutable_data_ptr<float>());
    context->save_for_backward(
        {input, h0, c0, w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor()), output, gates, cells});
    context->saved_data["reverse"] = reverse;
    context->set_materialize_grads(false);
    const int64_t last = reverse ? 0 : sequence.steps - 1;
    return {output, output.select(0, last).clone(), cells.select(0, last).clone()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const bool reverse = context->saved_data["reverse"].toBool();
    const Tensor &input = saved[0], &h0 = saved[1], &w_ih = saved[3], &w_hh = saved[4], &output = saved[7],
                 &gates = saved[8], &cells = saved[9];
    if (at::GradMode::is_enabled()) {
      variable_list all =
          rnn::differentiable_gradients(layer_of_cells(input, h0, saved[2], w_ih, w_hh, saved[5], saved[6], reverse),
                                        gradients, {saved.begin(), saved.begin() + 7});
      all.emplace_back();
      return all;
    }
    const c10::DeviceGuard guard(input.device());
    const int64_t steps = input.size(0), rows = input.size(1), hidden = w_hh.size(1);
    const Tensor grad_output = contiguous(gradients[0]), grad_hn = contiguous(gradients[1]),
                 grad_cn = contiguous(gradients[2]);
    const Tensor packed = rnn::pack(w_hh, true), first_c = saved[2].contiguous();
    Tensor grad_gates = at::empty_like(gates), grad_h0 = at::empty({rows, hidden}, gates.options()),
           grad_c0 = at::empty_like(grad_h0);
    ops::lstm_sequence_backward(queue_for(input), {steps, rows, hidden, reverse}, data(packed), data(gates),
                                data(cells), data(first_c),
                                {data(grad_output), data(grad_hn), data(grad_cn), grad_gates.mutable_data_ptr<float>(),
                                 grad_h0.mutable_data_ptr<float>(), grad_c0.mutable_data_ptr<float>()});
    const Tensor flat = grad_gates.view({steps * rows, 4 * hidden});
    Tensor grad_input, grad_w_ih, grad_w_hh, grad_bias;
    if (context->needs_input_grad(0)) grad_input = at::mm(flat, w_ih).view(input.sizes());
    if (context->needs_input_grad(3)) grad_w_ih = at::mm(flat.t(), input.reshape({steps * rows, input.size(2)}));
    if (context->needs_input_grad(4)) grad_w_hh = rnn::recurrent_weight_gradient(grad_gates, h0, output, reverse);
    if (saved[5].defined()) grad_bias = flat.sum(0);
    return {grad_input, grad_h0, grad_c0, grad_w_ih, grad_w_hh, grad_bias, grad_bias, Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, at::TensorList states, at::TensorList weights,
                                        bool has_biases, int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first) {
  if (const auto wide = rnn::widened(input, states, weights)) {
    const rnn::WithoutAutocast off;
    if (states.size() == 2 && rnn::Network{wide->input, wide->states, wide->weights, has_biases, layers, dropout, train,
                                           bidirectional, batch_first}
                                  .suits(4)) {
      const auto [output, hn, cn] = lstm(wide->input, wide->states, wide->weights, has_biases, layers, dropout, train,
                                         bidirectional, batch_first);
      return {output.to(wide->results), hn.to(wide->results), cn.to(wide->results)};
    }
  }
  const rnn::Network network{input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first};
  if (states.size() != 2 || !network.suits(4))
    return at::native::lstm(input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first);
  std::vector<Tensor> hn, cn;
  const Tensor output = network.run([&](const Tensor& x, int64_t i, const Tensor& w_ih, const Tensor& w_hh,
                                        const OptionalTensor& b_ih, const OptionalTensor& b_hh, bool reverse) {
    const variable_list results =
        LstmLayer::apply(x, states[0].select(0, i), states[1].select(0, i), w_ih, w_hh, b_ih, b_hh, reverse);
    hn.push_back(results[1]);
    cn.push_back(results[2]);
    return results[0];
  });
  return {output, at::stack(hn), at::stack(cn)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("lstm.input", &lstm); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", &lstm); }

}  // namespace ocl::aten
