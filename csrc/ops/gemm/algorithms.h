// Inside the gemm family: one row per algorithm file, and the kernel arguments they share.
#pragma once

#include "ops/gemm/gemm.h"

namespace ocl::ops::gemm_detail {

// Mirrors gemm_arguments in kernels_cl/common/gemm.clh.
struct GemmArguments {
  int64_t m, n, k;
  MatrixStrides a, b, c, d;
  int32_t add, activation;

  explicit GemmArguments(const GemmProblem& p)
      : m(p.m), n(p.n), k(p.k), a(p.a), b(p.b), c(p.c), d(p.d), add(p.beta != 0.0), activation(static_cast<int32_t>(p.activation)) {}
};

inline const char* never(const GemmProblem&, const Device&) { return nullptr; }
inline size_t no_workspace(const GemmProblem&, const Device&) { return 0; }

// Real floating types, the half types as storage.
inline bool is_real_floating(DType dtype) { return is_floating(dtype) && !is_complex(dtype); }

extern const GemmAlgorithm skinny, bfloat16_pairs, prepacked, panel, simt, reference;
#if TORCH_OCL_CLBLAST
extern const GemmAlgorithm clblast;
#endif

}  // namespace ocl::ops::gemm_detail
