// A convolution as the CPU matrix-product kernels see it: every pass but backward-weight is the gather
//   y[n, g, o, p] = bias + sum_{c, t} x[n, g, c, p * stride - padding + t * dilation] * w(g, o, c, t)
// with weights in any order of taps; padding may be negative.
#pragma once

#include "ops/conv/conv.h"
#include "params/conv.h"

namespace ocl::ops {

using params::GatherShape;
using params::WeightMap;

struct Gather {
  GatherShape shape;
  WeightMap weights;
  int64_t groups;

  int64_t taps() const { return int64_t{1} * shape.kernel_size[0] * shape.kernel_size[1] * shape.kernel_size[2]; }
  int64_t depth() const { return shape.in_channels * taps(); }  // length of the sums
  int64_t plane() const { return int64_t{1} * shape.output[0] * shape.output[1] * shape.output[2]; }
};

// x and y channels first, w in either order.
Gather forward_gather(const ConvProblem& p);

// dx at the pixels residue + q * stride, q in [0, output): a stride-1 gather from dy with the taps that reach those
// pixels. Stride 1 has the single residue (0, 0, 0). kernel_size[d] == 0 when no tap does.
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
