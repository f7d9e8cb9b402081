// Rotary position embedding of queries and keys in one launch. Formula: kernels_cl/attention/rotary.cl.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// q [B, H, L, D], k [B, G, L, D], cos and sin [B, L, D] (stride 0 broadcasts), D even, last dimensions dense; q_out
// [B, L, H, D] and k_out [B, L, G, D], contiguous. One dtype: float32, float16 or bfloat16. Errors: InvalidArgument for
// other sizes and types.
void rotary(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& cos, const TensorView& sin,
            const TensorView& q_out, const TensorView& k_out);

}  // namespace ocl::ops
