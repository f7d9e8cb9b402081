// rnn/sequence_gru.cpu.cl for GPUs: a work-group walks through time with one sequence of the batch, its work-items
// share the hidden units.
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
kernel void gru_sequence(global const float* packed, global const float* h0, global const float* bias,
                         global float* gates, global float* recurrent, global float* output, int steps, int rows,
                         int hidden, int reverse, int biased, local float* memory) {
  const long row = get_group_id(0), state = (long)rows * hidden;
  FOR_UNITS(j) memory[j] = h0[row * hidden + j];
  for (int s = 0; s < steps; s++) {
    const long t = reverse ? steps - 1 - s : s, at = t * state + row * hidden;
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_UNITS(j) {
      __global float* gate = gates + 3 * at + j;
      float sum[3] = {gate[0], gate[hidden], biased ? bias[j] : 0.0f};
      __global const float* w = packed + (long)(j / 16) * hidden * 48 + j % 16;
      for (int k = 0; k < hidden; k++, w += 48) {
        const float x = memory[k];
        sum[0] = fma(w[0], x, sum[0]), sum[1] = fma(w[16], x, sum[1]), sum[2] = fma(w[32], x, sum[2]);
      }
      const float reset = sigmoid_of(sum[0]), update = sigmoid_of(sum[1]),
                  next = tanh_fast(fma(reset, sum[2], gate[2 * hidden]));
      gate[0] = reset, gate[hidden] = update, gate[2 * hidden] = next;
      recurrent[at + j] = sum[2];
      output[at + j] = fma(update, memory[j] - next, next);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_UNITS(j) memory[j] = output[at + j];
  }
}

// memory: 4 hidden floats: gradients of the state and of the gates' recurrent sums.
kernel void gru_sequence_backward(global const float* packed, global const float* gates, global const float* recurrent,
                                  global const float* output, global const float* h0, global const float* grad_output,
                                  global const float* grad_hn, global float* grad_gates, global float* grad_recurrent,
                                  global float* grad_h0, int steps, int rows, int hidden, int reverse, int has_output,
                                  int has_hn, local float* memory) {
  const long row = get_group_id(0), state = (long)rows * hidden;
  __local float *dh = memory, *d = memory + hidden;
  FOR_UNITS(j) dh[j] = has_hn ? grad_hn[row * hidden + j] : 0.0f;
  for (int s = steps - 1; s >= 0; s--) {
    const long t = reverse ? steps - 1 - s : s, at = t * state + row * hidden;
    __global const float* before = s == 0 ? h0 : output + (reverse ? t + 1 : t - 1) * state;
    FOR_UNITS(j) {
      __global const float* gate = gates + 3 * at + j;
      __global float *to_gates = grad_gates + 3 * at + j, *to_recurrent = grad_recurrent + 3 * at + j;
      const float reset = gate[0], update = gate[hidden], next = gate[2 * hidden];
      const float g = dh[j] + (has_output ? grad_output[at + j] : 0.0f);
      const float d_next = g * (1.0f - update) * (1.0f - next * next),
                  d_reset = d_next * recurrent[at + j] * (1.0f - reset) * reset;
      const float d_update = g * (before[row * hidden + j] - next) * (1.0f - update) * update;
      to_gates[0] = to_recurrent[0] = d[j] = d_reset;
      to_gates[hidden] = to_recurrent[hidden] = d[hidden + j] = d_update;
      to_gates[2 * hidden] = d_next;
      to_recurrent[2 * hidden] = d[2 * hidden + j] = d_next * reset;
      dh[j] = g * update;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_UNITS(j) {
      __global const float* w = packed + (long)(j / 64) * 3 * hidden * 64 + j % 64;
      float sum = dh[j];
      for (int k = 0; k < 3 * hidden; k++, w += 64) sum = fma(w[0], d[k], sum);
      dh[j] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  FOR_UNITS(j) grad_h0[row * hidden + j] = dh[j];
}
