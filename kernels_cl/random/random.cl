// Random fills of n contiguous elements from Philox counters offset, offset + 1, ... (common/philox.clh). A counter
// gives WORDS
// elements: 4, or 2 where an element needs 64 bits.
//   fill               y = TRANSFORM(z, p0, p1, p2), z from SOURCE: 0 uniform [0, 1), 1 uniform (0, 1), 2 standard
//   normal
//   integers           y = from + floor(w * range / 2^bits); WORDS 2: 64-bit words, range 0 means 2^64
//   bernoulli          y = w < threshold or all
//   bernoulli_tensor   y = u < p[i]
//   dropout            mask as bernoulli, y = x * (mask ? scale : 0)
//   dropout_backward   dx = dy * mask * scale
// Fat: a work-item takes `counters` consecutive counters (a multiple of 16). GPU: work-items stride over the counters.
#include "common/philox.clh"

#ifndef X_DTYPE
#define X_DTYPE float32
#endif
#ifndef C_DTYPE
#define C_DTYPE float32
#endif
#ifndef P_DTYPE
#define P_DTYPE float32
#endif
#ifndef WORDS
#define WORDS 4
#endif
#ifndef SOURCE
#define SOURCE 0
#endif
#ifndef UNIFORM_BITS
#define UNIFORM_BITS 24
#endif
#ifndef TRANSFORM
#define TRANSFORM(z, p0, p1, p2) (z)
#endif

#define REAL VALUE(C_DTYPE)
#define REALS LANES_OF(C_DTYPE)
#define GROUPS ((n + 16 * WORDS - 1) / (16 * WORDS))
#define POSITION(c, k) (((c) / 16 * WORDS + (k)) * 16 + (c) % 16)

#if CPU_STYLE
#define FOR_COUNTERS(c)                                                          \
  const long end_ = MIN_OF(GROUPS * 16, (long)(get_group_id(0) + 1) * counters); \
  for (long c = (long)get_group_id(0) * counters; c < end_; c += 16)
#define GET(D, C, p, i) GET_LANES(D, C, p, i)
#else
#define FOR_COUNTERS(c) for (long c = get_global_id(0); c < GROUPS * 16; c += get_global_size(0))
#define GET(D, C, p, i) GET_LANES(D, C, p, MIN_OF(i, n - 1))
#endif

#ifdef FILL
static inline void random_values(const UINT* w, REALS* z) {
#if WORDS == 4
  for (int k = 0; k < 4; ++k) {
#if SOURCE == 0
    z[k] = uniform_bits(w[k], UNIFORM_BITS);
#elif SOURCE == 1
    z[k] = uniform_open(w[k]);
#endif
  }
#if SOURCE == 2
  philox_normal(w[0], w[1], &z[0], &z[1]);
  philox_normal(w[2], w[3], &z[2], &z[3]);
#endif
#elif DEVICE_FP64
#if SOURCE == 0
  z[0] = uniform_closed64(w[0], w[1]);
  z[1] = uniform_closed64(w[2], w[3]);
#elif SOURCE == 1
  z[0] = uniform_open64(w[0], w[1]);
  z[1] = uniform_open64(w[2], w[3]);
#else
  philox_normal64(w, &z[0], &z[1]);
#endif
#endif
}

TASK_KERNEL void fill(global STORAGE(X_DTYPE) * y, long n, long counters, ulong seed, ulong offset, REAL p0, REAL p1,
                      REAL p2) {
  FOR_COUNTERS(c) {
    UINT w[4];
    REALS z[WORDS];
    philox(seed, offset + c, 0, w);
    random_values(w, z);
    for (int k = 0; k < WORDS; ++k) {
      const REALS v = TRANSFORM(z[k], p0, p1, p2);
      PUT_LANES(X_DTYPE, C_DTYPE, y, POSITION(c, k), n, v);
    }
  }
}
#endif

#ifdef INTEGERS
TASK_KERNEL void integers(global STORAGE(X_DTYPE) * y, long n, long counters, ulong seed, ulong offset, long from,
                          ulong range) {
  FOR_COUNTERS(c) {
    UINT w[4];
    philox(seed, offset + c, 0, w);
    for (int k = 0; k < WORDS; ++k) {
#if WORDS == 4
      const ULONG r = (TO_ULONG(w[k]) * range) >> 32;
#else
      const ULONG all = (TO_ULONG(w[2 * k]) << 32) | TO_ULONG(w[2 * k + 1]);
      const ULONG r = range == 0 ? all : mul_hi(all, (ULONG)range);
#endif
#if CPU_STYLE
      const long16 v = as_long16(r) + from;
#else
      const long v = as_long(r) + from;
#endif
      PUT_LANES(X_DTYPE, int64, y, POSITION(c, k), n, v);
    }
  }
}
#endif

#ifdef BERNOULLI
TASK_KERNEL void bernoulli(global STORAGE(X_DTYPE) * y, long n, long counters, ulong seed, ulong offset, uint threshold,
                           int all) {
  FOR_COUNTERS(c) {
    UINT w[4];
    philox(seed, offset + c, 0, w);
    for (int k = 0; k < 4; ++k) {
      const INT v = TRUTH(w[k] < threshold) | all;
      PUT_LANES(X_DTYPE, int32, y, POSITION(c, k), n, v);
    }
  }
}
#endif

#ifdef BERNOULLI_TENSOR
TASK_KERNEL void bernoulli_tensor(global const STORAGE(P_DTYPE) * p, global STORAGE(X_DTYPE) * y, long n, long counters,
                                  ulong seed, ulong offset) {
  FOR_COUNTERS(c) {
    UINT w[4];
    philox(seed, offset + c, 0, w);
    for (int k = 0; k < 4; ++k) {
      const long i = POSITION(c, k);
      const INT v = i < n ? TRUTH(uniform_closed(w[k]) < GET(P_DTYPE, float32, p, i)) : (INT)0;
      PUT_LANES(X_DTYPE, int32, y, i, n, v);
    }
  }
}
#endif

#ifdef DROPOUT
TASK_KERNEL void dropout(global const STORAGE(X_DTYPE) * x, global STORAGE(X_DTYPE) * y, global uchar* mask, long n,
                         long counters, ulong seed, ulong offset, uint threshold, int all, REAL scale) {
  FOR_COUNTERS(c) {
    UINT w[4];
    philox(seed, offset + c, 0, w);
    for (int k = 0; k < 4; ++k) {
      const long i = POSITION(c, k);
      if (i >= n) break;
      const INT keep = TRUTH(w[k] < threshold) | all;
#if CPU_STYLE
      const REALS factor = CONVERTV(C_DTYPE, int32, 16, keep) * scale;
#else
      const REAL factor = keep * scale;
#endif
      const REALS v = GET(X_DTYPE, C_DTYPE, x, i) * factor;
      PUT_LANES(X_DTYPE, C_DTYPE, y, i, n, v);
      PUT_LANES(uint8, int32, mask, i, n, keep);
    }
  }
}

TASK_KERNEL void dropout_backward(global const STORAGE(X_DTYPE) * dy, global const uchar* mask,
                                  global STORAGE(X_DTYPE) * dx, long n, long counters, REAL scale) {
  FOR_COUNTERS(c) {
    for (int k = 0; k < 4; ++k) {
      const long i = POSITION(c, k);
      if (i >= n) break;
      const REALS factor = GET(uint8, C_DTYPE, mask, i) * scale;
      const REALS v = GET(X_DTYPE, C_DTYPE, dy, i) * factor;
      PUT_LANES(X_DTYPE, C_DTYPE, dx, i, n, v);
    }
  }
}
#endif
