// Convolutions that are computed in parts: sub-grids of dx, shares of dw (kernels_cl/conv/combine.cpu.cl).
#pragma once

#include "ops/conv/gather.h"

#include <functional>

namespace ocl::ops {

// Sub-grids of dx, one for each residue of the pixels modulo the stride.
int64_t residues(const ConvProblem& p);
// Bytes of one of them in a workspace.
int64_t slot_bytes(const ConvProblem& p);
// Calls compute(sub-grid as a gather from dy, its residue) for those that any tap reaches; returns them as bits.
uint64_t each_sub_grid(const ConvProblem& p, const std::function<void(const Gather&, int)>& compute);
// dx from the sub-grids, which lie slot_bytes apart; bit r of `present` is clear where no tap reaches residue r. At
// most 64 residues.
void interleave(Queue& queue, const ConvProblem& p, const void* parts, uint64_t present, void* dx);

// One task of a weight gradient: `channels` x `columns` of dw over `share` pixels; `parts` of them share a piece of dw.
struct WeightTiles {
  int64_t channels, columns, share, parts;
  size_t local_bytes;
};
// For kernels whose slabs have 128 words of `pixels_per_word` pixels (kernels_cl/conv/weight_gradient.clh).
WeightTiles choose_weight_tiles(const Gather& g, const PlanTarget& target, int64_t pixels_per_word);
// dw from `parts` partial sums in float32, added in order.
void sum_shares(Queue& queue, const ConvProblem& p, const float* shares, int64_t parts, void* dw);

}  // namespace ocl::ops
