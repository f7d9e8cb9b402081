// Scaled dot-product attention without the matrix of scores: out = dropout(softmax(scale q k^T + bias)) v and its
// gradients. Formulas, masking and dropout: kernels_cl/attention/attention.clh. Views have four dimensions:
//   q [B, Hq, L, E], k [B, Hk, S, E], v [B, Hk, S, F], out [B, Hq, L, F], bias [B, Hq, L, S] (strides 0 broadcast; data
//   null: none)
// Hq is a multiple of Hk. The last dimension of every view is dense; one dtype: float32, float16 or bfloat16.
#pragma once

#include "ops/core/context.h"
#include "ops/random/random.h"

namespace ocl::ops {

struct AttentionOptions {
  double scale = 1;
  bool causal = false;  // key j is seen by query i when j <= i
  double dropout = 0;   // probability of zeroing an element of the softmax, in [0, 1)
  Philox state;         // of the dropout; attention_counters() are used
};

// nullptr when the device can run these widths and this dtype, otherwise the reason why not.
const char* attention_refuses(const Device& device, DType dtype, int64_t width, int64_t value_width);
uint64_t attention_counters(int64_t batch, int64_t heads, int64_t length, int64_t keys);

// lse: float32 [B, Hq, L] contiguous, the logarithm of each row's sum of exponentials; kept for the backward pass.
void attention(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& bias,
               const TensorView& out, const TensorView& lse, const AttentionOptions& options);

// dq, dk, dv: like q, k, v.
void attention_backward(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v,
                        const TensorView& bias, const TensorView& out, const TensorView& dout, const TensorView& lse,
                        const TensorView& dq, const TensorView& dk, const TensorView& dv,
                        const AttentionOptions& options);

}  // namespace ocl::ops
