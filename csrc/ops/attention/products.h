// Attention by matrix products on tensor cores: the scores of as many heads as fit into a workspace are stored between
// the products.
#pragma once

#include "ops/attention/attention.h"

namespace ocl::ops::attention_detail {

bool by_products(const Device& device, const TensorView& q, const TensorView& k);
void forward_by_products(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v,
                         const TensorView& bias, const TensorView& out, const TensorView& lse,
                         const AttentionOptions& options);
// delta: float32 [B, Hq, L], the sums of out * dout.
void backward_by_products(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v,
                          const TensorView& bias, const TensorView& dout, const TensorView& lse, const void* delta,
                          const TensorView& dq, const TensorView& dk, const TensorView& dv,
                          const AttentionOptions& options);

}  // namespace ocl::ops::attention_detail
