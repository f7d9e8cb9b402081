// Gemm for every dtype and stride, one work-item per element of c: slow, never wrong. Grid: (n, m, batch).
#include "gemm/gemm.clh"

#if IS_COMPLEX(DTYPE)
#define ACC_DTYPE DTYPE
#define MULTIPLY_ADD(u, v, sum) \
  ((VALUE(DTYPE))((sum).x + (u).x * (v).x - (u).y * (v).y, (sum).y + (u).x * (v).y + (u).y * (v).x))
#elif IS_FLOATING(DTYPE)
#if IS_FLOAT64
#define ACC_DTYPE float64
#else
#define ACC_DTYPE float32
#endif
#define MULTIPLY_ADD(u, v, sum) fma(u, v, sum)
#else
#define ACC_DTYPE int64
#define MULTIPLY_ADD(u, v, sum) ((sum) + (u) * (v))
#endif
typedef VALUE(ACC_DTYPE) acc_t;

kernel void gemm_reference(global const STORAGE(DTYPE) * a, global const STORAGE(DTYPE) * b, global STORAGE(DTYPE) * c,
                           global const STORAGE(DTYPE) * d, GemmArguments p, acc_t alpha, acc_t beta) {
  const long column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  a += batch * p.a_batch + row * p.a_row;
  b += batch * p.b_batch + column * p.b_column;
  acc_t sum = (acc_t)0;
  for (long i = 0; i < p.k; i++) {
    const acc_t x = LOAD(DTYPE, ACC_DTYPE, a, i * p.a_column), y = LOAD(DTYPE, ACC_DTYPE, b, i * p.b_row);
    sum = MULTIPLY_ADD(x, y, sum);
  }
  acc_t v = MULTIPLY_ADD(alpha, sum, (acc_t)0);
  if (p.add) {
    const acc_t addend = LOAD(DTYPE, ACC_DTYPE, d, batch * p.d_batch + row * p.d_row + column * p.d_column);
    v = MULTIPLY_ADD(beta, addend, v);
  }
#if IS_FLOATING(DTYPE) && !IS_COMPLEX(DTYPE)
  if (p.activation == 1) v = GEMM_RELU(v);
  if (p.activation == 2) v = v * (acc_t)0.5f * ((acc_t)1 + erf(v * (acc_t)GEMM_SQRT_HALF));
#endif
  STORE(DTYPE, ACC_DTYPE, c, batch * p.c_batch + row * p.c_row + column * p.c_column, v);
}
