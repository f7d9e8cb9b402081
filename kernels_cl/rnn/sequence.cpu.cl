// One LSTM layer in one direction over a whole sequence in one launch; CPU style. float32.
// A task walks through time with ROWS sequences of the batch: nothing but its own rows is needed from step to step, so
// no task waits for another. Time-major, contiguous: gates [steps, rows, 4, hidden] (i, f, g, o), output and cells
// [steps, rows, hidden], states [rows, hidden].
// Weights: panels of rnn/pack.cl.
#include "rnn/recurrent.clh"

// gates holds the products with the input, biases included, and receives the activated gates. Grid: ceil(rows / ROWS).
CPU_KERNEL void lstm_sequence(global const float* packed, global const float* h0, global const float* c0,
                              global float* gates, global float* output, global float* cells, int steps, int rows,
                              int hidden, int reverse) {
  const int row0 = get_group_id(0) * ROWS, count = MIN_OF(ROWS, rows - row0);
  const long state = (long)rows * hidden;
  long row[ROWS];
  EACH_ROW row[r] = row0 + MIN_OF(r, count - 1);
  __global const float* h = h0;
  __global const float* c = c0;
  for (int s = 0; s < steps; s++) {
    const long t = reverse ? steps - 1 - s : s;
    __global float* gate = gates + t * 4 * state;
    for (int j = 0; j < hidden; j += 16) {
      float16 sum[ROWS][4];
      EACH_ROW EACH_OF(4) sum[r][g] = load_units(gate + (row[r] * 4 + g) * hidden, j, hidden);
      __global const float* w = packed + (long)j * hidden * 4;
      ADD_PRODUCTS(4, sum, w, h, row, hidden, hidden)
      for (int r = 0; r < count; r++) {
        const float16 in = sigmoid_of(sum[r][0]), forget = sigmoid_of(sum[r][1]), next = tanh_fast(sum[r][2]),
                      out = sigmoid_of(sum[r][3]);
        const float16 cell = fma(forget, load_units(c + row[r] * hidden, j, hidden), in * next);
        __global float* to = gate + row[r] * 4 * hidden;
        store_units(to, j, hidden, in);
        store_units(to + hidden, j, hidden, forget);
        store_units(to + 2 * hidden, j, hidden, next);
        store_units(to + 3 * hidden, j, hidden, out);
        store_units(cells + t * state + row[r] * hidden, j, hidden, cell);
        store_units(output + t * state + row[r] * hidden, j, hidden, out * tanh_fast(cell));
      }
    }
    h = output + t * state;
    c = cells + t * state;
  }
}

// Gradients of the output and of the last states (absent: flag 0) to those of the gates before activation and of the
// first states.
// memory: 2 ROWS rows of round_up(hidden, 64) floats.
CPU_KERNEL void lstm_sequence_backward(global const float* packed, global const float* gates, global const float* cells,
                                       global const float* c0, global const float* grad_output,
                                       global const float* grad_hn, global const float* grad_cn,
                                       global float* grad_gates, global float* grad_h0, global float* grad_c0,
                                       int steps, int rows, int hidden, int reverse, int has_output, int has_hn,
                                       int has_cn, local float* restrict memory) {
  const int row0 = get_group_id(0) * ROWS, count = MIN_OF(ROWS, rows - row0), width = (hidden + 63) / 64 * 64;
  const long state = (long)rows * hidden;
  long row[ROWS];
  EACH_ROW row[r] = row0 + MIN_OF(r, count - 1);
  __local float* dh = memory;
  __local float* dc = memory + ROWS * width;
  for (int r = 0; r < count; r++)
    for (int j = 0; j < hidden; j += 16) {
      vstore16(has_hn ? load_units(grad_hn + row[r] * hidden, j, hidden) : (float16)0, 0, dh + r * width + j);
      vstore16(has_cn ? load_units(grad_cn + row[r] * hidden, j, hidden) : (float16)0, 0, dc + r * width + j);
    }
  for (int s = steps - 1; s >= 0; s--) {
    const long t = reverse ? steps - 1 - s : s;
    __global const float* before = s == 0 ? c0 : cells + (reverse ? t + 1 : t - 1) * state;
    __global float* d = grad_gates + t * 4 * state;
    for (int r = 0; r < count; r++) {
      __global const float* gate = gates + t * 4 * state + row[r] * 4 * hidden;
      __global float* to = d + row[r] * 4 * hidden;
      for (int j = 0; j < hidden; j += 16) {
        const float16 in = load_units(gate, j, hidden), forget = load_units(gate + hidden, j, hidden);
        const float16 next = load_units(gate + 2 * hidden, j, hidden), out = load_units(gate + 3 * hidden, j, hidden);
        const float16 cell = tanh_fast(load_units(cells + t * state + row[r] * hidden, j, hidden));
        float16 g = vload16(0, dh + r * width + j);
        if (has_output) g += load_units(grad_output + t * state + row[r] * hidden, j, hidden);
        const float16 gc = vload16(0, dc + r * width + j) + g * out * (1.0f - cell * cell);
        store_units(to, j, hidden, gc * next * (1.0f - in) * in);
        store_units(to + hidden, j, hidden,
                    gc * load_units(before + row[r] * hidden, j, hidden) * (1.0f - forget) * forget);
        store_units(to + 2 * hidden, j, hidden, gc * in * (1.0f - next * next));
        store_units(to + 3 * hidden, j, hidden, g * cell * (1.0f - out) * out);
        vstore16(gc * forget, 0, dc + r * width + j);
      }
    }
    __global const float* w = packed;
    for (int j = 0; j < hidden; j += 64) {
      float16 sum[ROWS][4];
      EACH_ROW EACH_OF(4) sum[r][g] = 0;
      ADD_PRODUCTS(4, sum, w, d, row, 4 * hidden, 4 * hidden)
      EACH_ROW EACH_OF(4) vstore16(sum[r][g], g, dh + r * width + j);
    }
  }
  for (int r = 0; r < count; r++)
    for (int j = 0; j < hidden; j += 16) {
      store_units(grad_h0 + row[r] * hidden, j, hidden, vload16(0, dh + r * width + j));
      store_units(grad_c0 + row[r] * hidden, j, hidden, vload16(0, dc + r * width + j));
    }
}
