// Random numbers: fills, Bernoulli, dropout, permutations, sampling. All numbers come from Philox4x32-10 at (seed,
// offset): a call uses the counters offset .. offset + random_counters(...) - 1 and depends on nothing else, so that
// both kernel styles and any number of work-items give the same numbers (transcendental functions aside: to rounding).
// Tensors are dense and are filled in memory order; strides are ignored.
#pragma once

#include "ops/core/context.h"

#include <array>

namespace ocl::ops {

struct Philox {
  RandomSeed seed;
  uint64_t offset = 0;
};

// The generator itself (Salmon et al. 2011), 10 rounds; the same on host and device.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Counters to reserve for `numel` elements of any operator of this file, one Philox counter per element at most.
uint64_t random_counters(int64_t numel);

enum class Distribution {
  uniform,      // [p0, p1)
  normal,       // mean p0, standard deviation p1
  log_normal,   // exp(normal(p0, p1))
  exponential,  // rate p0; positive
  cauchy,       // median p0, scale p1
  geometric,    // trials until the first success of probability p0: 1, 2, ...
};

// y: any real type for geometric, floating types for the others. float64 uses 53 random bits, the other types 24
// (float16 and bfloat16: as many as they can hold, so that a uniform number never rounds up to p1).
void fill_random(Queue& queue, Distribution distribution, const TensorView& y, double p0, double p1, Philox state);
// Integers of [from, from + range), converted to y's type; range 0 means 2^64.
void fill_random_integers(Queue& queue, const TensorView& y, int64_t from, uint64_t range, Philox state);
// y = 1 with probability p, else 0; y of any type. p in [0, 1].
void fill_bernoulli(Queue& queue, const TensorView& y, double p, Philox state);
// p: floating, one probability per element.
void fill_bernoulli(Queue& queue, const TensorView& y, const TensorView& p, Philox state);

// mask = keep with probability 1 - p (boolean), y = x * mask / (1 - p); p == 1 gives zeros. x and y of one floating
// type.
void dropout(Queue& queue, const TensorView& x, const TensorView& y, const TensorView& mask, double p, Philox state);
// dx = dy * mask * scale
void dropout_backward(Queue& queue, const TensorView& dy, const TensorView& mask, const TensorView& dx, double scale);

// One number per element from parameters given per element (all tensors contiguous, of one floating type).
void fill_poisson(Queue& queue, const TensorView& rate, const TensorView& y, Philox state);
void fill_binomial(Queue& queue, const TensorView& count, const TensorView& probability, const TensorView& y,
                   Philox state);
void fill_standard_gamma(Queue& queue, const TensorView& alpha, const TensorView& y, Philox state);

// weights: [rows, categories], floating, contiguous, non-negative; samples: int64 [rows, count], drawn with
// replacement.
void multinomial_with_replacement(Queue& queue, const TensorView& weights, const TensorView& samples, Philox state);

// A permutation of 0 .. n-1 (Fisher and Yates), made on the host.
void random_permutation(int64_t* out, int64_t n, Philox state);

}  // namespace ocl::ops
