// Composite operators whose code in ATen reads or writes the elements through a host pointer. The dispatcher would run
// it on tensors of any device: on memory that the host shares before the queue has got there, and on other memory into
// an access violation. They run on the CPU like operators without a kernel, which waits for the queue.
//
// How to find them: python -m tests.python.registered --composites, which treats memory as the device's own.
#include "torch/aten/fallback.h"

#include <torch/library.h>

namespace ocl::aten {

namespace {

// Names that a version of PyTorch does not have are never called.
constexpr const char* kReadOnHost[] = {
    "_saturate_weight_to_fp16",
    "_sobol_engine_draw",
    "_sobol_engine_ff_",
    "_sobol_engine_initialize_state_",
    "_sobol_engine_scramble_",
    "choose_qparams_optimized",
    "fbgemm_linear_fp16_weight",
    "fbgemm_linear_fp16_weight_fp32_activation",
    "fbgemm_linear_int8_weight",
    "fbgemm_linear_int8_weight_fp32_activation",
    "fbgemm_linear_quantize_weight",
    "fbgemm_pack_gemm_matrix_fp16",
    "fbgemm_pack_quantized_matrix",
    "fbgemm_pack_quantized_matrix.KN",
    "range.out_",
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : kReadOnHost) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace ocl::aten
