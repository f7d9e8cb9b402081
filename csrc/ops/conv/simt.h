// Implicit matrix products for GPUs: work-groups that share local memory (kernels_cl/conv/simt.gpu.cl), and what the
// algorithms of that kind share.
#pragma once

#include "ops/conv/conv.h"
#include "ops/conv/gather.h"

namespace ocl::ops {

std::span<const ConvAlgorithm> simt_algorithms();

namespace simt_detail {

using params::Target;
inline int64_t plane_of(const Target& t) { return int64_t{1} * t.size[0] * t.size[1] * t.size[2]; }

// Both passes as gathers: one, or for backward-data one per residue of the stride. What no tap reaches is a sum over
// nothing: zeros.
struct Part {
  Gather gather;
  Target target;
};
Part forward_part(const ConvProblem& p);
std::vector<Part> backward_data_parts(const ConvProblem& p);

// The pixels over which the weight's gradient is summed, in shares: enough work-groups for the device, at least 256
// pixels each.
struct Shares {
  int64_t parts, pixels;  // pixels of one share: a multiple of 32
};
Shares share_pixels(const Gather& g, const PlanTarget& target, int64_t tile_rows, int64_t tile_columns);
// The shares' gradients, in the accumulation type.
size_t shares_workspace(const ConvProblem& p, const Shares& s);
void sum_shares(Queue& queue, const ConvProblem& p, const Shares& s, const void* gradients, void* w);

}  // namespace simt_detail
}  // namespace ocl::ops
