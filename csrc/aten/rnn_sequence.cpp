// aten::lstm: layers whose recurrent products are small run as one kernel each
// (ops/rnn/sequence.h) instead of several launches per time step. ATen has no
// derivative for a whole layer, so it is an autograd function here. Everything
// else takes ATen's composite of cells.
#include "aten/common.h"
#include "ops/rnn/sequence.h"

#include <ATen/FuncTorchTLS.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace ocl::aten {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Results = std::tuple<Tensor, Tensor, Tensor>;  // output, hn, cn
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const float* data(const Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }

Tensor pack(const Tensor& weight, bool backward) {
  const int64_t hidden = weight.size(1);
  Tensor packed = at::empty({ops::lstm_packed_elements(hidden, backward)}, weight.options());
  ops::lstm_pack(queue_for(weight), data(weight.contiguous()), packed.mutable_data_ptr<float>(), hidden, backward);
  return packed;
}

// The same layer by ATen's cells. Time-major like the layer; states [rows,
// hidden].
Results layer_of_cells(const Tensor& input, const Tensor& h0, const Tensor& c0, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                       const Tensor& b_hh, bool reverse) {
  const std::vector<Tensor> states{h0.unsqueeze(0), c0.unsqueeze(0)};
  std::vector<Tensor> weights{w_ih, w_hh};
  if (b_ih.defined()) weights.insert(weights.end(), {b_ih, b_hh});
  auto [output, hn, cn] = at::native::lstm(reverse ? at::flip(input, {0}) : input, states, weights, b_ih.defined(), 1, 0.0, false, false, false);
  return {reverse ? at::flip(output, {0}) : output, hn.squeeze(0), cn.squeeze(0)};
}

// input [steps, rows, features], states [rows, hidden], w_ih [4 hidden,
// features], w_hh [4 hidden, hidden], biases [4 hidden] or none.
class LstmLayer : public torch::autograd::Function<LstmLayer> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& input, const Tensor& h0, const Tensor& c0, const Tensor& w_ih,
                               const Tensor& w_hh, const OptionalTensor& b_ih, const OptionalTensor& b_hh, bool reverse) {
    const c10::DeviceGuard guard(input.device());
    const ops::LstmSequence sequence{input.size(0), input.size(1), w_hh.size(1), reverse};
    const Tensor bias = b_ih ? *b_ih + *b_hh : Tensor();
    const Tensor gates = at::linear(input, w_ih, bias.defined() ? OptionalTensor(bias) : std::nullopt).contiguous();
    const Tensor packed = pack(w_hh, false), first_h = h0.contiguous(), first_c = c0.contiguous();
    Tensor output = at::empty({sequence.steps, sequence.rows, sequence.hidden}, input.options()), cells = at::empty_like(output);
    ops::lstm_sequence(queue_for(input), sequence, data(packed), data(first_h), data(first_c), gates.mutable_data_ptr<float>(),
                       output.mutable_data_ptr<float>(), cells.mutable_data_ptr<float>());
    context->save_for_backward({input, h0, c0, w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor()), output, gates, cells});
    context->saved_data["reverse"] = reverse;
    context->set_materialize_grads(false);
    const int64_t last = reverse ? 0 : sequence.steps - 1;
    return {output, output.select(0, last).clone(), cells.select(0, last).clone()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const bool reverse = context->saved_data["reverse"].toBool();
    if (at::GradMode::is_enabled()) return differentiable_backward(saved, gradients, reverse);
    const Tensor &input = saved[0], &h0 = saved[1], &w_ih = saved[3], &w_hh = saved[4], &output = saved[7], &gates = saved[8], &cells = saved[9];
    const c10::DeviceGuard guard(input.device());
    const int64_t steps = input.size(0), rows = input.size(1), hidden = w_hh.size(1);
    const auto contiguous = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
    const Tensor grad_output = contiguous(gradients[0]), grad_hn = contiguous(gradients[1]), grad_cn = contiguous(gradients[2]);
    const Tensor packed = pack(w_hh, true), first_c = saved[2].contiguous();
    Tensor grad_gates = at::empty_like(gates), grad_h0 = at::empty({rows, hidden}, gates.options()), grad_c0 = at::empty_like(grad_h0);
    ops::lstm_sequence_backward(queue_for(input), {steps, rows, hidden, reverse}, data(packed), data(gates), data(cells), data(first_c),
                                {data(grad_output), data(grad_hn), data(grad_cn), grad_gates.mutable_data_ptr<float>(),
                                 grad_h0.mutable_data_ptr<float>(), grad_c0.mutable_data_ptr<float>()});
    const Tensor flat = grad_gates.view({steps * rows, 4 * hidden});
    Tensor grad_input, grad_w_ih, grad_w_hh, grad_bias;
    if (context->needs_input_grad(0)) grad_input = at::mm(flat, w_ih).view(input.sizes());
    if (context->needs_input_grad(3)) grad_w_ih = at::mm(flat.t(), input.reshape({steps * rows, input.size(2)}));
    if (context->needs_input_grad(4)) {
      // each step with the state before it
      grad_w_hh = at::mm(grad_gates.select(0, reverse ? steps - 1 : 0).view({rows, 4 * hidden}).t(), h0);
      const int64_t others = (steps - 1) * rows;
      if (others > 0)
        grad_w_hh = at::addmm(grad_w_hh, flat.narrow(0, reverse ? 0 : rows, others).t(),
                              output.view({steps * rows, hidden}).narrow(0, reverse ? rows : 0, others));
    }
    if (saved[5].defined()) grad_bias = flat.sum(0);
    return {grad_input, grad_h0, grad_c0, grad_w_ih, grad_w_hh, grad_bias, grad_bias, Tensor()};
  }

 private:
  // For second derivatives: the derivative of the same layer made of cells,
  // which is differentiable itself.
  static variable_list differentiable_backward(const variable_list& saved, const variable_list& gradients, bool reverse) {
    const auto [output, hn, cn] = layer_of_cells(saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6], reverse);
    variable_list results, incoming, inputs;
    const Tensor* parts[] = {&output, &hn, &cn};
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) results.push_back(*parts[i]), incoming.push_back(gradients[i]);
    for (size_t i = 0; i < 7; ++i)
      if (saved[i].defined() && saved[i].requires_grad()) inputs.push_back(saved[i]);
    const variable_list found = torch::autograd::grad(results, inputs, incoming, true, true, true);
    variable_list all(8);
    for (size_t i = 0, next = 0; i < 7; ++i)
      if (saved[i].defined() && saved[i].requires_grad()) all[i] = found[next++];
    return all;
  }
};

bool transforms_active() {
  const auto& transforms = at::functorch::functorchTLSAccessor();
  if (!transforms) return false;
  try {
    transforms->checkSupportsCppAutogradFunction();
    return false;
  } catch (const c10::Error&) {
    return true;
  }
}

// A tensor that a kernel may read: neither a subclass in Python (fake tensors)
// nor carrying a forward derivative.
bool plain(const Tensor& t, const Tensor& input) {
  return t.device() == input.device() && t.scalar_type() == at::kFloat && !t.key_set().has(c10::DispatchKey::Python) && !t._fw_grad(0).defined();
}

bool layers_suit(const Tensor& input, at::TensorList states, at::TensorList weights, bool has_biases, int64_t layers) {
  if (input.dim() != 3 || states.size() != 2 || layers < 1 || at::autocast::is_autocast_enabled(at::kPrivateUse1) || transforms_active() ||
      c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python))
    return false;
  const Tensor &h0 = states[0], &c0 = states[1];
  if (!plain(input, input) || !plain(h0, input) || !plain(c0, input) || h0.dim() != 3 || h0.sizes() != c0.sizes() || input.numel() == 0 ||
      h0.numel() == 0)
    return false;
  const size_t per_layer = has_biases ? 4 : 2;
  if (weights.size() != static_cast<size_t>(h0.size(0)) * per_layer) return false;  // projections have one more
  const int64_t hidden = h0.size(2);
  for (size_t i = 0; i < weights.size(); ++i)
    if (!plain(weights[i], input) || weights[i].size(0) != 4 * hidden || (i % per_layer == 1 && weights[i].size(1) != hidden)) return false;
  return ops::lstm_sequence_suits(queue_for(input).device(), h0.size(1), hidden);
}

Results lstm(const Tensor& input, at::TensorList states, at::TensorList weights, bool has_biases, int64_t layers, double dropout, bool train,
             bool bidirectional, bool batch_first) {
  const int64_t directions = bidirectional ? 2 : 1;
  if (!layers_suit(input, states, weights, has_biases, layers) || states[0].size(0) != layers * directions ||
      input.size(batch_first ? 0 : 1) != states[0].size(1))
    return at::native::lstm(input, states, weights, has_biases, layers, dropout, train, bidirectional, batch_first);
  Tensor x = batch_first ? input.transpose(0, 1) : input;
  std::vector<Tensor> hn, cn;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = layer * directions + direction;
      const auto weight = weights.slice(i * (has_biases ? 4 : 2));
      const OptionalTensor b_ih = has_biases ? OptionalTensor(weight[2]) : std::nullopt, b_hh = has_biases ? OptionalTensor(weight[3]) : std::nullopt;
      variable_list results = LstmLayer::apply(x, states[0].select(0, i), states[1].select(0, i), weight[0], weight[1], b_ih, b_hh, direction == 1);
      outputs.push_back(results[0]);
      hn.push_back(results[1]);
      cn.push_back(results[2]);
    }
    x = directions == 1 ? outputs[0] : at::cat(outputs, 2);
    if (dropout != 0 && train && layer + 1 < layers) x = at::dropout(x, dropout, true);
  }
  return {batch_first ? x.transpose(0, 1) : x, at::stack(hn), at::stack(cn)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("lstm.input", &lstm); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", &lstm); }

}  // namespace ocl::aten
