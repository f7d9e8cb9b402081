#include "torch/aten/rnn_layers.h"

#include "ops/rnn/sequence.h"

#include <ATen/FuncTorchTLS.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <iterator>

namespace ocl::aten::rnn {

using at::Tensor;
using torch::autograd::variable_list;

Tensor pack(const Tensor& weight, bool backward) {
  const int64_t hidden = weight.size(1), gates = weight.size(0) / hidden;
  Tensor packed = at::empty({ops::rnn_packed_elements(gates, hidden, backward)}, weight.options());
  ops::rnn_pack(queue_for(weight), data(weight.contiguous()), packed.mutable_data_ptr<float>(), gates, hidden,
                backward);
  return packed;
}

Tensor recurrent_weight_gradient(const Tensor& d, const Tensor& first, const Tensor& output, bool reverse) {
  const int64_t steps = output.size(0), rows = output.size(1), hidden = output.size(2), others = (steps - 1) * rows;
  const Tensor flat = d.view({steps * rows, -1});
  Tensor gradient = at::mm(flat.narrow(0, reverse ? others : 0, rows).t(), first);
  if (others == 0) return gradient;
  return at::addmm(gradient, flat.narrow(0, reverse ? 0 : rows, others).t(),
                   output.view({steps * rows, hidden}).narrow(0, reverse ? rows : 0, others));
}

variable_list differentiable_gradients(const variable_list& results, const variable_list& gradients,
                                       const variable_list& inputs) {
  variable_list outputs, incoming, wanted;
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) outputs.push_back(results[i]), incoming.push_back(gradients[i]);
  const auto counts = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(wanted), counts);
  const variable_list found = torch::autograd::grad(outputs, wanted, incoming, true, true, true);
  variable_list all(inputs.size());
  for (size_t i = 0, next = 0; i < inputs.size(); ++i)
    if (counts(inputs[i])) all[i] = found[next++];
  return all;
}

namespace {

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

// A tensor that a kernel may read: neither a subclass in Python (fake tensors) nor carrying a forward derivative.
bool plain(const Tensor& t, const Tensor& input) {
  return t.device() == input.device() && t.scalar_type() == at::kFloat && !t.key_set().has(c10::DispatchKey::Python) &&
         !t._fw_grad(0).defined();
}

}  // namespace

bool Network::suits(int64_t gates) const {
  if (input.dim() != 3 || layers < 1 || at::autocast::is_autocast_enabled(at::kPrivateUse1) || transforms_active() ||
      c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python))
    return false;
  if (!plain(input, input) || input.numel() == 0) return false;
  const Tensor& h0 = states[0];
  for (const Tensor& state : states)
    if (!plain(state, input) || state.dim() != 3 || state.sizes() != h0.sizes() || state.numel() == 0) return false;
  const size_t per_layer = has_biases ? 4 : 2;
  if (h0.size(0) != layers * directions() || input.size(batch_first ? 0 : 1) != h0.size(1)) return false;
  if (weights.size() != static_cast<size_t>(h0.size(0)) * per_layer) return false;  // projections have one more
  const int64_t hidden = h0.size(2);
  for (size_t i = 0; i < weights.size(); ++i)
    if (!plain(weights[i], input) || weights[i].size(0) != gates * hidden ||
        (i % per_layer == 1 && weights[i].size(1) != hidden))
      return false;
  return ops::rnn_sequence_suits(queue_for(input).device(), h0.size(1), hidden);
}

std::optional<Widened> widened(const Tensor& input, at::TensorList states, at::TensorList weights) {
  const bool autocast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
  const at::ScalarType results = autocast ? at::autocast::get_autocast_dtype(at::kPrivateUse1) : input.scalar_type();
  if (!at::isReducedFloatingType(results)) return std::nullopt;
  const auto fits = [&](const Tensor& t) {
    return t.scalar_type() == results ||
           (autocast && (t.scalar_type() == at::kFloat || at::isReducedFloatingType(t.scalar_type())));
  };
  if (!fits(input) || !std::all_of(states.begin(), states.end(), fits) ||
      !std::all_of(weights.begin(), weights.end(), fits))
    return std::nullopt;
  Widened wide{input.to(at::kFloat), {}, {}, results};
  for (const Tensor& state : states) wide.states.push_back(state.to(at::kFloat));
  for (const Tensor& weight : weights) wide.weights.push_back(weight.to(at::kFloat));
  return wide;
}

WithoutAutocast::WithoutAutocast() : enabled_(at::autocast::is_autocast_enabled(at::kPrivateUse1)) {
  if (enabled_) at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
}

WithoutAutocast::~WithoutAutocast() {
  if (enabled_) at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
}

}  // namespace ocl::aten::rnn
