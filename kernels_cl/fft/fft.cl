// Stockham's Fourier transform of rows of n complex numbers: each pass combines RADIX transforms of length `done` to
// one of done * RADIX.
//   fft_twiddles   w[i] = exp(-2 pi i / n)
//   fft_pass       a work-item does a butterfly of radix 2, 3, 4, 5 or 7
//   fft_pass_any   a work-item computes one output, any radix
// Element j of a row takes part in butterfly j mod n / radix; the last pass multiplies by `scale`.
#ifndef COMPLEX
#define COMPLEX complex64
#define REAL float32
#define RADIX 4
#endif
#include "params/fft.h"
#include "common/types.clh"

#define C VALUE(COMPLEX)
#define R VALUE(REAL)

static inline C times(C a, C b) { return (C)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
static inline C twiddle(__global const C* w, long i, long inverse) {
  const C value = w[i];
  return inverse ? (C)(value.x, -value.y) : value;
}

kernel void fft_twiddles(global C* w, long n) {
  const long i = get_global_id(0), turns = 2 * i > n ? i - n : i;
  const R angle = (R)(2 * turns) / (R)n;  // of pi
  w[i] = (C)(cospi(angle), -sinpi(angle));
}

kernel void fft_pass(global const C* restrict x, global C* restrict y, global const C* restrict w, Pass p, R scale) {
  const long step = p.n / RADIX, unit = step / p.done;
  const long t = get_global_id(0), row = t / step, j = t - row * step, k = j % p.done;
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
  C roots[RADIX];
  for (int r = 0; r < RADIX; ++r) roots[r] = twiddle(w, r * step, p.inverse);
  for (int r = 0; r < RADIX; ++r) {
    C sum = v[0];
    for (int q = 1; q < RADIX; ++q) sum += times(v[q], roots[q * r % RADIX]);
    out[r * p.done] = scale * sum;
  }
#endif
}

kernel void fft_pass_any(global const C* restrict x, global C* restrict y, global const C* restrict w, Pass p,
                         R scale) {
  const long step = p.n / p.radix, unit = step / p.done;
  const long t = get_global_id(0), row = t / p.n, rest = t - row * p.n, r = rest / step, j = rest - r * step,
             k = j % p.done;
  __global const C* in = x + row * p.n + j;
  const long turn = k * unit + r * step;  // < n
  C sum = (C)0;
  for (long q = 0, at = 0; q < p.radix;) {  // sums of sums: a prime's many terms would lose digits
    C part = (C)0;
    for (const long last = MIN_OF(q + 32, p.radix); q < last; ++q) {
      part += times(in[q * step], twiddle(w, at, p.inverse));
      at += turn;
      at = at >= p.n ? at - p.n : at;
    }
    sum += part;
  }
  y[row * p.n + (j - k) * p.radix + k + r * p.done] = scale * sum;
}
