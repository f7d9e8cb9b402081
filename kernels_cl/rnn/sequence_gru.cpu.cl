// One GRU layer in one direction over a whole sequence in one launch; CPU style. float32.
// A task walks through time with ROWS sequences of the batch: nothing but its own rows is needed from step to step, so
// no task waits for another. Time-major, contiguous: gates [steps, rows, 3, hidden] (r, z, n), recurrent and output
// [steps, rows, hidden], state [rows, hidden].
//   r, z = sigmoid(gate + W h);  recurrent = W h + bias for n alone;  n = tanh(gate + r recurrent);  output = n + z (h
//   - n)
// Weights: panels of rnn/pack.cl.
#include "rnn/recurrent.clh"

// gates holds the products with the input and the biases that are simply added, and receives the activated gates. bias
// [hidden]: n's recurrent
// one (absent: flag 0). Grid: ceil(rows / ROWS).
CPU_KERNEL void gru_sequence(global const float* packed, global const float* h0, global const float* bias,
                             global float* gates, global float* recurrent, global float* output, int steps, int rows,
                             int hidden, int reverse, int biased) {
  const int row0 = get_group_id(0) * ROWS, count = MIN_OF(ROWS, rows - row0);
  const long state = (long)rows * hidden;
  long row[ROWS];
  EACH_ROW row[r] = row0 + MIN_OF(r, count - 1);
  __global const float* h = h0;
  for (int s = 0; s < steps; s++) {
    const long t = reverse ? steps - 1 - s : s;
    __global float* gate = gates + t * 3 * state;
    for (int j = 0; j < hidden; j += 16) {
      float16 sum[ROWS][3];
      EACH_ROW {
        sum[r][0] = load_units(gate + row[r] * 3 * hidden, j, hidden);
        sum[r][1] = load_units(gate + (row[r] * 3 + 1) * hidden, j, hidden);
        sum[r][2] = biased ? load_units(bias, j, hidden) : (float16)0;
      }
      __global const float* w = packed + (long)j * hidden * 3;
      ADD_PRODUCTS(3, sum, w, h, row, hidden, hidden)
      for (int r = 0; r < count; r++) {
        __global float* to = gate + row[r] * 3 * hidden;
        const float16 reset = sigmoid_of(sum[r][0]), update = sigmoid_of(sum[r][1]);
        const float16 next = tanh_fast(fma(reset, sum[r][2], load_units(to + 2 * hidden, j, hidden)));
        store_units(to, j, hidden, reset);
        store_units(to + hidden, j, hidden, update);
        store_units(to + 2 * hidden, j, hidden, next);
        store_units(recurrent + t * state + row[r] * hidden, j, hidden, sum[r][2]);
        store_units(output + t * state + row[r] * hidden, j, hidden,
                    fma(update, load_units(h + row[r] * hidden, j, hidden) - next, next));
      }
    }
    h = output + t * state;
  }
}

// Gradients of the output and of the last state (absent: flag 0) to those of the gates' two sums, of which only n's
// differ, and of the first
// state. memory: ROWS rows of round_up(hidden, 64) floats.
CPU_KERNEL void gru_sequence_backward(global const float* packed, global const float* gates,
                                      global const float* recurrent, global const float* output, global const float* h0,
                                      global const float* grad_output, global const float* grad_hn,
                                      global float* grad_gates, global float* grad_recurrent, global float* grad_h0,
                                      int steps, int rows, int hidden, int reverse, int has_output, int has_hn,
                                      local float* restrict memory) {
  const int row0 = get_group_id(0) * ROWS, count = MIN_OF(ROWS, rows - row0), width = (hidden + 63) / 64 * 64;
  const long state = (long)rows * hidden;
  long row[ROWS];
  EACH_ROW row[r] = row0 + MIN_OF(r, count - 1);
  __local float* dh = memory;
  EACH_ROW for (int j = 0; j < width; j += 16) vstore16(
      has_hn && j < hidden ? load_units(grad_hn + row[r] * hidden, j, hidden) : (float16)0, 0, dh + r * width + j);
  for (int s = steps - 1; s >= 0; s--) {
    const long t = reverse ? steps - 1 - s : s;
    __global const float* before = s == 0 ? h0 : output + (reverse ? t + 1 : t - 1) * state;
    __global float* d = grad_recurrent + t * 3 * state;
    for (int r = 0; r < count; r++) {
      const long at = t * state + row[r] * hidden;
      __global float *to_gates = grad_gates + 3 * at, *to_recurrent = grad_recurrent + 3 * at;
      for (int j = 0; j < hidden; j += 16) {
        const float16 reset = load_units(gates + 3 * at, j, hidden),
                      update = load_units(gates + 3 * at + hidden, j, hidden);
        const float16 next = load_units(gates + 3 * at + 2 * hidden, j, hidden);
        float16 g = vload16(0, dh + r * width + j);
        if (has_output) g += load_units(grad_output + at, j, hidden);
        const float16 d_next = g * (1.0f - update) * (1.0f - next * next);
        const float16 d_reset = d_next * load_units(recurrent + at, j, hidden) * (1.0f - reset) * reset;
        const float16 d_update =
            g * (load_units(before + row[r] * hidden, j, hidden) - next) * (1.0f - update) * update;
        store_units(to_gates, j, hidden, d_reset);
        store_units(to_gates + hidden, j, hidden, d_update);
        store_units(to_gates + 2 * hidden, j, hidden, d_next);
        store_units(to_recurrent, j, hidden, d_reset);
        store_units(to_recurrent + hidden, j, hidden, d_update);
        store_units(to_recurrent + 2 * hidden, j, hidden, d_next * reset);
        vstore16(g * update, 0, dh + r * width + j);
      }
    }
    __global const float* w = packed;
    for (int j = 0; j < hidden; j += 64) {
      float16 sum[ROWS][4];
      EACH_ROW EACH_OF(4) sum[r][g] = vload16(g, dh + r * width + j);
      ADD_PRODUCTS(4, sum, w, d, row, 3 * hidden, 3 * hidden)
      EACH_ROW EACH_OF(4) vstore16(sum[r][g], g, dh + r * width + j);
    }
  }
  for (int r = 0; r < count; r++)
    for (int j = 0; j < hidden; j += 16)
      store_units(grad_h0 + row[r] * hidden, j, hidden, vload16(0, dh + r * width + j));
}
