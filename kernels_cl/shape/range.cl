// Progressions (csrc/ops/shape/shape.h): KIND 0 arange, 1 linspace, 2 logspace. C is the type of the arithmetic: int64,
// float64 or float32.
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef C
#define C float32
#endif
#ifndef KIND
#define KIND 0
#endif
#define V VALUE(C)

TASK_KERNEL void progression(global STORAGE(D) * out, V start, V step, V end, V base, long n, long block) {
  const long from = (long)get_global_id(0) * block, to = MIN_OF(from + block, n);
  for (long i = from; i < to; ++i) {
#if KIND == 0
    const V value = start + step * (V)i;
#else
    V value = i < n / 2 ? start + step * (V)i : end - step * (V)(n - 1 - i);
#if KIND == 2
    value = pow(base, value);
#endif
#endif
    STORE(D, C, out, i, value);
  }
}
