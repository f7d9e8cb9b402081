// Connectionist temporal classification (Graves et al., ICML 2006): the negative log likelihood of label sequences
// under independent steps, and its gradient by the forward-backward algorithm. All in logarithms.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// log_probs [steps, batch, classes] with strides in elements; targets int64. One sequence per element of the batch, in
// `sequences` [batch, 3] int64: (steps that count, number of labels, place of its first label in targets); labels of a
// sequence are `target_stride` elements apart. A label that is no class has probability 0.
struct Ctc {
  DType dtype = DType::float32;  // float32 or float64
  int64_t steps = 1, batch = 1, classes = 1;
  int64_t step_stride = 1, batch_stride = 1, class_stride = 1;
  int64_t target_stride = 1;
  int64_t longest = 0;  // largest number of labels
  int64_t blank = 0;
  bool zero_infinity = false;  // gradients of impossible sequences are 0

  int64_t states() const { return 2 * longest + 1; }  // labels with blanks around them
};

// loss [batch] and log_alpha [batch, steps, states], which starts as -infinity: logarithm of the probability of all
// prefixes that end in a state.
void ctc_forward(Queue& queue, const Ctc& problem, void* loss, void* log_alpha, const void* log_probs,
                 const void* targets, const void* sequences);

// grad_log_probs [steps, batch, classes] dense, written in full. grad [batch]. log_beta [batch, steps, states] is
// scratch that starts as -infinity.
void ctc_backward(Queue& queue, const Ctc& problem, void* grad_log_probs, void* log_beta, const void* grad,
                  const void* loss, const void* log_alpha, const void* log_probs, const void* targets,
                  const void* sequences);

}  // namespace ocl::ops
