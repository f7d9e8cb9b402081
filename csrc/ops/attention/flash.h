// Attention on tensor cores without storing scores (kernels_cl/attention/flash.gpu.cl,
// attention/flash_backward.gpu.cl).
#pragma once

#include "ops/attention/problem.h"

#include <initializer_list>

namespace ocl::ops::attention_detail {

// nullptr when these kernels can run the call, otherwise the reason why not. `rows`: every view but the bias.
const char* flash_refuses(const Device& device, const Problem& p, std::initializer_list<const TensorView*> rows);
void forward_flash(Queue& queue, const Problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                   const TensorView& bias, const TensorView& out, const TensorView& lse,
                   const AttentionOptions& options);
// delta: float32 [B, Hq, L] workspace.
void backward_flash(Queue& queue, const Problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                    const TensorView& bias, const TensorView& out, const TensorView& dout, const TensorView& lse,
                    void* delta, const TensorView& dq, const TensorView& dk, const TensorView& dv,
                    const AttentionOptions& options);

}  // namespace ocl::ops::attention_detail
