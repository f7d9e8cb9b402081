// out = EXPRESSION(inputs, scalars), element by element; one program per row of the table and combination of types.
// Defines: COMPUTE, OUT_DTYPE, IN<i>_DTYPE (names of common/types.clh), IN<i>_SCALAR (1: the input is a number), INPUTS, SCALARS,
// W (vector width, in elements; of complex types 1, or vectors are as common/complex_arithmetic.clh says), DIMS, EXPRESSION. Chosen by
// ops/elementwise/engine.cpp:
//   elementwise_flat     all operands contiguous or a single element
//   elementwise_strided  any strides; dimension 0 is the inner one, vectors run along it
#ifndef EXPRESSION
#define EXPRESSION (a + b)
#define COMPUTE float32
#define OUT_DTYPE float32
#define IN0_DTYPE float32
#define IN1_DTYPE float32
#define IN0_SCALAR 0
#define IN1_SCALAR 0
#define INPUTS 2
#define SCALARS 0
#define W 16
#define DIMS 8
#endif
#include "common/divide.clh"
#include "common/types.clh"

#pragma OPENCL FP_CONTRACT OFF

#define COMPLEX_VECTORS (IS_COMPLEX(COMPUTE) && W > 1)
#if COMPLEX_VECTORS
#define T PAIRS_OF(COMPUTE)
#else
#define T VALUE_V(COMPUTE, W)
#endif
#define S VALUE(COMPUTE)
#include "common/vector_math.clh"
// Included files appear once in the source, so each has one condition.
#if FUNCTIONS_BESSEL || FUNCTIONS_NORMAL_DISTRIBUTION
#include "common/bessel.clh"
#endif
#if FUNCTIONS_NORMAL_DISTRIBUTION
#include "common/normal_distribution.clh"
#endif
#if FUNCTIONS_ORTHOGONAL_POLYNOMIALS
#include "common/orthogonal_polynomials.clh"
#endif
#if FUNCTIONS_INCOMPLETE_GAMMA
#include "common/incomplete_gamma.clh"
#endif

// ---- parameter lists
#define TENSOR_PARAMETER_0(D, x) TENSOR(const STORAGE(D), x)
#define TENSOR_PARAMETER_1(D, x) const S x##_value
#define PARAMETER(D, IS_SCALAR, x) CAT(TENSOR_PARAMETER_, IS_SCALAR)(D, x)
#define OPEN_PARAMETER_0(D, x) OPEN(const STORAGE(D), x)
#define OPEN_PARAMETER_1(D, x)
#define OPEN_INPUT(D, IS_SCALAR, x) CAT(OPEN_PARAMETER_, IS_SCALAR)(D, x)

#if INPUTS > 0
#define P0 , PARAMETER(IN0_DTYPE, IN0_SCALAR, x0)
#define O0 OPEN_INPUT(IN0_DTYPE, IN0_SCALAR, x0);
#else
#define P0
#define O0
#endif
#if INPUTS > 1
#define P1 , PARAMETER(IN1_DTYPE, IN1_SCALAR, x1)
#define O1 OPEN_INPUT(IN1_DTYPE, IN1_SCALAR, x1);
#else
#define P1
#define O1
#endif
#if INPUTS > 2
#define P2 , PARAMETER(IN2_DTYPE, IN2_SCALAR, x2)
#define O2 OPEN_INPUT(IN2_DTYPE, IN2_SCALAR, x2);
#else
#define P2
#define O2
#endif
#if INPUTS > 3
#define P3 , PARAMETER(IN3_DTYPE, IN3_SCALAR, x3)
#define O3 OPEN_INPUT(IN3_DTYPE, IN3_SCALAR, x3);
#else
#define P3
#define O3
#endif
#if SCALARS == 0
#define SP
#define SV
#elif SCALARS == 1
#define SP , const S s0_value
#define SV const T s0 = SPREAD(s0_value);
#elif SCALARS == 2
#define SP , const S s0_value, const S s1_value
#define SV const T s0 = SPREAD(s0_value), s1 = SPREAD(s1_value);
#else
#define SP , const S s0_value, const S s1_value, const S s2_value
#define SV const T s0 = SPREAD(s0_value), s1 = SPREAD(s1_value), s2 = SPREAD(s2_value);
#endif

#define PARAMETERS TENSOR(STORAGE(OUT_DTYPE), y) P0 P1 P2 P3 SP
#define OPEN_ALL OPEN(STORAGE(OUT_DTYPE), y); O0 O1 O2 O3 SV

// ---- one vector. SPREAD: of one value; FROM_LANES, TO_LANES: of and to an array of S.
#if COMPLEX_VECTORS
#define SPREAD(v) REPEAT_PAIR(v)
#define FROM_LANES(lane) PAIRS_LOAD((__private const PART*)(lane))
#define TO_LANES(v, lane) PAIRS_STORE(v, (__private PART*)(lane))
#define LOAD_T(D, p, i) LOAD_PAIRS(D, p, i)
#define STORE_T(p, i, v) STORE_PAIRS(OUT_DTYPE, p, i, v)
#else
#define SPREAD(v) (T)(v)
#define FROM_LANES(lane) CAT(vload, W)(0, lane)
#define TO_LANES(v, lane) CAT(vstore, W)(v, 0, lane)
#if W == 1
#define LOAD_T(D, p, i) LOAD(D, COMPUTE, p, i)
#define STORE_T(p, i, v) STORE(OUT_DTYPE, COMPUTE, p, i, v)
#else
#define LOAD_T(D, p, i) LOADV(D, COMPUTE, W, p, i)
#define STORE_T(p, i, v) STOREV(OUT_DTYPE, COMPUTE, W, p, i, v)
#endif
#endif
#define EVALUATE(result) const T result = EXPRESSION

// A program holds one of the two kernels.
#ifndef STRIDED
#define STRIDED 0
#endif
#if !STRIDED
// ---- flat
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
  OPEN_ALL
  K0 K1 K2 K3
#if DEVICE_FAT
  long i = get_global_id(0) * share;
  const long end = MIN_OF(n, i + share), stride = W;
#else
  long i = (long)get_global_id(0) * W;
  const long end = n, stride = (long)get_global_size(0) * W;
#endif
  for (; i + W <= end; i += stride) {
    N0 N1 N2 N3
    EVALUATE(r);
    STORE_T(y, i, r);
  }
#if W > 1
  if (i < end) {  // inputs may be read past their end, the output is not written there
    N0 N1 N2 N3
    EVALUATE(r);
    S lane[W];
    TO_LANES(r, lane);
    for (int l = 0; i + l < end; l++) STORE(OUT_DTYPE, COMPUTE, y, i + l, lane[l]);
  }
#endif
}

#else
// ---- strided
#ifndef WIDE
#define WIDE 1  // SIMT: positions in the output need 64 bits
#endif
typedef struct {
  long sizes[DIMS];
  long strides[5][DIMS];
} Geometry;

#if DEVICE_FAT
#define EACH_LANE for (int l = 0; l < W; l++)
#else  // arrays stay in registers
#define EACH_LANE _Pragma("unroll") for (int l = 0; l < W; l++)
#endif
#if W > 1
#if COMPLEX_VECTORS
#define EVEN_LANES(v, w) EVEN_PAIRS(v, w)
#else
#define EVEN_LANES(v, w) (T)((v).even, (w).even)
#endif
// W elements from offset o with inner stride s; at most `lanes` of them exist. Contiguous rows may be read past their end.
#define GATHER_0(D, x, k, name)                                                       \
  T name;                                                                             \
  {                                                                                   \
    const long s = g.strides[k][0], o = o##k + j * s;                                 \
    if (s == 1) name = LOAD_T(D, x, o);                                               \
    else if (s == 0) name = SPREAD(LOAD(D, COMPUTE, x, o));                           \
    else if (s == 2) name = EVEN_LANES(LOAD_T(D, x, o), LOAD_T(D, x, o + W));         \
    else {                                                                            \
      S lane[W];                                                                      \
      if (lanes == W) EACH_LANE lane[l] = LOAD(D, COMPUTE, x, o + l * s);             \
      else EACH_LANE lane[l] = l < lanes ? LOAD(D, COMPUTE, x, o + l * s) : (S)0; \
      name = FROM_LANES(lane);                                                        \
    }                                                                                 \
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

#define ADD_OFFSETS(count, d)            \
  {                                      \
    o0 += (count) * g.strides[0][d];     \
    o1 += (count) * g.strides[1][d];     \
    o2 += (count) * g.strides[2][d];     \
    o3 += (count) * g.strides[3][d];     \
    o4 += (count) * g.strides[4][d];     \
  }
// Declares the offsets of a row and its index in the outer dimensions.
#define ROW_OFFSETS(row)                                            \
  long o0 = 0, o1 = 0, o2 = 0, o3 = 0, o4 = 0, outer[DIMS] = {0};   \
  {                                                                 \
    long rest = row;                                                \
    for (int d = 1; d < DIMS && rest > 0; d++) {                    \
      const long q = divide(rest, g.sizes[d]);                      \
      outer[d] = rest - q * g.sizes[d];                             \
      rest = q;                                                     \
      ADD_OFFSETS(outer[d], d)                                      \
    }                                                               \
  }
// Moves them to the next row without a division.
#define NEXT_ROW                                \
  for (int d = 1; d < DIMS; d++) {              \
    ADD_OFFSETS(1, d)                           \
    if (++outer[d] < g.sizes[d]) break;         \
    ADD_OFFSETS(-g.sizes[d], d)                 \
    outer[d] = 0;                               \
  }

// The same for whole vectors of rows whose elements are neighbours (MOVING) or one (KEPT); where neither is said, bit k of `steps` says it of input k.
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
#define ROW_LOOP(loads)              \
  for (; j + W <= stop; j += W) {    \
    loads                            \
    EVALUATE(r);                     \
    STORE_T(y, o0 + j, r);           \
  }
// A loop of its own for the usual ways of one and two inputs: a question in every vector takes as long as an addition.
#if INPUTS == 2
#define ROW_LOOPS                                          \
  if (steps == ALL_STEPS) ROW_LOOP(MOVING0 MOVING1)        \
  else if (steps == BIT0) ROW_LOOP(MOVING0 KEPT1)          \
  else if (steps == BIT1) ROW_LOOP(KEPT0 MOVING1)          \
  else ROW_LOOP(KEPT0 KEPT1)
#else
#define ROW_LOOPS                                                         \
  if (steps == ALL_STEPS) ROW_LOOP(MOVING0 MOVING1 MOVING2 MOVING3)       \
  else ROW_LOOP(EITHER0 EITHER1 EITHER2 EITHER3)
#endif

// Whether the row loops serve the operands, and their `steps`.
static inline int inner_steps(const Geometry* g) {
  int steps = 0;
  for (int k = 1; k <= INPUTS; k++) steps |= (g->strides[k][0] == 1) << (k - 1);
  return steps;
}
static inline int rows_are_dense(const Geometry* g) {
  int dense = g->strides[0][0] == 1;
  for (int k = 1; k <= INPUTS; k++) dense &= g->strides[k][0] == 1 || g->strides[k][0] == 0;
  return dense;
}

#if WIDE
#define POSITION ulong
#else
#define POSITION uint
#endif

// Fat: a work-item does row_share rows, column_share elements of each. SIMT: one vector of a row; last_dim is the last dimension in use.
TASK_KERNEL void elementwise_strided(PARAMETERS, Geometry g, long row_share, long column_share, long rows, int last_dim) {
  OPEN_ALL
  const long n = g.sizes[0];
#if DEVICE_FAT
  const long first = get_global_id(0) * row_share, last = MIN_OF(rows, first + row_share);
  const long start = get_global_id(1) * column_share, stop = MIN_OF(n, start + column_share);
  ROW_OFFSETS(first)
  const int steps = inner_steps(&g), dense = rows_are_dense(&g);
  for (long row = first; row < last; row++) {
    long j = start;
    if (dense) {
      KEEP0 KEEP1 KEEP2 KEEP3
      ROW_LOOPS
    }
    for (; j < stop; j += W) {
      const int lanes = (int)MIN_OF((long)W, stop - j);
      G0 G1 G2 G3
      EVALUATE(r);
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
#else
  const POSITION vectors = (POSITION)((n + W - 1) / W), end = (POSITION)rows * vectors;
  for (POSITION e = get_global_id(0); e < end; e += get_global_size(0)) {
    POSITION rest = e / vectors;
    const long j = (long)(e - rest * vectors) * W;
    long o0 = 0, o1 = 0, o2 = 0, o3 = 0, o4 = 0;
#pragma unroll
    for (int d = 1; d < DIMS; d++) {
      if (d > last_dim) break;
      const POSITION q = d == last_dim ? 0 : rest / (POSITION)g.sizes[d];
      ADD_OFFSETS((long)(rest - q * (POSITION)g.sizes[d]), d)
      rest = q;
    }
    const int lanes = (int)MIN_OF((long)W, n - j);
    G0 G1 G2 G3
    EVALUATE(r);
    const long step = g.strides[0][0], at = o0 + j * step;
#if W > 1
    if (lanes == W && step == 1) {
      STORE_T(y, at, r);
    } else {
      S lane[W];
      TO_LANES(r, lane);
      EACH_LANE if (l < lanes) STORE(OUT_DTYPE, COMPUTE, y, at + l * step, lane[l]);
    }
#else
    STORE_T(y, at, r);
#endif
  }
#endif
}
#endif
