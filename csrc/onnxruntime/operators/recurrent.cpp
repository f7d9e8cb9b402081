// LSTM, GRU and RNN, as lowering.cpp splits them: weights made ready, which is done once where they are constant, and
// layers over the sequence.
#include "onnxruntime/operators/linear.h"
#include "ops/rnn/rnn.h"
#include "ops/rnn/sequence.h"

#include <optional>

namespace ocl::ort {

namespace {

constexpr int swapped[] = {1, 0};

// The order of the library's gates among ONNX's: LSTM i, f, g, o of i, o, f, g; GRU r, z, n of z, r, h.
std::vector<int64_t> gate_order(int64_t gates) {
  if (gates == 4) return {0, 2, 3, 1};
  if (gates == 3) return {1, 0, 2};
  return {0};
}

TensorView part(const TensorView& x, int dim, int64_t first, int64_t count) {
  TensorView view = x;
  view.sizes[dim] = count;
  view.data = static_cast<char*>(x.data) + first * x.strides[dim] * static_cast<int64_t>(ops::size_of(x.dtype));
  return view;
}

// x[index] without the dimension.
TensorView slice(const TensorView& x, int64_t index) {
  TensorView view = part(x, 0, index, 1);
  for (int d = 1; d < x.dims; ++d) view.sizes[d - 1] = view.sizes[d], view.strides[d - 1] = view.strides[d];
  --view.dims;
  return view;
}

// [directions, gates * hidden, *] with the gates in the library's order.
void reorder(Run& run, const TensorView& from, int64_t first, int64_t hidden, int64_t gates, const TensorView& to) {
  const std::vector<int64_t> order = gate_order(gates);
  for (int64_t g = 0; g < gates; ++g)
    ops::copy(run.queue(), part(to, 1, g * hidden, hidden),
              part(from, 1, first + order[static_cast<size_t>(g)] * hidden, hidden));
}

// W [D, G H, I], R [D, G H, H], B [D, 2 G H] or none -> both weights, biases of the input's and the recurrent product
// [D, G H], and R as the kernels of whole sequences read it. Biases are added up where the gates do the same.
Kernel recurrent_weights(const Node& node) {
  return [gates = node.integer("gates", 1), own_bias = node.integer("linear_before_reset", 0) != 0](Run& run) {
    Queue& queue = run.queue();
    const TensorView w = run.view(0), r = run.view(1);
    need(w.dims == 3 && r.dims == 3 && r.size(1) == gates * r.size(2) && w.size(1) == r.size(1) &&
             w.size(0) == r.size(0),
         "the weights' sizes do not fit");
    const int64_t directions = r.size(0), hidden = r.size(2), rows = gates * hidden;
    reorder(run, w, 0, hidden, gates, run.output(0, w.dtype, sizes_of(w)));
    const TensorView weight = run.output(2, w.dtype, sizes_of(r));
    reorder(run, r, 0, hidden, gates, weight);
    const TensorView bias = run.output(1, w.dtype, {directions, rows}),
                     recurrent = run.output(3, w.dtype, {directions, rows});
    ops::zero(queue, bias);
    ops::zero(queue, recurrent);
    if (run.has(2)) {
      const TensorView b = run.view(2);
      need(b.dims == 2 && b.size(0) == directions && b.size(1) == 2 * rows, "the biases' sizes do not fit");
      reorder(run, b, 0, hidden, gates, bias);
      reorder(run, b, rows, hidden, gates, recurrent);
      const int64_t joined = gates == 3 && own_bias ? 2 * hidden : rows;  // what the reset multiplies has its own
      const TensorView first = part(bias, 1, 0, joined), second = part(recurrent, 1, 0, joined);
      ops::elementwise(queue, ops::elementwise_row("add"), ops::compute_type(w.dtype), first, {first, second});
      ops::zero(queue, second);
    }
    const bool packs = w.dtype == DType::float32 && gates > 1;
    const int64_t count = packs ? ops::rnn_packed_elements(gates, hidden, false) : 0;
    const TensorView packed = run.output(4, w.dtype, {directions, count});
    for (int64_t d = 0; packs && d < directions; ++d)
      ops::rnn_pack(queue, static_cast<const float*>(slice(weight, d).data), static_cast<float*>(slice(packed, d).data),
                    gates, hidden, false);
  };
}

// One direction of a layer: sizes, and its part of every tensor.
struct Layer {
  int64_t gates = 1, steps = 0, rows = 0, hidden = 0;
  bool reverse = false, resets_state = false;    // GRU: the reset multiplies the state, not its product
  const char* activation = nullptr;              // of RNN
  TensorView input;                              // its products [T, N, G H]
  TensorView recurrent, recurrent_bias, packed;  // [G H, H], [G H]
  TensorView h0, c0;                             // [N, H]
  TensorView output;                             // [T, N, H], rows dense
  TensorView last_h, last_c;                     // [N, H]
};

// The recurrent product of a step, [N, G H], and what is added to it: a vector, or a matrix of its sizes.
void recurrent_product(Run& run, const Layer& layer, const TensorView& h, const TensorView& added,
                       const TensorView& to) {
  ops::GemmProblem p;
  p.dtype = h.dtype;
  p.m = layer.rows, p.n = layer.gates * layer.hidden, p.k = layer.hidden;
  p.a = {0, h.stride(0), 1}, p.b = {0, 1, layer.recurrent.stride(0)}, p.c = {0, to.stride(0), 1};
  if (added) p.beta = 1, p.d = {0, added.dims == 2 ? added.stride(0) : 0, 1};
  ops::gemm(run.queue(), p, {h.data, layer.recurrent.data, to.data, added.data});
}

// The step of a GRU whose reset multiplies the state: gates [N, 3 H] in the order r, z, n; to: the new state.
void reset_state_step(Run& run, const Layer& layer, const TensorView& gates, const TensorView& h, const TensorView& rz,
                      const TensorView& scratch, const TensorView& to) {
  Queue& queue = run.queue();
  const int64_t hidden = layer.hidden;
  const DType compute = ops::compute_type(h.dtype);
  const auto apply = [&](const char* row, const TensorView& y, std::initializer_list<TensorView> inputs) {
    ops::elementwise(queue, ops::elementwise_row(row), compute, y, inputs);
  };
  Layer some = layer;
  some.gates = 2, some.recurrent = part(layer.recurrent, 0, 0, 2 * hidden);
  recurrent_product(run, some, h, part(gates, 1, 0, 2 * hidden), rz);
  apply("sigmoid", rz, {rz});
  apply("mul", scratch, {part(rz, 1, 0, hidden), h});
  some.gates = 1, some.recurrent = part(layer.recurrent, 0, 2 * hidden, hidden);
  recurrent_product(run, some, scratch, part(gates, 1, 2 * hidden, hidden), to);
  apply("tanh", to, {to});
  apply("lerp", to, {to, h, part(rz, 1, hidden, hidden)});
}

void step_by_step(Run& run, const Layer& layer) {
  Queue& queue = run.queue();
  const DType dtype = layer.input.dtype;
  const int64_t n = layer.rows, hidden = layer.hidden;
  TensorView h = layer.h0, c = layer.c0;
  const TensorView product = run.scratch(dtype, {n, layer.gates * hidden}),
                   workspace = run.scratch(dtype, {n, 5 * hidden});
  std::array<TensorView, 2> cells;
  for (TensorView& cell : cells)
    if (layer.gates == 4) cell = run.scratch(dtype, {n, hidden});
  for (int64_t i = 0; i < layer.steps; ++i) {
    const int64_t t = layer.reverse ? layer.steps - 1 - i : i;
    const TensorView gates = slice(layer.input, t), y = slice(layer.output, t);
    if (layer.gates == 1) {
      recurrent_product(run, layer, h, gates, y);
      ops::elementwise(queue, ops::elementwise_row(layer.activation), ops::compute_type(dtype), y, {y});
    } else if (layer.resets_state) {
      reset_state_step(run, layer, gates, h, part(product, 1, 0, 2 * hidden),
                       TensorView::contiguous(workspace.data, dtype, {n, hidden}), y);
    } else if (layer.gates == 3) {
      recurrent_product(run, layer, h, layer.recurrent_bias, product);
      ops::gru_cell(queue, {gates, product, {}, {}}, h, y, workspace);
    } else {
      const TensorView next = cells[static_cast<size_t>(i % 2)];
      recurrent_product(run, layer, h, {}, product);
      ops::lstm_cell(queue, {gates, product, {}, {}}, c, y, next,
                     TensorView::contiguous(workspace.data, dtype, {n, 4 * hidden}));
      c = next;
    }
    h = y;
  }
  ops::copy(queue, layer.last_h, h);
  if (layer.gates == 4) ops::copy(queue, layer.last_c, c);
}

// All steps in one launch.
void at_once(Run& run, const Layer& layer) {
  Queue& queue = run.queue();
  const ops::RnnSequence sequence{layer.steps, layer.rows, layer.hidden, layer.reverse};
  const Sizes sizes{layer.steps, layer.rows, layer.hidden};
  const auto data = [](const TensorView& view) { return static_cast<float*>(view.data); };
  const TensorView other = run.scratch(DType::float32, sizes);  // cells, or the recurrent part of n
  if (layer.gates == 4)
    ops::lstm_sequence(queue, sequence, data(layer.packed), data(layer.h0), data(layer.c0), data(layer.input),
                       data(layer.output), data(other));
  else
    ops::gru_sequence(queue, sequence, data(layer.packed), data(layer.h0),
                      data(layer.recurrent_bias) + 2 * layer.hidden, data(layer.input), data(other),
                      data(layer.output));
  const int64_t last = layer.reverse ? 0 : layer.steps - 1;
  ops::copy(queue, layer.last_h, slice(layer.output, last));
  if (layer.gates == 4) ops::copy(queue, layer.last_c, slice(other, last));
}

// The input's products of all steps, [T, N, G H].
TensorView input_gates(Run& run, const TensorView& x, const TensorView& w, const TensorView& bias) {
  const int64_t rows = x.size(0) * x.size(1), width = w.size(0);
  const TensorView y = run.scratch(x.dtype, {rows, width});
  multiply(run, reshaped(x, {rows, x.size(2)}), permuted(w, swapped), y, {bias, ops::Activation::none});
  return reshaped(y, {x.size(0), x.size(1), width});
}

struct LayerOptions {
  int64_t gates = 1;
  bool resets_state = false;
  bool batch_first = false;
  std::string direction;
  const char* activation = nullptr;
};

// A first state, [N, H] dense: zero where none is given.
TensorView first_state(Run& run, int input, const LayerOptions& o, int64_t d, const Layer& layer) {
  TensorView state = run.scratch(layer.input.dtype, {layer.rows, layer.hidden});
  if (!run.has(input)) {
    ops::zero(run.queue(), state);
    return state;
  }
  TensorView given = run.view(input);
  need(given.dims == 3, "a first state has three dimensions");
  if (o.batch_first) given = permuted(given, std::array{1, 0, 2});
  given = slice(given, d);
  need(given.size(0) == layer.rows && given.size(1) == layer.hidden, "the sizes of a first state do not fit");
  ops::copy(run.queue(), state, given);
  return state;
}

// Results: Y [T, D, N, H], Y_h and Y_c [D, N, H]; batches first: [N, T, D, H] and [N, D, H].
void layer_run(Run& run, const LayerOptions& o) {
  Queue& queue = run.queue();
  TensorView x = run.view(0);
  need(x.dims == 3, "a sequence has three dimensions");
  if (o.batch_first) x = permuted(x, std::array{1, 0, 2});
  x = run.dense(x);
  const TensorView w = run.dense(1), bias = run.dense(2), r = run.dense(3), recurrent_bias = run.dense(4),
                   packed = run.dense(5);
  const int64_t steps = x.size(0), rows = x.size(1), directions = r.size(0), hidden = r.size(2);
  need(x.size(2) == w.size(2) && directions == (o.direction == "bidirectional" ? 2 : 1), "the sizes do not fit");
  const auto result = [&](int output, bool sequence) {
    Sizes sizes{directions, rows, hidden};
    if (sequence) sizes.insert(sizes.begin(), steps);
    if (!o.batch_first) return run.output(output, x.dtype, sizes);
    const TensorView y = run.output(
        output, x.dtype, sequence ? Sizes{rows, steps, directions, hidden} : Sizes{rows, directions, hidden});
    return sequence ? permuted(y, std::array{1, 2, 0, 3}) : permuted(y, std::array{1, 0, 2});
  };
  const TensorView y = result(0, true), last_h = result(1, false), last_c = o.gates == 4 ? result(2, false) : last_h;
  if (y.numel() == 0) return;
  const bool suits = x.dtype == DType::float32 && !o.resets_state && packed.numel() &&
                     ops::rnn_sequence_suits(queue.device(), rows, hidden);
  for (int64_t d = 0; d < directions; ++d) {
    Layer layer;
    layer.gates = o.gates, layer.steps = steps, layer.rows = rows, layer.hidden = hidden;
    layer.reverse = o.direction == "reverse" || d == 1, layer.activation = o.activation,
    layer.resets_state = o.resets_state;
    layer.input = input_gates(run, x, slice(w, d), slice(bias, d));
    layer.recurrent = slice(r, d), layer.recurrent_bias = slice(recurrent_bias, d);
    layer.h0 = first_state(run, 6, o, d, layer);
    if (o.gates == 4) layer.c0 = first_state(run, 7, o, d, layer);
    layer.last_h = slice(last_h, d), layer.last_c = slice(last_c, d);
    const TensorView place = slice(permuted(y, std::array{1, 0, 2, 3}), d);
    const bool in_place = !o.batch_first && directions == 1;
    layer.output = in_place ? place : run.scratch(x.dtype, {steps, rows, hidden});
    if (suits) {
      layer.packed = slice(packed, d);
      at_once(run, layer);
    } else {
      step_by_step(run, layer);
    }
    if (!in_place) ops::copy(queue, place, layer.output);
  }
}

// The names of activations, each direction's behind the other's, must be these.
void need_activations(const Node& node, const std::string& one_direction) {
  const std::string names = node.text("activations", "");
  need(names.empty() || names == one_direction || names == one_direction + " " + one_direction,
       "activations of other kinds");
}

LayerOptions options_of(const Node& node, int64_t gates) {
  return {gates, gates == 3 && node.integer("linear_before_reset", 0) == 0, node.integer("layout", 0) != 0,
          node.text("direction", "forward"), nullptr};
}

Kernel lstm(const Node& node) {
  need_activations(node, "Sigmoid Tanh Tanh");
  return [o = options_of(node, 4)](Run& run) { layer_run(run, o); };
}

Kernel gru(const Node& node) {
  need_activations(node, "Sigmoid Tanh");
  return [o = options_of(node, 3)](Run& run) { layer_run(run, o); };
}

Kernel rnn(const Node& node) {
  LayerOptions o = options_of(node, 1);
  const std::string names = node.text("activations", "Tanh");
  const bool relu = names.starts_with("Relu");
  need_activations(node, relu ? "Relu" : "Tanh");
  o.activation = relu ? "relu" : "tanh";
  return [o](Run& run) { layer_run(run, o); };
}

constexpr Operator rows[] = {
    {"RecurrentWeights", floats, recurrent_weights},
    {"LstmLayer", floats, lstm},
    {"GruLayer", floats, gru},
    {"RnnLayer", floats, rnn},
};

}  // namespace

std::span<const Operator> recurrent_operators() { return rows; }

}  // namespace ocl::ort
