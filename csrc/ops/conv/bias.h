// Gradient of a convolution's bias: db[c] = sum over images and pixels of dy[n, c, p].
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// dy is [batch, channels, plane], or [batch, plane, channels] when channels_last; db has `channels` elements of the
// same dtype.
void conv_bias_gradient(Queue& queue, DType dtype, bool channels_last, int64_t batch, int64_t channels, int64_t plane,
                        const void* dy, void* db);

}  // namespace ocl::ops
