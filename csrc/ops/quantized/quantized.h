// Products with matrices whose weights stay quantised: y = x W^T + bias. How codes are stored:
// kernels_cl/quantized/codes.clh.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

enum class WeightFormat : int32_t { int8, float8, int4, nf4, fp4 };

// Bytes of a row of k codes: whole blocks of 32.
int64_t code_bytes(WeightFormat format, int64_t k);

// W [n, k]: weight = value(code) * scale + offset. Owns nothing.
struct QuantizedMatrix {
  WeightFormat format = WeightFormat::int8;
  const void* codes = nullptr;  // n rows, `pitch` bytes apart: code_bytes(format, k), or k where a code is a byte
  int64_t n = 0, k = 0, pitch = 0;
  int64_t group = 0;           // neighbours of a row that share a scale: a multiple of 32, or at least k
  TensorView scales, offsets;  // [n, groups] of any strides, one dtype: float32, float16 or bfloat16; no offsets: null
};

// y [m, n] (contiguous) = x [m, k] W^T + bias [n] (null data: none). One dtype, float32, float16 or bfloat16; the last
// dimension of x is dense. Sums are float32. Few rows are multiplied by the codes as they are read; more by gemm with a
// part of W at a time made numbers of x's dtype. Errors: InvalidArgument for other shapes and types.
void quantized_product(Queue& queue, const TensorView& x, const QuantizedMatrix& w, const TensorView& bias,
                       const TensorView& y);

// out [n, k], contiguous: the weights as numbers of out's dtype.
void unpack(Queue& queue, const QuantizedMatrix& w, const TensorView& out);

}  // namespace ocl::ops
