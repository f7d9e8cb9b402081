// Fourier transforms of whole lines in a task's cache, LANES lines at once, one in each lane of a vector: Stockham's
// passes over a scratch of
// points (real parts of LANES lines, then the imaginary ones), any radix. CPU kernels.
//   fft_lines    loads LANES lines, transforms them, stores them
//   fft_tangle   KIND 1: spectra (`points` of them) of real rows of length n from the transforms of rows of n / 2
//   complex numbers; KIND 2: the reverse. n is even.
//                grid: `per_row` pieces of `share` points for every row
// Only the forward transform is computed: the inverse one is that of numbers with real and imaginary parts exchanged,
// on the way in and out.
// Real rows of even length are complex ones of half of it, whose transform z holds the spectrum x, with w = exp(-2 pi i
// / n):
//   x[k] = (z[k] + conj z[n/2 - k]) / 2 - i w^k (z[k] - conj z[n/2 - k]) / 2
// defines: REAL (float32 or float64), KIND (0 complex to complex, 1 real to complex, 2 complex to real), X_ROWS and
// Y_ROWS (a line's points are neighbours there; else the lines' are), RADICES (bit r for passes of radix r, 2 to 8; bit
// 0 for any other radix: what a program has not, it need not compile)
#ifndef REAL
#define REAL float32
#define KIND 0
#define X_ROWS 1
#define Y_ROWS 1
#define RADICES 511
#endif
#include "params/fft.h"
#include "common/types.clh"

#define R VALUE(REAL)
// float32: registers of 32 bytes would have to hold twice as many vectors of 16 lanes as there are
#if NARROW_REGISTERS
#define LANES_float32 8
#else
#define LANES_float32 16
#endif
#define LANES_float64 8
#define LANES CAT(LANES_, REAL)
#define V VALUE_V(REAL, LANES)
#define LOAD_V(p) CAT(vload, LANES)(0, p)
#define STORE_V(v, p) CAT(vstore, LANES)(v, 0, p)
#define HALF (LANES / 2)

#include "common/transpose16.clh"
#include "common/transpose8.clh"
#define TRANSPOSE(r) CAT(TRANSPOSE, LANES)(V, r)

// ---- cos and sin of 2 pi i / n, 0 <= i < n, by Taylor's series on an eighth of a turn
#define INTEGER_float32 int
#define INTEGER_float64 long
#define INTEGER CAT(INTEGER_, REAL)
#define I CAT(INTEGER, LANES)
#define TO_I(v) CAT(convert_, I)(v)
#define TO_R(v) CAT(convert_, V)(v)
#define TERMS CAT(TERMS_, REAL)
#define TERMS_float32 5
#define TERMS_float64 9
#if LANES == 16
#define IOTA (I)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#else
#define IOTA (I)(0, 1, 2, 3, 4, 5, 6, 7)
#endif
static inline void turn(I i, long n, V* cosine, V* sine) {
  // quarters of a turn, to the nearest; the rest exactly, in units of 1 / 4n
  const I q = TO_I(TO_R(i) * ((R)4 / (R)n) + (R)0.5), rest = 4 * i - q * (I)n;
  const V angle = TO_R(rest) * ((R)1.57079632679489661923 / (R)n), square = angle * angle;
  V s = (V)0, c = (V)0;
#pragma unroll
  for (int t = TERMS; t > 0; --t) {
    s = (s + 1) * square * ((R)-1 / (R)(2 * t * (2 * t + 1)));
    c = (c + 1) * square * ((R)-1 / (R)(2 * t * (2 * t - 1)));
  }
  s = s * angle + angle;
  c = c + 1;
  const V first = (q & 1) != 0 ? s : c, second = (q & 1) != 0 ? c : s;
  *cosine = ((q + 1) & 2) != 0 ? -first : first;
  *sine = (q & 2) != 0 ? -second : second;
}

#include "fft/passes.clh"

// ---- between memory and scratch. `swap`: 1 exchanges real and imaginary parts.
// `points` complex numbers of every row, rows `stride` reals apart, of which `rows` exist.
static inline void load_rows(__global const R* restrict x, long stride, int rows, long points, __global V* restrict to,
                             int swap) {
  if (points < HALF) {
    for (long j = 0; j < points; ++j)
      for (int l = 0; l < LANES; ++l) {
        __global const R* from = x + MIN_OF(l, rows - 1) * stride + 2 * j;
        ((__global R*)(to + 2 * j + swap))[l] = from[0], ((__global R*)(to + 2 * j + 1 - swap))[l] = from[1];
      }
    return;
  }
  for (long j = 0; j < points; j += HALF) {
    j = MIN_OF(j, points - HALF);  // the last tile overlaps the one before
    V r[LANES];
#pragma unroll
    for (int l = 0; l < LANES; ++l) r[l] = LOAD_V(x + MIN_OF(l, rows - 1) * stride + 2 * j);
    TRANSPOSE(r)
#pragma unroll
    for (int p = 0; p < HALF; ++p) to[2 * (j + p) + swap] = r[2 * p], to[2 * (j + p) + 1 - swap] = r[2 * p + 1];
  }
}
static inline void store_rows(__global const V* restrict from, __global R* restrict y, long stride, int rows,
                              long points, int swap, R scale) {
  if (points < HALF) {
    for (long j = 0; j < points; ++j)
      for (int l = 0; l < rows; ++l) {
        __global R* to = y + l * stride + 2 * j;
        to[0] = scale * ((__global const R*)(from + 2 * j + swap))[l],
        to[1] = scale * ((__global const R*)(from + 2 * j + 1 - swap))[l];
      }
    return;
  }
  for (long j = 0; j < points; j += HALF) {
    j = MIN_OF(j, points - HALF);
    V r[LANES];
#pragma unroll
    for (int p = 0; p < HALF; ++p)
      r[2 * p] = scale * from[2 * (j + p) + swap], r[2 * p + 1] = scale * from[2 * (j + p) + 1 - swap];
    TRANSPOSE(r)
#pragma unroll
    for (int l = 0; l < LANES; ++l)
      if (l < rows) STORE_V(r[l], y + l * stride + 2 * j);
  }
}
#if KIND != 0
// Rows of an odd number of reals: one by one, since the passes take longer by far.
static inline void load_reals(__global const R* restrict x, long stride, int rows, long points,
                              __global V* restrict to) {
  for (long j = 0; j < points; ++j) {
    for (int l = 0; l < LANES; ++l) ((__global R*)(to + 2 * j))[l] = x[MIN_OF(l, rows - 1) * stride + j];
    to[2 * j + 1] = (V)0;
  }
}
static inline void store_reals(__global const V* restrict from, __global R* restrict y, long stride, int rows,
                               long points, R scale) {
  for (int l = 0; l < rows; ++l)
    for (long j = 0; j < points; ++j)
      y[l * stride + j] = scale * ((__global const R*)(from + 2 * j + 1))[l];  // parts exchanged
}
#endif

#if LANES == 16
#define SPLIT(a, b, re, im)                                                                      \
  re = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30); \
  im = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#define JOIN(re, im, a, b)                                                                     \
  a = __builtin_shufflevector(re, im, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23); \
  b = __builtin_shufflevector(re, im, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#define REVERSED(v) __builtin_shufflevector(v, v, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#else
#define SPLIT(a, b, re, im)                                      \
  re = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); \
  im = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#define JOIN(re, im, a, b)                                       \
  a = __builtin_shufflevector(re, im, 0, 8, 1, 9, 2, 10, 3, 11); \
  b = __builtin_shufflevector(re, im, 4, 12, 5, 13, 6, 14, 7, 15);
#define REVERSED(v) __builtin_shufflevector(v, v, 7, 6, 5, 4, 3, 2, 1, 0)
#endif

// Lines side by side: vectors of neighbours at every point.
static inline void load_columns(__global const R* restrict x, long stride, int columns, long points,
                                __global V* restrict to, int swap) {
  for (long j = 0; j < points; ++j) {
    __global const R* from = x + j * stride;
    if (columns == LANES) {
      const V a = LOAD_V(from), b = LOAD_V(from + LANES);
      V re, im;
      SPLIT(a, b, re, im)
      to[2 * j + swap] = re, to[2 * j + 1 - swap] = im;
    } else {
      for (int l = 0; l < LANES; ++l) {
        const int at = 2 * MIN_OF(l, columns - 1);
        ((__global R*)(to + 2 * j + swap))[l] = from[at], ((__global R*)(to + 2 * j + 1 - swap))[l] = from[at + 1];
      }
    }
  }
}
static inline void store_columns(__global const V* restrict from, __global R* restrict y, long stride, int columns,
                                 long points, int swap, R scale, long turns, long first) {
  for (long k = 0; k < points; ++k) {
    V re = scale * from[2 * k], im = scale * from[2 * k + 1];
    if (turns) {
      V c, s;
      turn((I)k * ((I)first + IOTA), turns, &c, &s);
      const V x = re;
      re = x * c + im * s, im = im * c - x * s;
    }
    __global R* to = y + k * stride;
    if (columns == LANES) {
      V a, b;
      const V x = swap ? im : re, z = swap ? re : im;
      JOIN(x, z, a, b)
      STORE_V(a, to);
      STORE_V(b, to + LANES);
    } else {
      R values[2 * LANES];
      STORE_V(re, values + LANES * swap), STORE_V(im, values + LANES * (1 - swap));
      for (int l = 0; l < columns; ++l) to[2 * l] = values[l], to[2 * l + 1] = values[LANES + l];
    }
  }
}

#if KIND != 0
// (z + conj t) / 2 -+ i w (z - conj t) / 2 for z = (zr, zi), t = (tr, ti), w = (c, -s): see above. SIGN -1 from z to
// the spectrum; +1 and w
// conjugate the other way, where the halves are left out.
static inline void tangle(V zr, V zi, V tr, V ti, V c, V s, V* re, V* im) {
  const V ar = zr + tr, ai = zi - ti, br = zr - tr, bi = zi + ti;
#if KIND == 1
  const R half_ = (R)0.5;
  *re = half_ * (ar + (bi * c - br * s)), *im = half_ * (ai - (br * c + bi * s));
#else
  *re = ar - (bi * c + br * s), *im = ai + (br * c - bi * s);
#endif
}
#endif

CPU_KERNEL void fft_lines(global const R* restrict x, global R* restrict y, global V* scratch, Lines p, R scale) {
  const long begin = get_global_id(0) * p.share, end = MIN_OF(begin + p.share, p.groups),
             per_outer = (p.lines + LANES - 1) / LANES;
  const long unit = p.n / p.m, table = (p.n + LANES - 1) / LANES;
  const int swap = (int)p.inverse;
  scratch += get_global_id(0) * p.scratch;
  __global R *cosines = (__global R*)scratch, *sines = cosines + table * LANES;
  for (long i = 0; i < p.n; i += LANES) {
    V c, s;
    turn((I)i + IOTA, p.n, &c, &s);
    STORE_V(c, cosines + i), STORE_V(s, sines + i);
  }
  __global V *one = scratch + 2 * table, *other = one + 2 * p.room;
  for (long g = begin; g < end; ++g) {
    const long o = g / per_outer, first = (g - o * per_outer) * LANES;
    const int lines = (int)MIN_OF((long)LANES, p.lines - first);
    __global const R* in = x + o * p.x.outer + first * p.x.line;
    __global R* out = y + o * p.y.outer + first * p.y.line;
    __global V *from = one, *to = other;
#if KIND == 0 && X_ROWS
    load_rows(in, p.x.line, lines, p.m, from, swap);
#elif KIND == 0
    load_columns(in, p.x.point, lines, p.m, from, swap);
#elif KIND == 1
    if (unit == 2)
      load_rows(in, p.x.line, lines, p.m, from, 0);
    else
      load_reals(in, p.x.line, lines, p.m, from);
#else
    load_rows(in, p.x.line, lines, p.points, from, 0);
    from[1] = (V)0;
    if (unit == 2) {
      from[2 * p.m + 1] = (V)0;
      for (long k = 0; k < p.m; ++k) {
        __global const V *z = from + 2 * k, *t = from + 2 * (p.m - k);
        V re, im;
        tangle(z[0], z[1], t[0], t[1], (V)cosines[k], (V)sines[k], &re, &im);
        to[2 * k] = im, to[2 * k + 1] = re;
      }
    } else {
      for (long k = 0; k < p.m; ++k) {
        const int mirrored = k > p.n / 2;
        __global const V* z = from + 2 * (mirrored ? p.n - k : k);
        to[2 * k] = mirrored ? -z[1] : z[1], to[2 * k + 1] = z[0];
      }
    }
    from = other, to = one;
#endif
    for (long i = 0, done = 1; i < p.passes; ++i) {
      const int radix = p.radix[i];
#define CASE(r) \
  case r: pass_##r(from, to, p.m, done, cosines, sines, unit); break;
      switch (radix) {
#if HAS(2)
        CASE(2)
#endif
#if HAS(3)
        CASE(3)
#endif
#if HAS(4)
        CASE(4)
#endif
#if HAS(5)
        CASE(5)
#endif
#if HAS(7)
        CASE(7)
#endif
#if HAS(8)
        CASE(8)
#endif
        default:
#if HAS(0)
          pass_any(from, to, p.m, done, radix, cosines, sines, unit);
#endif
          break;
      }
      done *= radix;
      __global V* last = from;
      from = to, to = last;
    }
#if KIND == 0 && Y_ROWS
    store_rows(from, out, p.y.line, lines, p.m, swap, scale);
#elif KIND == 0
    store_columns(from, out, p.y.point, lines, p.m, swap, scale, p.turns, first);
#elif KIND == 1
    if (unit == 2) {
      from[2 * p.m] = from[0], from[2 * p.m + 1] = from[1];
      for (long k = 0; k <= p.m; ++k) {
        __global const V *z = from + 2 * k, *t = from + 2 * (p.m - k);
        // k = m is half a turn
        const V c = k < p.m ? (V)cosines[k] : (V)-1, s = k < p.m ? (V)sines[k] : (V)0;
        V re, im;
        tangle(z[0], z[1], t[0], t[1], c, s, &re, &im);
        to[2 * k] = re, to[2 * k + 1] = im;
        if (p.points == p.n && 0 < k && k < p.m) to[2 * (p.n - k)] = re, to[2 * (p.n - k) + 1] = -im;
      }
      from = to;
    }
    store_rows(from, out, p.y.line, lines, p.points, 0, scale);
#else
    if (unit == 2)
      store_rows(from, out, p.y.line, lines, p.m, 1, scale);
    else
      store_reals(from, out, p.y.line, lines, p.n, scale);
#endif
  }
}

#if KIND != 0
CPU_KERNEL void fft_tangle(global const R* restrict x, global R* restrict y, long n, long points, long share,
                           long per_row) {
  const long m = n / 2, row = get_global_id(0) / per_row, begin = (get_global_id(0) - row * per_row) * share,
             end = MIN_OF(begin + share, m);
  __global const R* in = x + 2 * row * (KIND == 1 ? m : points);
  __global R* out = y + 2 * row * (KIND == 1 ? points : m);
  if (begin == 0) {
#if KIND == 1
    out[0] = in[0] + in[1], out[1] = 0, out[2 * m] = in[0] - in[1], out[2 * m + 1] = 0;
#else
    out[0] = in[0] + in[2 * m], out[1] = in[0] - in[2 * m];
#endif
  }
  for (long at = MAX_OF(begin, 1L); at < end; at += LANES) {
    const long k = MIN_OF(at, m - LANES);  // the last vector overlaps the one before; m > LANES
    const V a = LOAD_V(in + 2 * k), b = LOAD_V(in + 2 * k + LANES);
    const V e = LOAD_V(in + 2 * (m - k - LANES + 1)), f = LOAD_V(in + 2 * (m - k - LANES + 1) + LANES);
    V zr, zi, tr, ti, c, s, re, im, low, high;
    SPLIT(a, b, zr, zi)
    SPLIT(e, f, tr, ti)
    turn((I)k + IOTA, n, &c, &s);
    tangle(zr, zi, REVERSED(tr), REVERSED(ti), c, s, &re, &im);
    JOIN(re, im, low, high)
    STORE_V(low, out + 2 * k);
    STORE_V(high, out + 2 * k + LANES);
#if KIND == 1
    if (points == n) {
      JOIN(REVERSED(re), -REVERSED(im), low, high)
      STORE_V(low, out + 2 * (n - k - LANES + 1));
      STORE_V(high, out + 2 * (n - k - LANES + 1) + LANES);
    }
#endif
  }
}
#endif
