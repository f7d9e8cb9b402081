// out = EXPRESSION(inputs, scalars) where all operands are contiguous or a single element
// (elementwise/elementwise.clh).
#include "elementwise/elementwise.clh"

#define SPLAT_0(D, x) SPREAD(LOAD(D, COMPUTE, x, 0))
#define SPLAT_1(D, x) SPREAD(x##_value)
#define SPLAT(D, IS_SCALAR, x) CAT(SPLAT_, IS_SCALAR)(D, x)
#define NEXT_0(D, x, bit, kept) ((steps & bit) ? LOAD_T(D, x, i) : kept)
#define NEXT_1(D, x, bit, kept) kept
#define NEXT(D, IS_SCALAR, x, bit, kept) CAT(NEXT_, IS_SCALAR)(D, x, bit, kept)
#if INPUTS > 0
#define K0 const T a_kept = SPLAT(IN0_DTYPE, IN0_SCALAR, x0);
#define N0 const T a = NEXT(IN0_DTYPE, IN0_SCALAR, x0, 1, a_kept);
#else
#define K0
#define N0
#endif
#if INPUTS > 1
#define K1 const T b_kept = SPLAT(IN1_DTYPE, IN1_SCALAR, x1);
#define N1 const T b = NEXT(IN1_DTYPE, IN1_SCALAR, x1, 2, b_kept);
#else
#define K1
#define N1
#endif
#if INPUTS > 2
#define K2 const T c_kept = SPLAT(IN2_DTYPE, IN2_SCALAR, x2);
#define N2 const T c = NEXT(IN2_DTYPE, IN2_SCALAR, x2, 4, c_kept);
#else
#define K2
#define N2
#endif
#if INPUTS > 3
#define K3 const T d_kept = SPLAT(IN3_DTYPE, IN3_SCALAR, x3);
#define N3 const T d = NEXT(IN3_DTYPE, IN3_SCALAR, x3, 8, d_kept);
#else
#define K3
#define N3
#endif

TASK_KERNEL void elementwise_flat(PARAMETERS, long n, int steps, long share) {
  SPREAD_SCALARS
  K0 K1 K2 K3
#if CPU_STYLE
      long i = get_global_id(0) * share;
  const long end = MIN_OF(n, i + share), stride = W;
#else
      long i = (long)get_global_id(0) * W;
  const long end = n, stride = (long)get_global_size(0) * W;
#endif
  for (; i + W <= end; i += stride) {
    N0 N1 N2 N3 EVALUATE(r);
    STORE_T(y, i, r);
  }
#if W > 1
  if (i < end) {  // inputs may be read past their end, the output is not written there
    N0 N1 N2 N3 EVALUATE(r);
    S lane[W];
    TO_LANES(r, lane);
    for (int l = 0; i + l < end; l++) STORE(OUT_DTYPE, COMPUTE, y, i + l, lane[l]);
  }
#endif
}
