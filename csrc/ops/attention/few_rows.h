// Attention of few queries over many keys on CPU devices (kernels_cl/attention/few_rows.cpu.cl).
#pragma once

#include "ops/attention/problem.h"

namespace ocl::ops::attention_detail {

// Whether these kernels run the call: a few rows of queries for each head of keys, no dropout.
bool has_few_rows(const Device& device, const Problem& p, const AttentionOptions& options);
void forward_few_rows(Queue& queue, const Problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                      const TensorView& bias, const TensorView& out, const TensorView& lse,
                      const AttentionOptions& options);

}  // namespace ocl::ops::attention_detail
