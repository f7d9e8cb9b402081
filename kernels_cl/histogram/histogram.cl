// partial[task][bin] += 1, or the weight, for the elements of a chunk; the partial counts are summed by a reduction.
//   IN       dtype of x;  COUNT: dtype of the partial counts;  WEIGHTED, BY_VALUE (the bin is the element itself)
//   PARAM    dtype of low and high: int64 for whole numbers
// GPU counts without weights: work-items share `copies` histograms by atomic increments, which commute.
#include "common/types.clh"

#ifndef IN
#define IN float32
#define COUNT int32
#define PARAM float32
#define WEIGHTED 0
#define BY_VALUE 0
#endif

TASK_KERNEL void histogram(global const STORAGE(IN) * x, global const STORAGE(COUNT) * weights,
                           global STORAGE(COUNT) * partial, long n, long bins, long chunk, long copies,
                           VALUE(PARAM) low, VALUE(PARAM) high) {
  const long task = get_global_id(0), begin = task * chunk, end = MIN_OF(begin + chunk, n);
  partial += task % copies * bins;
  for (long i = begin; i < end; ++i) {
    const VALUE(IN) v = LOAD(IN, IN, x, i);
#if BY_VALUE
    const long bin = (long)v;
    if (bin < 0 || bin >= bins) continue;
#elif !IS_FLOATING(IN)
    if ((long)v < low || (long)v > high) continue;
    const long bin = MIN_OF(((long)v - low) * bins / (high - low), bins - 1);
#else
    if (!(v >= low && v <= high)) continue;
    const long bin = MIN_OF((long)((v - low) / (high - low) * bins), bins - 1);
#endif
#if WEIGHTED
    partial[bin] += weights[i];
#elif CPU_STYLE
    ++partial[bin];
#else
    atomic_inc((volatile __global int*)partial + bin);
#endif
  }
}
