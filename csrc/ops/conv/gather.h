// A convolution as the CPU matrix-product kernels see it: every pass but backward-weight is the gather
//   y[n, g, o, p] = bias + sum_{c, t} x[n, g, c, p * stride - padding + t * dilation] * w(g, o, c, t)
// with weights in any order of taps; padding may be negative.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

// kernels_cl/conv/pieces.clh has the same struct, with `kernel_size` for `kernel`.
struct GatherShape {
  int64_t x_image, x_plane;
  int32_t batch, in_channels, out_channels;  // channels of one group
  int32_t input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
};

// kernels_cl/upsample/weight_map.clh has the same struct.
struct WeightMap {
  int64_t group, out, in;
  int32_t base, tap[3];
};

struct Gather {
  GatherShape shape;
  WeightMap weights;
  int64_t groups;

  int64_t taps() const { return int64_t{1} * shape.kernel[0] * shape.kernel[1] * shape.kernel[2]; }
  int64_t depth() const { return shape.in_channels * taps(); }  // length of the sums
  int64_t plane() const { return int64_t{1} * shape.output[0] * shape.output[1] * shape.output[2]; }
};

// x and y channels first, w in either order.
Gather forward_gather(const ConvProblem& p);

// dx at the pixels residue + q * stride, q in [0, output): a stride-1 gather from dy with the taps that reach those
// pixels. Stride 1 has the single residue (0, 0, 0). kernel[d] == 0 when no tap does.
Gather backward_data_gather(const ConvProblem& p, const std::array<int64_t, 3>& residue);

// How the kernels are specialised: stride along rows where they have vectors for it, otherwise 0; whether there is a
// depth.
int stride_class(const GatherShape& s);
bool is_volume(const GatherShape& s);

// Enough tasks for every core to be busy to the end, and a multiple of the cores when tasks are few.
bool balanced(int64_t tasks, int64_t cores);
// The fewest shares, from `least` on, with which tasks * shares are balanced, or `most` of them where fewer are not.
int64_t balanced_shares(int64_t tasks, int64_t cores, int64_t least, int64_t most);

// A 1x1 kernel with stride 1 and no padding becomes a single row of pixels.
Gather flatten_pointwise(Gather gather);

}  // namespace ocl::ops
