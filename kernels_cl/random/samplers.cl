// Samplers whose use of random numbers varies from element to element. Element i takes its numbers from the counters
// (offset + i,
// stream 1, 2, ...); computed in double precision where the device has it. One work-item per element.
//   poisson     Knuth's product below rate 10, else PTRS (Hoermann 1993, "The transformed rejection method ...")
//   binomial    geometric jumps (Devroye 1986) below n p = 10, else BTRS (Hoermann 1993)
//   gamma       Marsaglia and Tsang 2000, with the boost for alpha < 1
//   cumulate, draw   multinomial with replacement: running sums of a row, then a binary search
#define ONE_LANE 1
#include "common/philox.clh"

#ifndef X_DTYPE
#define X_DTYPE float32
#endif
#if DEVICE_FP64
#define C_DTYPE float64
typedef double real;
#else
#define C_DTYPE float32
typedef float real;
#endif

typedef struct {
  ulong seed, counter, stream;
  uint words[4];
  int left;
} Source;

static inline Source source(ulong seed, ulong counter) {
  Source s = {seed, counter, 0, {0, 0, 0, 0}, 0};
  return s;
}
// (0, 1). The words are chosen by conditions: GPUs would keep an array that is indexed at run time in memory.
static inline real uniform(Source* s) {
  if (s->left == 0) {
    philox(s->seed, s->counter, ++s->stream, s->words);
    s->left = 4;
  }
#if DEVICE_FP64
  s->left -= 2;
  return s->left ? uniform_open64(s->words[2], s->words[3]) : uniform_open64(s->words[0], s->words[1]);
#else
  --s->left;
  const uint high = s->left == 3 ? s->words[3] : s->words[2], low = s->left == 1 ? s->words[1] : s->words[0];
  return uniform_open(s->left >= 2 ? high : low);
#endif
}
static inline real normal(Source* s) {
  const real u = uniform(s), v = uniform(s);
  return sqrt(-2 * log(u)) * cos((real)6.283185307179586 * v);
}

static inline real poisson_small(Source* s, real rate) {
  const real limit = exp(-rate);
  real product = uniform(s);
  int k = 0;
  while (product > limit && k < 1000) {
    product *= uniform(s);
    ++k;
  }
  return k;
}
static inline real poisson_large(Source* s, real rate) {
  const real slam = sqrt(rate), loglam = log(rate), b = (real)0.931 + (real)2.53 * slam,
             a = (real)-0.059 + (real)0.02483 * b;
  const real inverse_alpha = (real)1.1239 + (real)1.1328 / (b - (real)3.4), vr = (real)0.9277 - (real)3.6224 / (b - 2);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const real u = uniform(s) - (real)0.5, v = uniform(s), us = (real)0.5 - fabs(u),
               k = floor((2 * a / us + b) * u + rate + (real)0.43);
    if (us >= (real)0.07 && v <= vr) return k;
    if (k < 0 || (us < (real)0.013 && v > us)) continue;
    if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= k * loglam - rate - lgamma(k + 1)) return k;
  }
  return floor(rate);
}

static inline real binomial_small(Source* s, real count, real p) {
  const real scale = 1 / log1p(-p);
  real sum = 0;
  for (int k = 0; k < 1000; ++k) {
    sum += ceil(log(uniform(s)) * scale);
    if (sum > count) return k;
  }
  return floor(count * p);
}
// log(k!) minus Stirling's approximation.
static inline real stirling_tail(real k) {
  return lgamma(k + 1) - ((k + (real)0.5) * log(k + 1) - (k + 1) + (real)0.91893853320467274178);
}
static inline real binomial_large(Source* s, real count, real p) {
  const real spread = sqrt(count * p * (1 - p)), b = (real)1.15 + (real)2.53 * spread,
             a = (real)-0.0873 + (real)0.0248 * b + (real)0.01 * p;
  const real c = count * p + (real)0.5, vr = (real)0.92 - (real)4.2 / b, r = p / (1 - p),
             alpha = ((real)2.83 + (real)5.1 / b) * spread;
  const real m = floor((count + 1) * p);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const real u = uniform(s) - (real)0.5, us = (real)0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
    real v = uniform(s);
    if (us >= (real)0.07 && v <= vr) return k;
    if (k < 0 || k > count) continue;
    v = log(v * alpha / (a / (us * us) + b));
    real bound = (m + (real)0.5) * log((m + 1) / (r * (count - m + 1))) +
                 (count + 1) * log((count - m + 1) / (count - k + 1)) +
                 (k + (real)0.5) * log(r * (count - k + 1) / (k + 1));
// not unrolled: four copies of lgamma take more registers than a GPU has
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const real of = i < 2 ? m : k, tail = stirling_tail(i % 2 ? count - of : of);
      bound += i < 2 ? tail : -tail;
    }
    if (v <= bound) return k;
  }
  return m;
}
static inline real binomial_value(Source* s, real count, real p) {
  if (isnan(count) || isnan(p)) return NAN;
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  const real q = p > (real)0.5 ? 1 - p : p;
  const real k = count * q < 10 ? binomial_small(s, count, q) : binomial_large(s, count, q);
  return p > (real)0.5 ? count - k : k;
}

static inline real gamma_value(Source* s, real alpha) {
  real scale = 1;
  if (alpha == 0) return 0;
  if (alpha < 1) {
    scale = pow(uniform(s), 1 / alpha);
    alpha += 1;
  }
  const real d = alpha - (real)1 / 3, c = 1 / sqrt(9 * d);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const real x = normal(s), y = 1 + c * x;
    if (y <= 0) continue;
    const real v = y * y * y, u = uniform(s), xx = x * x;
    if (u < 1 - (real)0.0331 * xx * xx || log(u) < (real)0.5 * xx + d * (1 - v + log(v))) return scale * d * v;
  }
  return scale * d;
}

#define VALUE_poisson(s, a, b) \
  ((a) == 0 ? (real)0 : !((a) > 0) ? (real)NAN : (a) < 10 ? poisson_small(s, a) : poisson_large(s, a))
#define VALUE_binomial(s, a, b) binomial_value(s, a, b)
#define VALUE_gamma(s, a, b) fmax(gamma_value(s, a), (real)1.17549435e-38f)
#ifndef SAMPLER
#define SAMPLER poisson
#endif

// b repeats a where the distribution has one parameter.
kernel void sample(global const STORAGE(X_DTYPE) * a, global const STORAGE(X_DTYPE) * b, global STORAGE(X_DTYPE) * y,
                   long n, ulong seed, ulong offset) {
  for (long i = get_global_id(0); i < n; i += get_global_size(0)) {
    Source s = source(seed, offset + i);
    const real p0 = LOAD(X_DTYPE, C_DTYPE, a, i), p1 = LOAD(X_DTYPE, C_DTYPE, b, i);
    const real v = CAT(VALUE_, SAMPLER)(&s, p0, p1);
    STORE(X_DTYPE, C_DTYPE, y, i, v);
  }
}

kernel void cumulate(global const STORAGE(X_DTYPE) * weights, global real* sums, long rows, long categories) {
  for (long row = get_global_id(0); row < rows; row += get_global_size(0)) {
    real sum = 0;
    for (long j = 0; j < categories; ++j) {
      sum += LOAD(X_DTYPE, C_DTYPE, weights, row * categories + j);
      sums[row * categories + j] = sum;
    }
  }
}

// The first category whose running sum exceeds u * total; categories of weight zero are never drawn.
kernel void draw(global const real* sums, global long* samples, long rows, long categories, long count, ulong seed,
                 ulong offset) {
  for (long i = get_global_id(0); i < rows * count; i += get_global_size(0)) {
    __global const real* row = sums + i / count * categories;
    Source s = source(seed, offset + i);
    const real target = uniform(&s) * row[categories - 1];
    long low = 0, high = categories - 1;
    while (low < high) {
      const long middle = (low + high) / 2;
      if (row[middle] > target)
        high = middle;
      else
        low = middle + 1;
    }
    samples[i] = low;
  }
}
