#include "ops/core/type_error.h"
#include "ops/rnn/rnn.h"

#include <stdexcept>
#include <string>

namespace ocl::ops {

namespace {

struct Cell {
  int64_t rows;
  int32_t hidden;
  Range global, local;
};

Cell cell(const Device& device, const TensorView& state) {
  const int64_t rows = state.size(0), hidden = state.size(1);
  if (hidden > INT32_MAX / 8)
    throw InvalidArgument("recurrent cell: hidden size " + std::to_string(hidden) + " is too large");
  if (device.cpu_style()) return {rows, static_cast<int32_t>(hidden), Range(ceil_div(hidden, 256), rows), Range(1, 1)};
  const int64_t local = hidden >= 256 ? 256 : 64;
  return {rows, static_cast<int32_t>(hidden), Range(round_up(hidden, local), rows), Range(local, 1)};
}

Kernel& kernel(KernelSite& site, Device& device, DType type) {
  if (!is_floating(type)) not_implemented("recurrent cell", type);
  require_dtype(device, type, "recurrent cell");
  return site.get(device, Variant().add(type), [&] {
    Defines defines;
    dtype(defines, "X_DTYPE", type);
    return dtype(defines, "C_DTYPE", compute_type(type));
  });
}

int32_t biased(const CellGates& gates) {
  if (static_cast<bool>(gates.input_bias) != static_cast<bool>(gates.recurrent_bias))
    throw InvalidArgument("recurrent cell: needs both biases or none");
  return gates.input_bias ? 1 : 0;
}

void check(const TensorView& t, const TensorView& state, int64_t parts, const char* what) {
  if (t.dtype != state.dtype || t.numel() != state.numel() * parts)
    throw InvalidArgument(std::string("recurrent cell: ") + what + " " + t.shape_string() +
                          " does not match the state " + state.shape_string());
}

}  // namespace

void lstm_cell(Queue& queue, const CellGates& gates, const TensorView& cx, const TensorView& hy, const TensorView& cy,
               const TensorView& workspace) {
  if (cx.numel() == 0) return;
  check(gates.input, cx, 4, "input gates");
  check(gates.recurrent, cx, 4, "hidden gates");
  check(workspace, cx, 4, "workspace");
  static KernelSite site("rnn/cells.cl", "lstm_forward");
  const Cell c = cell(queue.device(), cx);
  launch(queue, kernel(site, queue.device(), cx.dtype), c.global, c.local, gates.input.data, gates.recurrent.data,
         gates.input_bias.data, gates.recurrent_bias.data, cx.data, hy.data, cy.data, workspace.data, c.hidden,
         biased(gates));
}

void lstm_cell_backward(Queue& queue, const TensorView& grad_hy, const TensorView& grad_cy, const TensorView& cx,
                        const TensorView& cy, const TensorView& workspace, const TensorView& grad_gates,
                        const TensorView& grad_cx) {
  if (cx.numel() == 0) return;
  check(workspace, cx, 4, "workspace");
  check(grad_gates, cx, 4, "gradient of the gates");
  static KernelSite site("rnn/cells.cl", "lstm_backward");
  const Cell c = cell(queue.device(), cx);
  const int32_t has_hy = grad_hy ? 1 : 0, has_cy = grad_cy ? 1 : 0;
  launch(queue, kernel(site, queue.device(), cx.dtype), c.global, c.local, grad_hy.data, grad_cy.data, cx.data, cy.data,
         workspace.data, grad_gates.data, grad_cx.data, c.hidden, has_hy, has_cy);
}

void gru_cell(Queue& queue, const CellGates& gates, const TensorView& hx, const TensorView& hy,
              const TensorView& workspace) {
  if (hx.numel() == 0) return;
  check(gates.input, hx, 3, "input gates");
  check(gates.recurrent, hx, 3, "hidden gates");
  check(workspace, hx, 5, "workspace");
  static KernelSite site("rnn/cells.cl", "gru_forward");
  const Cell c = cell(queue.device(), hx);
  launch(queue, kernel(site, queue.device(), hx.dtype), c.global, c.local, gates.input.data, gates.recurrent.data,
         gates.input_bias.data, gates.recurrent_bias.data, hx.data, hy.data, workspace.data, c.hidden, biased(gates));
}

void gru_cell_backward(Queue& queue, const TensorView& grad_hy, const TensorView& workspace,
                       const TensorView& grad_input, const TensorView& grad_recurrent, const TensorView& grad_hx) {
  if (grad_hy.numel() == 0) return;
  check(workspace, grad_hy, 5, "workspace");
  check(grad_input, grad_hy, 3, "gradient of the input gates");
  check(grad_recurrent, grad_hy, 3, "gradient of the hidden gates");
  static KernelSite site("rnn/cells.cl", "gru_backward");
  const Cell c = cell(queue.device(), grad_hy);
  launch(queue, kernel(site, queue.device(), grad_hy.dtype), c.global, c.local, grad_hy.data, workspace.data,
         grad_input.data, grad_recurrent.data, grad_hx.data, c.hidden);
}

}  // namespace ocl::ops
