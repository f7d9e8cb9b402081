// rnn/sequence.cpu.cl for GPUs: a work-group walks through time with one sequence of the batch, its work-items share
// the hidden units.
// Same tensors and packed weights.
#define LANES 1
#define COMPUTE float32
#define W 1
#define S float
#define T float
#include "common/types.clh"
#include "common/vector_math.clh"

#define FOR_UNITS(j) for (int j = get_local_id(0); j < hidden; j += get_local_size(0))

// memory: hidden floats.
kernel void lstm_sequence(global const float* packed, global const float* h0, global const float* c0,
                          global float* gates, global float* output, global float* cells, int steps, int rows,
                          int hidden, int reverse, local float* memory) {
  const long row = get_group_id(0), state = (long)rows * hidden;
  FOR_UNITS(j) memory[j] = h0[row * hidden + j];
  __global const float* c = c0;
  for (int s = 0; s < steps; s++) {
    const long t = reverse ? steps - 1 - s : s;
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_UNITS(j) {
      __global float* gate = gates + (t * rows + row) * 4 * hidden + j;
      float sum[4] = {gate[0], gate[hidden], gate[2 * hidden], gate[3 * hidden]};
      __global const float* w = packed + (long)(j / 16) * hidden * 64 + j % 16;
      for (int k = 0; k < hidden; k++, w += 64) {
        const float x = memory[k];
        sum[0] = fma(w[0], x, sum[0]), sum[1] = fma(w[16], x, sum[1]), sum[2] = fma(w[32], x, sum[2]),
        sum[3] = fma(w[48], x, sum[3]);
      }
      const float in = sigmoid_of(sum[0]), forget = sigmoid_of(sum[1]), next = tanh_fast(sum[2]),
                  out = sigmoid_of(sum[3]);
      const float cell = fma(forget, c[row * hidden + j], in * next);
      gate[0] = in, gate[hidden] = forget, gate[2 * hidden] = next, gate[3 * hidden] = out;
      cells[t * state + row * hidden + j] = cell;
      output[t * state + row * hidden + j] = out * tanh_fast(cell);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_UNITS(j) memory[j] = output[t * state + row * hidden + j];
    c = cells + t * state;
  }
}

// memory: 6 hidden floats: gradients of the state, of the cell and of the gates.
kernel void lstm_sequence_backward(global const float* packed, global const float* gates, global const float* cells,
                                   global const float* c0, global const float* grad_output, global const float* grad_hn,
                                   global const float* grad_cn, global float* grad_gates, global float* grad_h0,
                                   global float* grad_c0, int steps, int rows, int hidden, int reverse, int has_output,
                                   int has_hn, int has_cn, local float* memory) {
  const long row = get_group_id(0), state = (long)rows * hidden;
  __local float* dh = memory;
  __local float* dc = memory + hidden;
  __local float* d = memory + 2 * hidden;
  FOR_UNITS(j) dh[j] = has_hn ? grad_hn[row * hidden + j] : 0.0f, dc[j] = has_cn ? grad_cn[row * hidden + j] : 0.0f;
  for (int s = steps - 1; s >= 0; s--) {
    const long t = reverse ? steps - 1 - s : s;
    __global const float* before = s == 0 ? c0 : cells + (reverse ? t + 1 : t - 1) * state;
    FOR_UNITS(j) {
      __global const float* gate = gates + (t * rows + row) * 4 * hidden + j;
      __global float* to = grad_gates + (t * rows + row) * 4 * hidden + j;
      const float in = gate[0], forget = gate[hidden], next = gate[2 * hidden], out = gate[3 * hidden];
      const float cell = tanh_fast(cells[t * state + row * hidden + j]);
      const float g = dh[j] + (has_output ? grad_output[t * state + row * hidden + j] : 0.0f);
      const float gc = dc[j] + g * out * (1.0f - cell * cell);
      to[0] = d[j] = gc * next * (1.0f - in) * in;
      to[hidden] = d[hidden + j] = gc * before[row * hidden + j] * (1.0f - forget) * forget;
      to[2 * hidden] = d[2 * hidden + j] = gc * in * (1.0f - next * next);
      to[3 * hidden] = d[3 * hidden + j] = g * cell * (1.0f - out) * out;
      dc[j] = gc * forget;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_UNITS(j) {
      __global const float* w = packed + (long)(j / 64) * 4 * hidden * 64 + j % 64;
      float sum = 0;
      for (int k = 0; k < 4 * hidden; k++, w += 64) sum = fma(w[0], d[k], sum);
      dh[j] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  FOR_UNITS(j) grad_h0[row * hidden + j] = dh[j], grad_c0[row * hidden + j] = dc[j];
}
