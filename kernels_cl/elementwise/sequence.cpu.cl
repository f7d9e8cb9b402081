// Elementwise operators one after another over the same n elements, PART of them at a time, which stay in the cache
// meanwhile (ops/elementwise/sequence.h). CPU devices whose kernels run on threads of this process only: addresses are
// the host's.
// Defines: X_DTYPE, what is stored, computed as float32; OPERATORS: EACH(operator, inputs,
// scalars, expression) of all, expressions as in elementwise/elementwise.clh.
#ifndef OPERATORS
#define X_DTYPE float32
#define OPERATORS EACH(0, 2, 0, a + b) EACH(1, 1, 1, a* s0)
#endif
#include "params/elementwise.h"
#include "common/types.clh"

#pragma OPENCL FP_CONTRACT OFF

#define COMPUTE float32
#define W 16
#define T VALUE_V(COMPUTE, W)
#define S VALUE(COMPUTE)
#include "common/vector_math.clh"

#define PART 1024

#define STORED(k) ((__global const STORAGE(X_DTYPE)*)(size_t)step.x[k])
#define KEPT(k) (T)(step.x[k] != 0 && !(step.advances >> k & 1) ? LOAD(X_DTYPE, COMPUTE, STORED(k), 0) : step.value[k])
#define NEXT(k, inputs) ((inputs) > k ? LOADV(X_DTYPE, COMPUTE, W, STORED(k), i) : (T)0)
#define INPUT(k, inputs, kept) \
  ((inputs) > k && (step.advances >> k & 1) ? LOADV(X_DTYPE, COMPUTE, W, STORED(k), i) : kept)
#define SCALAR(k, scalars) (T)((scalars) > k ? step.scalar[k] : 0)
// Whole vectors of operands that advance all, or of a first one and a number, have loops of their own, without any
// question.
#define WHOLE_VECTORS_OF(A, B, C, expression)        \
  for (; i + W <= part_end; i += W) {                \
    const T a = A, b = B, c = C;                     \
    STOREV(X_DTYPE, COMPUTE, W, y, i, (expression)); \
  }
// Inputs may be read past their end, the output is not written there.
#define EACH(which, inputs, scalars, expression)                                       \
  case which: {                                                                        \
    const T a_kept = (inputs) > 0 ? KEPT(0) : (T)0;                                    \
    const T b_kept = (inputs) > 1 ? KEPT(1) : (T)0;                                    \
    const T c_kept = (inputs) > 2 ? KEPT(2) : (T)0;                                    \
    const T s0 = SCALAR(0, scalars), s1 = SCALAR(1, scalars), s2 = SCALAR(2, scalars); \
    long i = part;                                                                     \
    if (step.advances == (1 << (inputs)) - 1)                                          \
      WHOLE_VECTORS_OF(NEXT(0, inputs), NEXT(1, inputs), NEXT(2, inputs), expression)  \
    else if ((inputs) == 2 && step.advances == 1)                                      \
      WHOLE_VECTORS_OF(NEXT(0, inputs), b_kept, (T)0, expression)                      \
    for (; i < part_end; i += W) {                                                     \
      const T a = INPUT(0, inputs, a_kept);                                            \
      const T b = INPUT(1, inputs, b_kept);                                            \
      const T c = INPUT(2, inputs, c_kept);                                            \
      const T r = expression;                                                          \
      if (i + W <= part_end)                                                           \
        STOREV(X_DTYPE, COMPUTE, W, y, i, r);                                          \
      else                                                                             \
        store_first(r, y + i, part_end - i);                                           \
    }                                                                                  \
    break;                                                                             \
  }

static void __attribute__((noinline)) store_first(T r, __global STORAGE(X_DTYPE) * y, long count) {
  S lane[W];
  vstore16(r, 0, lane);
  for (long l = 0; l < count; l++) STORE(X_DTYPE, COMPUTE, y, l, lane[l]);
}

CPU_KERNEL void elementwise_sequence(SequenceSteps steps, int count, long n, long share) {
  const long begin = get_global_id(0) * share, end = MIN_OF(n, begin + share);
  for (long part = begin; part < end; part += PART) {
    const long part_end = MIN_OF(part + PART, end);
    for (int k = 0; k < count; k++) {
      const SequenceStep step = steps.step[k];
      __global STORAGE(X_DTYPE)* y = (__global STORAGE(X_DTYPE)*)(size_t)step.y;
      switch (step.op) { OPERATORS }
    }
  }
}
