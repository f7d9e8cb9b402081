// Discrete Fourier transforms of any length.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

enum class FftKind : int { complex_to_complex, real_to_complex, complex_to_real };

// Lines of n points, `inner` of them side by side: dimension 1 of [outer, n, inner].
struct FftShape {
  int64_t outer, n, inner = 1;
  bool whole = false;  // real_to_complex: the whole transform, not its first half only
};

// Whether fft takes real rows and lines side by side on this device; else only complex_to_complex with inner = 1.
bool fft_takes_any_kind(const Device& device, int64_t n);

// y[b, k, i] = scale * sum over j of x[b, j, i] exp(-2 pi i j k / n), with exp(+...) when `inverse`.
// x, y: different, row-major [outer, n, inner] of `dtype` (complex64 or complex128).
// real_to_complex: x is real, y [outer, n / 2 + 1] the first half of the transform, [outer, n] where the shape says
// whole; inner is 1, `inverse` false. complex_to_real: x [outer, n / 2 + 1] is the first half of numbers whose
// transform y is real (imaginary parts of x[b, 0] and of x[b, n / 2], n even, do not count); inner is 1, `inverse`
// true. Stockham's self-sorting algorithm (after N. Govindaraju et al., "High performance discrete Fourier transforms
// on graphics processors", 2008): passes of radix 8 (CPU devices), 4, 2, 3, 5, 7 and one pass per larger prime factor p
// of n, which costs n p multiplications. On CPU devices sixteen lines (complex128: eight) go through all passes in a
// task's cache, one in each lane of a vector; long rows and few rows are cut into a matrix whose columns and rows are
// transformed (the four-step algorithm of D. Bailey, "FFTs in external or hierarchical memory", 1990). Errors:
// Unsupported when the device lacks float64.
void fft(Queue& queue, FftKind kind, DType dtype, const void* x, void* y, const FftShape& shape, bool inverse,
         double scale);

}  // namespace ocl::ops
