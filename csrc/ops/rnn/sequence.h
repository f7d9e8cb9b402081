// One LSTM layer in one direction over a whole sequence: all time steps in one
// launch, where the recurrent product of a step is too small to deserve
// launches of its own. float32, contiguous, time-major:
//   gates [steps, rows, 4, hidden] in the order i, f, g, o; output, cells
//   [steps, rows, hidden]; states [rows, hidden].
// Formulas: kernels_cl/rnn.cl.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

struct LstmSequence {
  int64_t steps, rows, hidden;
  bool reverse;  // from the last time step to the first
};

// Whether the sequence is likely to be faster than step by step, and the device
// has the memory for it.
bool lstm_sequence_suits(const Device& device, int64_t rows, int64_t hidden);

// weight [4, hidden, hidden] -> panels for lstm_sequence (or for its backward
// pass).
int64_t lstm_packed_elements(int64_t hidden, bool backward);
void lstm_pack(Queue& queue, const float* weight, float* packed, int64_t hidden, bool backward);

// gates: input product with all biases before, activated gates after.
void lstm_sequence(Queue& queue, const LstmSequence& s, const float* packed, const float* h0, const float* c0, float* gates, float* output,
                   float* cells);

struct LstmGradients {
  const float *output, *hn, *cn;  // of the results; null: zero
  float *gates, *h0,
      *c0;  // of the gates before their activation, and of the first states
};
// packed: for the backward pass.
void lstm_sequence_backward(Queue& queue, const LstmSequence& s, const float* packed, const float* gates, const float* cells, const float* c0,
                            const LstmGradients& gradients);

}  // namespace ocl::ops
