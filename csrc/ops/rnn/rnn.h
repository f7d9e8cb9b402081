// Pointwise part of recurrent cells, with ATen's outputs and workspace layouts (_thnn_fused_lstm_cell,
// _thnn_fused_gru_cell). All tensors contiguous and of one floating dtype: gates [rows, G * hidden] with G = 4 for LSTM
// (i, f, g, o) and 3 for GRU (r, z, n), states [rows, hidden], biases [G * hidden]. Biases are given both or not at all
// (data == nullptr). Formulas: kernels_cl/rnn/cells.cl.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

struct CellGates {
  TensorView input, recurrent;            // the two matrix products
  TensorView input_bias, recurrent_bias;  // may be empty views
};

// workspace: [rows, 4 * hidden], the activated gates.
void lstm_cell(Queue& queue, const CellGates& gates, const TensorView& cx, const TensorView& hy, const TensorView& cy,
               const TensorView& workspace);
// grad_hy or grad_cy may be an empty view (zero). grad_gates [rows, 4 * hidden].
void lstm_cell_backward(Queue& queue, const TensorView& grad_hy, const TensorView& grad_cy, const TensorView& cx,
                        const TensorView& cy, const TensorView& workspace, const TensorView& grad_gates,
                        const TensorView& grad_cx);

// workspace: [rows, 5 * hidden]: r, z, n, hx, and the recurrent part of n with its bias.
void gru_cell(Queue& queue, const CellGates& gates, const TensorView& hx, const TensorView& hy,
              const TensorView& workspace);
// grad_input and grad_recurrent: [rows, 3 * hidden].
void gru_cell_backward(Queue& queue, const TensorView& grad_hy, const TensorView& workspace,
                       const TensorView& grad_input, const TensorView& grad_recurrent, const TensorView& grad_hx);

}  // namespace ocl::ops
