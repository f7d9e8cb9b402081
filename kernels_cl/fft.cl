// Stockham's Fourier transform of rows of n complex numbers: each pass combines RADIX transforms of length `done` to one of done * RADIX.
//   fft_twiddles   w[i] = exp(-2 pi i / n)
//   fft_pass       a work-item does whole butterflies of radix 2, 3, 4, 5 or 7
//   fft_pass_any   a work-item computes single outputs, any radix
// Element j of a row takes part in butterfly j mod n / radix; the last pass multiplies by `scale`.
#ifndef COMPLEX
#define COMPLEX complex64
#define REAL float32
#define RADIX 4
#endif
#include "common/types.clh"

#if DEVICE_FAT
#define TASK_KERNEL FAT_KERNEL
#else
#define TASK_KERNEL __kernel
#endif
#define C VALUE(COMPLEX)
#define R VALUE(REAL)

typedef struct {
  long n, done, radix, total, share, inverse;
} Pass;

inline C times(C a, C b) { return (C)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
inline C twiddle(__global const C* w, long i, long inverse) {
  const C value = w[i];
  return inverse ? (C)(value.x, -value.y) : value;
}

__kernel void fft_twiddles(TENSOR(C, w), long n) {
  OPEN(C, w);
  const long i = get_global_id(0), turns = 2 * i > n ? i - n : i;
  const R angle = (R)(2 * turns) / (R)n;  // of pi
  w[i] = (C)(cospi(angle), -sinpi(angle));
}

#if DEVICE_FAT
// Four neighbouring butterflies at once: vectors of four complex numbers.
#define R8 VALUE_V(REAL, 8)
#define TABLE (4096 / (int)sizeof(R))  // twiddles that a task keeps in 16 KiB, at most; p.share is a multiple of 4
inline R8 swapped(R8 a) { return a.s10325476; }
// b i for every number b = (re, im), or -b i
inline R8 turned(R8 b, long inverse) {
  const R8 sign = inverse ? (R8)(-1, 1, -1, 1, -1, 1, -1, 1) : (R8)(1, -1, 1, -1, 1, -1, 1, -1);
  return swapped(b) * sign;
}

inline void combine(R8* v, const C* roots, long inverse, R scale) {
#if RADIX == 2
  const R8 a = v[0], b = v[1];
  v[0] = scale * (a + b), v[1] = scale * (a - b);
#elif RADIX == 4
  const R8 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], e = turned(v[1] - v[3], inverse);
  v[0] = scale * (a + c), v[1] = scale * (b + e), v[2] = scale * (a - c), v[3] = scale * (b - e);
#else
  R8 out[RADIX];
#pragma unroll
  for (int r = 0; r < RADIX; ++r) {
    R8 sum = v[0];
#pragma unroll
    for (int q = 1; q < RADIX; ++q) {
      const C root = roots[q * r % RADIX];
      sum += v[q] * root.x + swapped(v[q]) * (R8)(-root.y, root.y, -root.y, root.y, -root.y, root.y, -root.y, root.y);
    }
    out[r] = scale * sum;
  }
#pragma unroll
  for (int r = 0; r < RADIX; ++r) v[r] = out[r];
#endif
}

// Butterflies begin to end, `done` a multiple of 4. cosines, sines: of turn r k / (RADIX done), each twice, sines as (-, +).
inline void pass_in_fours(__global const R* x, __global R* y, Pass p, long begin, long end, const C* roots, __local const R* cosines,
                          __local const R* sines, R scale) {
  const long step = p.n / RADIX;
  long row = begin / step, j = begin - row * step, k = j % p.done;
  for (long t = begin; t < end; t += 4) {
    __global const R* in = x + 2 * (row * p.n + j);
    __global R* out = y + 2 * (row * p.n + (j - k) * RADIX + k);
    R8 v[RADIX];
    v[0] = vload8(0, in);
#pragma unroll
    for (int r = 1; r < RADIX; ++r) {
      const R8 a = vload8(0, in + 2 * r * step);
      const long at = 2 * ((r - 1) * p.done + k);
      v[r] = a * vload8(0, cosines + at) + swapped(a) * vload8(0, sines + at);
    }
    combine(v, roots, p.inverse, scale);
#pragma unroll
    for (int r = 0; r < RADIX; ++r) vstore8(v[r], 0, out + 2 * r * p.done);
    j += 4, k += 4;
    if (k == p.done) {
      k = 0;
      if (j == step) j = 0, ++row;
    }
  }
}
#endif

TASK_KERNEL void fft_pass(TENSOR(const C, x), TENSOR(C, y), TENSOR(const C, w), Pass p, R scale) {
#if DEVICE_FAT
  __local R cosines[2 * TABLE], sines[2 * TABLE];
#endif
  OPEN_RESTRICT(const C, x);
  OPEN_RESTRICT(C, y);
  OPEN_RESTRICT(const C, w);
  const long step = p.n / RADIX, unit = step / p.done;
  const long begin = get_global_id(0) * p.share, end = MIN_OF(begin + p.share, p.total);
#if RADIX != 2 && RADIX != 4
  C roots[RADIX];
  for (int r = 0; r < RADIX; ++r) roots[r] = twiddle(w, r * step, p.inverse);
#endif
#if DEVICE_FAT
  if (p.done % 4 == 0 && (RADIX - 1) * p.done <= TABLE) {
#if RADIX == 2 || RADIX == 4
    const C* roots = 0;
#endif
    for (long k = 0; k < p.done; ++k)
      for (int r = 1; r < RADIX; ++r) {
        const C turn = twiddle(w, r * k * unit, p.inverse);
        const long at = 2 * ((r - 1) * p.done + k);
        cosines[at] = cosines[at + 1] = turn.x;
        sines[at] = -turn.y, sines[at + 1] = turn.y;
      }
    pass_in_fours((__global const R*)x, (__global R*)y, p, begin, end, roots, cosines, sines, scale);
    return;
  }
#endif
  // Divisions once only: they take longer than a butterfly.
  long row = begin / step, j = begin - row * step, k = j % p.done;
  for (long t = begin; t < end; ++t, ++j, ++k) {
    if (k == p.done) {
      k = 0;
      if (j == step) j = 0, ++row;
    }
    __global const C* in = x + row * p.n + j;
    __global C* out = y + row * p.n + (j - k) * RADIX + k;
    C v[RADIX];
    v[0] = in[0];
    for (int r = 1; r < RADIX; ++r) v[r] = times(in[r * step], twiddle(w, r * k * unit, p.inverse));
#if RADIX == 2
    out[0] = scale * (v[0] + v[1]);
    out[p.done] = scale * (v[0] - v[1]);
#elif RADIX == 4
    const C a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = v[1] - v[3];
    const C e = p.inverse ? (C)(-d.y, d.x) : (C)(d.y, -d.x);  // times -i, or i
    out[0] = scale * (a + c);
    out[p.done] = scale * (b + e);
    out[2 * p.done] = scale * (a - c);
    out[3 * p.done] = scale * (b - e);
#else
    for (int r = 0; r < RADIX; ++r) {
      C sum = v[0];
      for (int q = 1; q < RADIX; ++q) sum += times(v[q], roots[q * r % RADIX]);
      out[r * p.done] = scale * sum;
    }
#endif
  }
}

TASK_KERNEL void fft_pass_any(TENSOR(const C, x), TENSOR(C, y), TENSOR(const C, w), Pass p, R scale) {
  OPEN_RESTRICT(const C, x);
  OPEN_RESTRICT(C, y);
  OPEN_RESTRICT(const C, w);
  const long step = p.n / p.radix, unit = step / p.done;
  const long begin = get_global_id(0) * p.share, end = MIN_OF(begin + p.share, p.total);
  for (long t = begin; t < end; ++t) {
    const long row = t / p.n, rest = t - row * p.n, r = rest / step, j = rest - r * step, k = j % p.done;
    __global const C* in = x + row * p.n + j;
    const long turn = k * unit + r * step;  // < n
    C sum = in[0];
    for (long q = 1, at = turn; q < p.radix; ++q) {
      sum += times(in[q * step], twiddle(w, at, p.inverse));
      at += turn;
      at = at >= p.n ? at - p.n : at;
    }
    y[row * p.n + (j - k) * p.radix + k + r * p.done] = scale * sum;
  }
}
