// Fourier transforms on CPU devices: kernels_cl/fft/lines.cpu.cl.
#pragma once

#include "ops/fft/fft.h"

#include <vector>

namespace ocl::ops::fft_detail {

// Radices whose product is n, in the order of their passes; empty for n = 1. `eights`: with radix 8.
std::vector<int64_t> factors_of(int64_t n, bool eights);

// As fft(), whose checks have been made.
void lines(Queue& queue, FftKind kind, DType dtype, const void* x, void* y, const FftShape& shape, bool inverse,
           double scale);

}  // namespace ocl::ops::fft_detail
