// Elementwise operators and norms over lists of tensors of one dtype, a whole list per launch.
//   foreach     out = EXPRESSION(a, b, c, s); lists: out, a, b, c (INPUTS of them read). s: the row's scalar, or EXTRA
//   0 (one
//               element of X_DTYPE) when there is one. Out may be one of the inputs.
//   foreach_chain   several of these operators one after another, for CHAIN_PART elements at a time, which stay in the
//   cache meanwhile. A stage, one
//               word in place of a constant each: operator | list of out << 8 | of a << 16 | of b << 24 | of c << 32 |
//               (0, or 1 + the EXTRA that
//               its scalar is) << 40; their number in place of the last constant. OPERATORS: EACH(operator, inputs,
//               expression) of all.
//   unscale     x *= *EXTRA 0 (float32), *EXTRA 1 (float32) = 1 where an element is not finite
//   norm_chunk, norm_row   ORDER 1: sum |x|, 2: sqrt(sum x^2), 0: max |x|; lists: x, y (one element of Y_DTYPE); EXTRA
//   3: partials
#include "foreach/multi_tensor.clh"

#if defined EXPRESSION || defined OPERATORS
#define COMPUTE C_DTYPE
#define W LANES
#define S REAL
#define T REALS
#include "common/vector_math.clh"
#endif

#ifndef X_DTYPE
#define X_DTYPE float32
#endif
#ifndef INPUTS
#define INPUTS 1
#endif

#ifdef EXPRESSION
TASK_KERNEL void foreach (MULTI_TENSOR_ARGUMENTS) {
  MULTI_TENSOR_CHUNK;
  __global STORAGE(X_DTYPE)* out = LIST(STORAGE(X_DTYPE), 0);
#if INPUTS > 0
  __global const STORAGE(X_DTYPE)* pa = LIST(const STORAGE(X_DTYPE), 1);
#endif
#if INPUTS > 1
  __global const STORAGE(X_DTYPE)* pb = LIST(const STORAGE(X_DTYPE), 2);
#endif
#if INPUTS > 2
  __global const STORAGE(X_DTYPE)* pc = LIST(const STORAGE(X_DTYPE), 3);
#endif
  const REAL scalar = HAS_EXTRA(0) ? LOAD(X_DTYPE, C_DTYPE, EXTRA(const STORAGE(X_DTYPE), 0), 0) : ROW_SCALAR;
  const REALS s = scalar;
  FOR_ELEMENTS(i) {
#if INPUTS > 0
    const REALS a = GET_LANES(X_DTYPE, C_DTYPE, pa, i);
#else
    const REALS a = 0;
#endif
#if INPUTS > 1
    const REALS b = GET_LANES(X_DTYPE, C_DTYPE, pb, i);
#else
    const REALS b = 0;
#endif
#if INPUTS > 2
    const REALS c = GET_LANES(X_DTYPE, C_DTYPE, pc, i);
#else
    const REALS c = 0;
#endif
    const REALS value = EXPRESSION(a, b, c, s);
    PUT_LANES(X_DTYPE, C_DTYPE, out, i, end, value);
  }
}
#endif

#ifdef OPERATORS
#define CHAIN_PART 1024
#if CPU_STYLE
#define FOR_PART(i) for (long i = part; i < part_end; i += 16)
#else
#define FOR_PART(i) for (long i = part + get_local_id(0); i < part_end; i += get_local_size(0))
#endif
#define STAGE_LIST(shift) ((__global STORAGE(X_DTYPE)*)REFERENCE(row[2 + (stage >> (shift) & 0xff)]))
#define EACH(operator, inputs, expression)                                          \
  case operator:                                                                    \
    FOR_PART(i) {                                                                   \
      const REALS a = (inputs) > 0 ? GET_LANES(X_DTYPE, C_DTYPE, pa, i) : (REALS)0; \
      const REALS b = (inputs) > 1 ? GET_LANES(X_DTYPE, C_DTYPE, pb, i) : (REALS)0; \
      const REALS c = (inputs) > 2 ? GET_LANES(X_DTYPE, C_DTYPE, pc, i) : (REALS)0; \
      const REALS value = expression;                                               \
      PUT_LANES(X_DTYPE, C_DTYPE, out, i, part_end, value);                         \
    }                                                                               \
    break;

TASK_KERNEL void foreach_chain(MULTI_TENSOR_ARGUMENTS) {
  MULTI_TENSOR_CHUNK;
  const int stages = table[15];
  __global const ulong* scalars =
      table + TABLE_ROWS + (long)rows * ROW_WORDS + get_num_groups(0) + (long)(chunk_word >> 32) * stages;
  for (long part = begin; part < end; part += CHAIN_PART) {
    const long part_end = MIN_OF(part + CHAIN_PART, end);
    for (int k = 0; k < stages; ++k) {
      const ulong stage = table[k];
      const int extra = (int)(stage >> 40 & 0xff) - 1;
      __global STORAGE(X_DTYPE)* out = STAGE_LIST(8);
      __global const STORAGE(X_DTYPE)*pa = STAGE_LIST(16), *pb = STAGE_LIST(24), *pc = STAGE_LIST(32);
      const REAL scalar =
          extra >= 0 ? LOAD(X_DTYPE, C_DTYPE, EXTRA(const STORAGE(X_DTYPE), extra), 0) : WORD_AS(C_DTYPE, scalars[k]);
      const REALS s = scalar;
      switch ((int)(stage & 0xff)) { OPERATORS }
    }
  }
}
#endif

#ifdef UNSCALE
TASK_KERNEL void unscale(MULTI_TENSOR_ARGUMENTS) {
  MULTI_TENSOR_CHUNK;
  __global STORAGE(X_DTYPE)* x = LIST(STORAGE(X_DTYPE), 0);
  const float factor = *EXTRA(const float, 0);
  int bad = 0;
  FOR_ELEMENTS(i) {
    const REALS v = GET_LANES(X_DTYPE, C_DTYPE, x, i);
    const REALS product = factor == 1 ? v : v * (REAL)factor;
    // v - v is NaN unless v is finite; lanes past the end do not count
#if LANES == 16
    if (i + 16 <= end)
      bad |= any_lane(v - v != (REALS)0);
    else
      for (long k = i; k < end; ++k) {
        const REAL one = LOAD(X_DTYPE, C_DTYPE, x, k);
        bad |= one - one != 0;
      }
#else
    bad |= v - v != 0;
#endif
    PUT_LANES(X_DTYPE, C_DTYPE, x, i, end, product);
  }
  if (bad) *EXTRA(float, 1) = 1.0f;
}
#endif

#ifdef ORDER
#ifndef Y_DTYPE
#define Y_DTYPE X_DTYPE
#endif
// Maximum that keeps NaN.
#define COMBINE(x, y) (ORDER == 0 ? ((x) > (y) || (x) != (x) ? (x) : (y)) : (x) + (y))
#define LARGER(x, y) (((x) > (y) | (x) != (x)) ? (x) : (y))

static inline REALS accumulate(REALS sum, REALS v) {
#if ORDER == 2
  return fma(v, v, sum);
#else
  const REALS magnitude = v < (REALS)0 ? -v : v;
#if ORDER == 1
  return sum + magnitude;
#else
  return LARGER(magnitude, sum);
#endif
#endif
}

TASK_KERNEL void norm_chunk(MULTI_TENSOR_ARGUMENTS) {
  MULTI_TENSOR_CHUNK;
  __global const STORAGE(X_DTYPE)* x = LIST(const STORAGE(X_DTYPE), 0);
  REALS sums = 0;
#if CPU_STYLE
  long i = begin;
  for (; i + 16 <= end; i += 16) sums = accumulate(sums, GET_LANES(X_DTYPE, C_DTYPE, x, i));
  REAL part[16] __attribute__((aligned(64)));
  for (int k = 0; k < 16; ++k) part[k] = i + k < end ? LOAD(X_DTYPE, C_DTYPE, x, i + k) : 0;
  sums = accumulate(sums, vload16(0, part));
  vstore16(sums, 0, part);
  REAL total = part[0];
  for (int k = 1; k < 16; ++k) total = COMBINE(total, part[k]);
  EXTRA(REAL, 3)[get_group_id(0)] = total;
#else
  __local REAL tree[256];
  FOR_ELEMENTS(i) sums = accumulate(sums, GET_LANES(X_DTYPE, C_DTYPE, x, i));
  const int lid = get_local_id(0);
  tree[lid] = sums;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = 128; half_size > 0; half_size /= 2) {
    if (lid < half_size) tree[lid] = COMBINE(tree[lid], tree[lid + half_size]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lid == 0) EXTRA(REAL, 3)[get_group_id(0)] = tree[0];
#endif
}

kernel void norm_row(MULTI_TENSOR_ARGUMENTS) {
  MULTI_TENSOR_ROW;
  __global const REAL* partial = EXTRA(const REAL, 3) + row[7];
  const long chunks = ((long)row[0] + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
  REAL total = 0;
  for (long k = 0; k < chunks; ++k) total = COMBINE(total, partial[k]);
#if ORDER == 2
  total = sqrt(total);
#endif
  STORE(Y_DTYPE, C_DTYPE, LIST(STORAGE(Y_DTYPE), 1), 0, total);
}
#endif

// scale *= growth after `interval` steps in a row without infinities, *= backoff after one with (torch.amp.GradScaler).
kernel void update_scale(global float* scale, global int* growth_tracker, global const float* found_inf, float growth,
                         float backoff, int interval) {
  if (found_inf[0] != 0) {
    scale[0] *= backoff;
    growth_tracker[0] = 0;
  } else if (growth_tracker[0] + 1 == interval) {
    const float grown = scale[0] * growth;
    if (grown - grown == 0) scale[0] = grown;  // not beyond float32
    growth_tracker[0] = 0;
  } else {
    growth_tracker[0] += 1;
  }
}
