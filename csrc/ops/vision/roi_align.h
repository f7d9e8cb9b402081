// Average of bilinear samples in the bins of regions of interest (torchvision.ops.roi_align; He et al., Mask R-CNN,
// arXiv:1703.06870).
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

struct RoiAlign {
  DType dtype = DType::float32;                            // of image, regions and output
  int64_t batch = 1, channels = 1, height = 1, width = 1;  // of the image
  int64_t regions = 0, bins_y = 1, bins_x = 1;
  double scale = 1;            // from the regions' coordinates to the image's
  int64_t sampling_ratio = 0;  // samples per bin and axis; up to 0: ceil(size of a bin)
  bool aligned = false;        // half a pixel to the left and up; without it regions have at least one pixel
};

// output [regions, channels, bins_y, bins_x] from image [batch, channels, height, width] and regions [regions, 5] =
// (index in the batch, x1, y1, x2, y2), all contiguous. Samples more than a pixel outside are 0; a region with an index
// outside the batch, or that is not finite, gives 0.
void roi_align(Queue& queue, const RoiAlign& problem, void* output, const void* image, const void* regions);

// grad_image (float32, or float64 for float64; starts as zeros) += gradient. CPU devices never use atomics.
void roi_align_backward(Queue& queue, const RoiAlign& problem, void* grad_image, const void* grad_output,
                        const void* regions, bool deterministic);

}  // namespace ocl::ops
