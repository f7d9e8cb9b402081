// Elementwise operators and norms over lists of tensors. The tensors of a call have one floating dtype, and tensor i
// has the same dense memory layout in every list; the caller checks that.
#pragma once

#include "ops/foreach/multi_tensor.h"

namespace ocl::ops {

// Operators: out = f(a, b, c, s), one row of the table in foreach.cpp each. `inputs` of a, b, c are read.
enum class Foreach : uint8_t {
  add_scalar,
  sub_scalar,
  mul_scalar,
  div_scalar,
  clamp_min_scalar,
  clamp_max_scalar,
  pow_scalar,
  scalar_pow,  // a, s
  add,
  sub,
  mul,
  div,
  clamp_min,
  clamp_max,
  pow,  // a, b; add and sub scale b by s
  addcmul,
  addcdiv,
  lerp,
  lerp_scalar,  // a, b, c, s
  copy,
  fill,
  neg,
  abs,
  sign,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  exp,
  log,
  sigmoid,
  tanh,  // a
};

// Rows: data = {out, a, b, c}. Out may be one of the inputs. `scalar_address` (may be null): one element of `dtype` on
// the device that replaces the rows' scalars.
void foreach (Queue& queue, Foreach op, DType dtype, std::span<const MultiTensorRow> rows,
              const void* scalar_address = nullptr);

// Rows: data = {x, y}; *y = norm of x for order 0 (maximum magnitude), 1 or 2. y has dtype `y_dtype`; a row without
// elements is not written.
void foreach_norm(Queue& queue, int order, DType dtype, DType y_dtype, std::span<const MultiTensorRow> rows);

// Rows: data = {x}. x *= *inverse_scale, and *found_inf = 1 when an element of x is not finite (both float32 on the
// device).
void foreach_unscale(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const void* inverse_scale,
                     void* found_inf);

// One step of torch.amp.GradScaler: scale (float32) and growth_tracker (int32) from found_inf (float32).
void update_scale(Queue& queue, void* scale, void* growth_tracker, const void* found_inf, double growth, double backoff,
                  int64_t interval);

}  // namespace ocl::ops
