// out = EXPRESSION(inputs, scalars) of any strides; dimension 0 is the inner one, vectors run along it
// (elementwise/elementwise.clh).
#include "params/elementwise.h"
#include "elementwise/elementwise.clh"

#ifndef WIDE
#define WIDE 1  // GPU: positions in the output need 64 bits
#endif
#if CPU_STYLE
#define ALL_LANES for (int l = 0; l < W; l++)
#else  // arrays stay in registers
#define ALL_LANES _Pragma("unroll") for (int l = 0; l < W; l++)
#endif
#if W > 1
#if COMPLEX_VECTORS
#define EVEN_LANES(v, w) EVEN_PAIRS(v, w)
#else
#define EVEN_LANES(v, w) (T)((v).even, (w).even)
#endif
// W elements from offset o with inner stride s; at most `lanes` of them exist. Contiguous rows may be read past their
// end.
#define GATHER_0(D, x, k, name)                                                \
  T name;                                                                      \
  {                                                                            \
    const long s = g.strides[k][0], o = o##k + j * s;                          \
    if (s == 1)                                                                \
      name = LOAD_T(D, x, o);                                                  \
    else if (s == 0)                                                           \
      name = SPREAD(LOAD(D, COMPUTE, x, o));                                   \
    else if (s == 2)                                                           \
      name = EVEN_LANES(LOAD_T(D, x, o), LOAD_T(D, x, o + W));                 \
    else {                                                                     \
      S lane[W];                                                               \
      if (lanes == W)                                                          \
        ALL_LANES lane[l] = LOAD(D, COMPUTE, x, o + l * s);                    \
      else                                                                     \
        ALL_LANES lane[l] = l < lanes ? LOAD(D, COMPUTE, x, o + l * s) : (S)0; \
      name = FROM_LANES(lane);                                                 \
    }                                                                          \
  }
#else
#define GATHER_0(D, x, k, name) const T name = LOAD(D, COMPUTE, x, o##k + j * g.strides[k][0]);
#endif
#define GATHER_1(D, x, k, name) const T name = SPREAD(x##_value);
#define GATHER(D, IS_SCALAR, x, k, name) CAT(GATHER_, IS_SCALAR)(D, x, k, name)

#if INPUTS > 0
#define G0 GATHER(IN0_DTYPE, IN0_SCALAR, x0, 1, a)
#else
#define G0
#endif
#if INPUTS > 1
#define G1 GATHER(IN1_DTYPE, IN1_SCALAR, x1, 2, b)
#else
#define G1
#endif
#if INPUTS > 2
#define G2 GATHER(IN2_DTYPE, IN2_SCALAR, x2, 3, c)
#else
#define G2
#endif
#if INPUTS > 3
#define G3 GATHER(IN3_DTYPE, IN3_SCALAR, x3, 4, d)
#else
#define G3
#endif

#define ADD_OFFSETS(count, d)        \
  {                                  \
    o0 += (count) * g.strides[0][d]; \
    o1 += (count) * g.strides[1][d]; \
    o2 += (count) * g.strides[2][d]; \
    o3 += (count) * g.strides[3][d]; \
    o4 += (count) * g.strides[4][d]; \
  }
// Declares the offsets of a row and its index in the outer dimensions.
#define ROW_OFFSETS(row)                                                  \
  long o0 = 0, o1 = 0, o2 = 0, o3 = 0, o4 = 0, outer[strided_dims] = {0}; \
  {                                                                       \
    long rest = row;                                                      \
    for (int d = 1; d < strided_dims && rest > 0; d++) {                  \
      const long q = divide(rest, g.sizes[d]);                            \
      outer[d] = rest - q * g.sizes[d];                                   \
      rest = q;                                                           \
      ADD_OFFSETS(outer[d], d)                                            \
    }                                                                     \
  }
// Moves them to the next row without a division.
#define NEXT_ROW                           \
  for (int d = 1; d < strided_dims; d++) { \
    ADD_OFFSETS(1, d)                      \
    if (++outer[d] < g.sizes[d]) break;    \
    ADD_OFFSETS(-g.sizes[d], d)            \
    outer[d] = 0;                          \
  }

// The same for whole vectors of rows whose elements are neighbours (MOVING) or one (KEPT); where neither is said, bit k
// of `steps` says it of input k.
#define ROW_KEEP_0(D, x, k, bit, name) const T name##_kept = (steps & bit) ? (T)0 : SPREAD(LOAD(D, COMPUTE, x, o##k));
#define ROW_KEEP_1(D, x, k, bit, name) const T name##_kept = SPREAD(x##_value);
#define ROW_KEEP(D, IS_SCALAR, x, k, bit, name) CAT(ROW_KEEP_, IS_SCALAR)(D, x, k, bit, name)
#define ROW_MOVING_0(D, x, k, name) LOAD_T(D, x, o##k + j)
#define ROW_MOVING_1(D, x, k, name) name##_kept
#define ROW_MOVING(D, IS_SCALAR, x, k, name) CAT(ROW_MOVING_, IS_SCALAR)(D, x, k, name)
#if INPUTS > 0
#define KEEP0 ROW_KEEP(IN0_DTYPE, IN0_SCALAR, x0, 1, 1, a)
#define MOVING0 const T a = ROW_MOVING(IN0_DTYPE, IN0_SCALAR, x0, 1, a);
#define KEPT0 const T a = a_kept;
#define EITHER0 const T a = (steps & 1) ? ROW_MOVING(IN0_DTYPE, IN0_SCALAR, x0, 1, a) : a_kept;
#define BIT0 (IN0_SCALAR ? 0 : 1)
#else
#define KEEP0
#define MOVING0
#define KEPT0
#define EITHER0
#define BIT0 0
#endif
#if INPUTS > 1
#define KEEP1 ROW_KEEP(IN1_DTYPE, IN1_SCALAR, x1, 2, 2, b)
#define MOVING1 const T b = ROW_MOVING(IN1_DTYPE, IN1_SCALAR, x1, 2, b);
#define KEPT1 const T b = b_kept;
#define EITHER1 const T b = (steps & 2) ? ROW_MOVING(IN1_DTYPE, IN1_SCALAR, x1, 2, b) : b_kept;
#define BIT1 (IN1_SCALAR ? 0 : 2)
#else
#define KEEP1
#define MOVING1
#define KEPT1
#define EITHER1
#define BIT1 0
#endif
#if INPUTS > 2
#define KEEP2 ROW_KEEP(IN2_DTYPE, IN2_SCALAR, x2, 3, 4, c)
#define MOVING2 const T c = ROW_MOVING(IN2_DTYPE, IN2_SCALAR, x2, 3, c);
#define KEPT2 const T c = c_kept;
#define EITHER2 const T c = (steps & 4) ? ROW_MOVING(IN2_DTYPE, IN2_SCALAR, x2, 3, c) : c_kept;
#define BIT2 (IN2_SCALAR ? 0 : 4)
#else
#define KEEP2
#define MOVING2
#define KEPT2
#define EITHER2
#define BIT2 0
#endif
#if INPUTS > 3
#define KEEP3 ROW_KEEP(IN3_DTYPE, IN3_SCALAR, x3, 4, 8, d)
#define MOVING3 const T d = ROW_MOVING(IN3_DTYPE, IN3_SCALAR, x3, 4, d);
#define KEPT3 const T d = d_kept;
#define EITHER3 const T d = (steps & 8) ? ROW_MOVING(IN3_DTYPE, IN3_SCALAR, x3, 4, d) : d_kept;
#define BIT3 (IN3_SCALAR ? 0 : 8)
#else
#define KEEP3
#define MOVING3
#define KEPT3
#define EITHER3
#define BIT3 0
#endif
#define ALL_STEPS (BIT0 | BIT1 | BIT2 | BIT3)
#define ROW_LOOP(loads)           \
  for (; j + W <= stop; j += W) { \
    loads EVALUATE(r);            \
    STORE_T(y, o0 + j, r);        \
  }
// A loop of its own for the usual ways of one and two inputs: a question in every vector takes as long as an addition.
#if INPUTS == 2
#define ROW_LOOPS             \
  if (steps == ALL_STEPS)     \
    ROW_LOOP(MOVING0 MOVING1) \
  else if (steps == BIT0)     \
    ROW_LOOP(MOVING0 KEPT1)   \
  else if (steps == BIT1)     \
    ROW_LOOP(KEPT0 MOVING1)   \
  else                        \
    ROW_LOOP(KEPT0 KEPT1)
#else
#define ROW_LOOPS                             \
  if (steps == ALL_STEPS)                     \
    ROW_LOOP(MOVING0 MOVING1 MOVING2 MOVING3) \
  else                                        \
    ROW_LOOP(EITHER0 EITHER1 EITHER2 EITHER3)
#endif

// Whether the row loops serve the operands, and their `steps`.
static inline int inner_steps(const StridedGeometry* g) {
  int steps = 0;
  for (int k = 1; k <= INPUTS; k++) steps |= (g->strides[k][0] == 1) << (k - 1);
  return steps;
}
static inline int rows_are_dense(const StridedGeometry* g) {
  int dense = g->strides[0][0] == 1;
  for (int k = 1; k <= INPUTS; k++) dense &= g->strides[k][0] == 1 || g->strides[k][0] == 0;
  return dense;
}

#if WIDE
#define POSITION ulong
#else
#define POSITION uint
#endif

#if CPU_STYLE
// A work-item does row_share rows, column_share elements of each.
TASK_KERNEL void elementwise_strided(PARAMETERS, StridedGeometry g, long row_share, long column_share, long rows,
                                     int last_dim) {
  SPREAD_SCALARS
  const long n = g.sizes[0];
  const long first = get_global_id(0) * row_share, last = MIN_OF(rows, first + row_share);
  const long start = get_global_id(1) * column_share, stop = MIN_OF(n, start + column_share);
  ROW_OFFSETS(first)
  const int steps = inner_steps(&g), dense = rows_are_dense(&g);
  for (long row = first; row < last; row++) {
    long j = start;
    if (dense) {
      KEEP0 KEEP1 KEEP2 KEEP3 ROW_LOOPS
    }
    for (; j < stop; j += W) {
      const int lanes = (int)MIN_OF((long)W, stop - j);
      G0 G1 G2 G3 EVALUATE(r);
      const long at = o0 + j * g.strides[0][0];
#if W > 1
      if (lanes == W && g.strides[0][0] == 1) {
        STORE_T(y, at, r);
      } else {
        S lane[W];
        TO_LANES(r, lane);
        for (int l = 0; l < lanes; l++) {
          STORE(OUT_DTYPE, COMPUTE, y, at + l * g.strides[0][0], lane[l]);
        }
      }
#else
      STORE_T(y, at, r);
#endif
    }
    NEXT_ROW
  }
}
#else
// A work-item does one vector of a row at a time; last_dim is the last dimension in use.
TASK_KERNEL void elementwise_strided(PARAMETERS, StridedGeometry g, long row_share, long column_share, long rows,
                                     int last_dim) {
  SPREAD_SCALARS
  const long n = g.sizes[0];
  const POSITION vectors = (POSITION)((n + W - 1) / W), end = (POSITION)rows * vectors;
  for (POSITION e = get_global_id(0); e < end; e += get_global_size(0)) {
    POSITION rest = e / vectors;
    const long j = (long)(e - rest * vectors) * W;
    long o0 = 0, o1 = 0, o2 = 0, o3 = 0, o4 = 0;
#pragma unroll
    for (int d = 1; d < strided_dims; d++) {
      if (d > last_dim) break;
      const POSITION q = d == last_dim ? 0 : rest / (POSITION)g.sizes[d];
      ADD_OFFSETS((long)(rest - q * (POSITION)g.sizes[d]), d)
      rest = q;
    }
    const int lanes = (int)MIN_OF((long)W, n - j);
    G0 G1 G2 G3 EVALUATE(r);
    const long step = g.strides[0][0], at = o0 + j * step;
#if W > 1
    if (lanes == W && step == 1) {
      STORE_T(y, at, r);
    } else {
      S lane[W];
      TO_LANES(r, lane);
      ALL_LANES if (l < lanes) STORE(OUT_DTYPE, COMPUTE, y, at + l * step, lane[l]);
    }
#else
    STORE_T(y, at, r);
#endif
  }
}
#endif
