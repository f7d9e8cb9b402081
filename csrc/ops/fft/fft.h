// Discrete Fourier transforms of any length.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// y[b, k] = scale * sum over j of x[b, j] exp(-2 pi i j k / n), with exp(+...) when `inverse`.
// x, y: different, row-major [batch, n] of `dtype` (complex64 or complex128).
// Stockham's self-sorting algorithm, passes of radix 4, 2, 3, 5, 7 and one pass per larger prime factor p of n, which costs n p
// multiplications (after N. Govindaraju et al., "High performance discrete Fourier transforms on graphics processors", 2008).
// Errors: std::runtime_error when the device lacks float64.
void fft(Queue& queue, DType dtype, const void* x, void* y, int64_t batch, int64_t n, bool inverse, double scale);

}  // namespace ocl::ops
