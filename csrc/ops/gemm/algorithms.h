// Inside the gemm family: one row per algorithm file, and the kernel arguments they share.
#pragma once

#include "ops/gemm/gemm.h"
#include "ops/gemm/panel_plan.h"

#include <utility>

namespace ocl::ops::gemm_detail {

// Mirrors gemm_arguments in kernels_cl/gemm/gemm.clh.
struct GemmArguments {
  int64_t m, n, k;
  MatrixStrides a, b, c, d;
  int32_t add, activation;

  explicit GemmArguments(const GemmProblem& p)
      : m(p.m),
        n(p.n),
        k(p.k),
        a(p.a),
        b(p.b),
        c(p.c),
        d(p.d),
        add(p.beta != 0.0),
        activation(static_cast<int32_t>(p.activation)) {}
};

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
