// Inside the gemm family: one row per algorithm file, and the kernel arguments they share.
#pragma once

#include "ops/gemm/gemm.h"
#include "ops/gemm/panel_plan.h"
#include "params/gemm.h"

#include <utility>

namespace ocl::ops::gemm_detail {

using params::GemmArguments;

inline GemmArguments gemm_arguments(const GemmProblem& p) {
  return {p.m,
          p.n,
          p.k,
          p.a[0],
          p.a[1],
          p.a[2],
          p.b[0],
          p.b[1],
          p.b[2],
          p.c[0],
          p.c[1],
          p.c[2],
          p.d[0],
          p.d[1],
          p.d[2],
          p.beta != 0.0,
          static_cast<int32_t>(p.activation)};
}

inline GemmPlan refused(const char* reason) {
  GemmPlan plan;
  plan.refusal = reason;
  return plan;
}

// Real floating types, the half types as storage.
inline bool is_real_floating(DType dtype) { return is_floating(dtype) && !is_complex(dtype); }

// c^T = b^T a^T.
inline GemmProblem transpose(GemmProblem p) {
  std::swap(p.m, p.n);
  std::swap(p.a, p.b);
  for (MatrixStrides* strides : {&p.a, &p.b, &p.c, &p.d}) std::swap((*strides)[1], (*strides)[2]);
  return p;
}

// Whether the transposed problem is the one with at most `few` rows.
inline bool has_few_columns(const GemmProblem& p, int64_t few) { return p.m > few && p.n <= few; }

extern const GemmAlgorithm columns, skinny, bfloat16_pairs, deep_panel, panel, tensor_cores, simt, reference;
#if TORCH_OCL_CLBLAST
extern const GemmAlgorithm clblast;
#endif

// Whether bfloat16_pairs would take the problem where no algorithm before it does.
bool multiplies_pairs(const GemmProblem& p, const PlanTarget& target);

// The same product by a kernel that makes the panels of b itself, out of units of `unit` (a multiple of 32, at most
// 256) elements of k: tile and split of the launch, and the bytes of its carry.
struct UnpackedPanels {
  PanelTile tile;
  PanelSplit split;
  size_t carry_bytes;
};
UnpackedPanels plan_unpacked(const GemmProblem& p, const PlanTarget& target, int64_t unit);
PanelPlan panel_plan(const GemmProblem& p, const PanelSplit& split, const void* carry);

}  // namespace ocl::ops::gemm_detail
