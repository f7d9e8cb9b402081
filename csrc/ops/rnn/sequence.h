// One layer of a recurrent network in one direction over a whole sequence: all time steps in one launch, where the
// recurrent product of a step is too small to deserve launches of its own. float32, contiguous, time-major:
//   gates [steps, rows, G, hidden]: LSTM, G = 4 in the order i, f, g, o; GRU, G = 3 in the order r, z, n
//   output, cells, recurrent [steps, rows, hidden]; states [rows, hidden]; weights [G, hidden, hidden]
// Formulas: kernels_cl/rnn/cells.cl.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

struct RnnSequence {
  int64_t steps, rows, hidden;
  bool reverse;  // from the last time step to the first
};

// Whether the sequence is likely to be faster than step by step, and the device has the memory for it.
bool rnn_sequence_suits(const Device& device, int64_t rows, int64_t hidden);

// weight -> panels for the sequence (or for its backward pass).
int64_t rnn_packed_elements(int64_t gates, int64_t hidden, bool backward);
void rnn_pack(Queue& queue, const float* weight, float* packed, int64_t gates, int64_t hidden, bool backward);

// gates: input product with all biases before, activated gates after.
void lstm_sequence(Queue& queue, const RnnSequence& s, const float* packed, const float* h0, const float* c0,
                   float* gates, float* output, float* cells);

struct LstmGradients {
  const float *output, *hn, *cn;  // of the results; null: zero
  float *gates, *h0, *c0;         // of the gates before their activation, and of the first states
};
// packed: for the backward pass.
void lstm_sequence_backward(Queue& queue, const RnnSequence& s, const float* packed, const float* gates,
                            const float* cells, const float* c0, const LstmGradients& gradients);

// gates: input product with all biases but the recurrent one of n before, activated gates after. bias [hidden]: that of
// n, null for none. recurrent: the recurrent part of n with its bias.
void gru_sequence(Queue& queue, const RnnSequence& s, const float* packed, const float* h0, const float* bias,
                  float* gates, float* recurrent, float* output);

struct GruGradients {
  const float *output, *hn;  // of the results; null: zero
  float *gates, *recurrent,
      *h0;  // of the input's part of the gates, of the recurrent part [steps, rows, 3, hidden], of the first state
};
// packed: for the backward pass.
void gru_sequence_backward(Queue& queue, const RnnSequence& s, const float* packed, const float* gates,
                           const float* recurrent, const float* output, const float* h0, const GruGradients& gradients);

}  // namespace ocl::ops
