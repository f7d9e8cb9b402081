// What the gemm algorithms made of work-groups share: slices of k, for small c and long k (kernels_cl/gemm/slices.clh).
#pragma once

#include "ops/gemm/algorithms.h"
#include "params/gemm.h"

namespace ocl::ops::gemm_detail {

using params::SlicePlan;

// As many slices of at least 256 steps as keep the device busy, when c has tiles of tile_m x tile_n.
SlicePlan plan_slices(const GemmProblem& p, const PlanTarget& target, int tile_m, int tile_n);
size_t slices_workspace(const GemmProblem& p, const SlicePlan& plan);

// One launch of a kernel over the tiles of c and its slices; where there are several, `partial` is their sums and
// another launch adds them. `local`: the kernel's group, of which there is one per tile.
void run_slices(Queue& queue, Kernel& kernel, const GemmProblem& p, const GemmOperands& o, const SlicePlan& plan,
                int tile_m, int tile_n, const Range& local, void* partial);

}  // namespace ocl::ops::gemm_detail
