// Products with matrices whose weights stay quantised: y = x W^T + bias. How codes are stored:
// kernels_cl/quantized/codes.clh.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// Those from q8_0 on are blocks of GGUF files, which hold their scales (kernels_cl/quantized/blocks.clh).
enum class WeightFormat : int32_t { int8, float8, int4, nf4, fp4, bnb_fp4, q8_0, q4_0, q4_k, q6_k };

inline bool has_blocks(WeightFormat format) { return format >= WeightFormat::q8_0; }

// Bytes of a row of k codes: whole units of 32 (Q4_K and Q6_K: 256).
int64_t code_bytes(WeightFormat format, int64_t k);

// W [n, k]: weight = value(code) * scale + offset. Owns nothing.
struct QuantizedMatrix {
  WeightFormat format = WeightFormat::int8;
  const void* codes = nullptr;  // n rows, `pitch` bytes apart: code_bytes(format, k), or k where a code is a byte
  int64_t n = 0, k = 0, pitch = 0;
  int64_t group = 0;           // neighbours of a row that share a scale: a multiple of 32, or at least k
  TensorView scales, offsets;  // [n, groups] of any strides, one dtype: float32, float16 or bfloat16; no offsets: null
                               // Blocks have neither; their rows are whole blocks, and group is not read.
};

// y [m, n] (contiguous) = x [m, k] W^T + bias [n] (null data: none). One dtype, float32, float16 or bfloat16; the last
// dimension of x is dense. Sums are float32. Few rows are multiplied by the codes as they are read; more by gemm with a
// part of W at a time made numbers of x's dtype. Errors: InvalidArgument for other shapes and types.
void quantized_product(Queue& queue, const TensorView& x, const QuantizedMatrix& w, const TensorView& bias,
                       const TensorView& y);

// out [n, k], contiguous: the weights as numbers of out's dtype.
void unpack(Queue& queue, const QuantizedMatrix& w, const TensorView& out);

}  // namespace ocl::ops
