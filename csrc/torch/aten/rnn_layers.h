// Recurrent networks whose layers run as one kernel each (ops/rnn/sequence.h): what LSTM and GRU share.
#pragma once

#include "torch/aten/common.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace ocl::aten::rnn {

using OptionalTensor = std::optional<at::Tensor>;

inline const float* data(const at::Tensor& t) { return static_cast<const float*>(address(t)); }
inline at::Tensor contiguous(const at::Tensor& t) { return t.defined() ? t.contiguous() : t; }

// A layer's recurrent weight [gates * hidden, hidden] in panels.
at::Tensor pack(const at::Tensor& weight, bool backward);

// Gradient of the recurrent weight: d [steps, rows, gates * hidden], each step with the state before it.
at::Tensor recurrent_weight_gradient(const at::Tensor& d, const at::Tensor& first, const at::Tensor& output,
                                     bool reverse);

// For second derivatives: gradients of `results` with respect to those of `inputs` that require one, themselves
// differentiable; undefined for the others. Undefined gradients of results are zero.
torch::autograd::variable_list differentiable_gradients(const torch::autograd::variable_list& results,
                                                        const torch::autograd::variable_list& gradients,
                                                        const torch::autograd::variable_list& inputs);

// A network of aten::lstm or aten::gru: `states` (h0, for LSTM c0 too) [layers * directions, rows, hidden].
struct Network {
  const at::Tensor& input;
  at::TensorList states, weights;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional, batch_first;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  // Whether its layers can be kernels: shapes and types, no transforms, no subclasses, no forward derivatives, no
  // autocast. Errors in the arguments do not suit; ATen's composite reports them.
  bool suits(int64_t gates) const;

  // layer(x, i, w_ih, w_hh, b_ih, b_hh, reverse) runs layer i of layers * directions on time-major x and returns its
  // output. Returns the network's output.
  template <class Layer>
  at::Tensor run(const Layer& layer) const {
    at::Tensor x = batch_first ? input.transpose(0, 1) : input;
    for (int64_t l = 0; l < layers; ++l) {
      std::vector<at::Tensor> outputs;
      for (int64_t direction = 0; direction < directions(); ++direction) {
        const int64_t i = l * directions() + direction;
        const auto weight = weights.slice(i * (has_biases ? 4 : 2));
        const OptionalTensor b_ih = has_biases ? OptionalTensor(weight[2]) : std::nullopt,
                             b_hh = has_biases ? OptionalTensor(weight[3]) : std::nullopt;
        outputs.push_back(layer(x, i, weight[0], weight[1], b_ih, b_hh, direction == 1));
      }
      x = directions() == 1 ? outputs[0] : at::cat(outputs, 2);
      if (dropout != 0 && train && l + 1 < layers) x = at::dropout(x, dropout, true);
    }
    return batch_first ? x.transpose(0, 1) : x;
  }
};

// A network in half precision, or under autocast, computed in float32: its tensors as float32, and the type of its
// results.
struct Widened {
  at::Tensor input;
  std::vector<at::Tensor> states, weights;
  at::ScalarType results;
};
// Nothing where it is neither, or where types are mixed without autocast.
std::optional<Widened> widened(const at::Tensor& input, at::TensorList states, at::TensorList weights);

// No autocast while it lives.
class WithoutAutocast {
 public:
  WithoutAutocast();
  ~WithoutAutocast();
  WithoutAutocast(const WithoutAutocast&) = delete;

 private:
  bool enabled_;
};

}  // namespace ocl::aten::rnn
