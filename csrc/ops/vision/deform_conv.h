// Deformable convolution (torchvision.ops.deform_conv2d; Zhu et al., Deformable ConvNets v2, arXiv:1811.11168): every
// tap of the kernel is moved by an offset of its own, sampled bilinearly with zeros outside the image, and scaled by a
// mask. These are the parts around the matrix products.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// Of `batch` images: image [batch, channels, height, width]; offset [batch, groups, taps, 2 (y, x), output_height,
// output_width]; mask [batch, groups, taps, output_height, output_width] or null (ones); columns [batch, channels,
// taps, output_height, output_width]. All contiguous.
struct DeformConv {
  DType dtype = DType::float32;  // of every operand but grad_image
  int64_t batch = 1, channels = 1, height = 1, width = 1;
  int64_t kernel_height = 1, kernel_width = 1, output_height = 1, output_width = 1;
  int64_t stride_y = 1, stride_x = 1, padding_y = 0, padding_x = 0, dilation_y = 1, dilation_x = 1;
  int64_t groups = 1;  // of channels that share offsets

  int64_t taps() const { return kernel_height * kernel_width; }
  int64_t pixels() const { return output_height * output_width; }
};

// columns = the scaled samples.
void deform_columns(Queue& queue, const DeformConv& problem, void* columns, const void* image, const void* offset,
                    const void* mask);

// grad_offset and grad_mask (null without a mask) = gradients, from the gradient of the columns.
void deform_offset_gradient(Queue& queue, const DeformConv& problem, void* grad_offset, void* grad_mask,
                            const void* grad_columns, const void* image, const void* offset, const void* mask);

// grad_image (float32, or float64 for float64; starts as zeros) += gradient. CPU devices never use atomics.
void deform_image_gradient(Queue& queue, const DeformConv& problem, void* grad_image, const void* grad_columns,
                           const void* offset, const void* mask, bool deterministic);

}  // namespace ocl::ops
