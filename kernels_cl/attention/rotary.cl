// Rotary position embedding (Su et al. 2021, "RoFormer") of queries and keys, the halves of a head turned against each
// other: y[e] = x[e] cos[e] - x[e + D/2] sin[e], y[e + D/2] = x[e + D/2] cos[e + D/2] + x[e] sin[e + D/2] for e < D/2.
// q [B, H, L, D], k [B, G, L, D], cos and sin [B or 1, L, D], all with dense last dimensions; results [B, L, heads, D]
// one behind the other. Work-item = (head of q or k, batch and row).
#include "params/attention.h"
#include "common/types.clh"

#ifndef X_DTYPE
#define X_DTYPE float32
#endif

typedef STORAGE(X_DTYPE) data_t;

TASK_KERNEL void rotary(global const data_t* q, global const data_t* k, global const data_t* cos_,
                        global const data_t* sin_, global data_t* q_out, global data_t* k_out, RotaryArguments p) {
  const long at = get_global_id(1), b = at / p.length, row = at % p.length;
  const int head = get_global_id(0), of_key = head >= p.heads, half_width = p.width / 2;
  __global const data_t* x = of_key ? k + b * p.k_batch + (head - p.heads) * p.k_head + row * p.k_row
                                    : q + b * p.q_batch + head * p.q_head + row * p.q_row;
  __global data_t* y =
      of_key ? k_out + (at * p.key_heads + head - p.heads) * p.width : q_out + (at * p.heads + head) * p.width;
  __global const data_t* c = cos_ + b * p.cos_batch + row * p.cos_row;
  __global const data_t* s = sin_ + b * p.sin_batch + row * p.sin_row;
  int e = 0;
#if CPU_STYLE
  for (; e + 16 <= half_width; e += 16) {
    const float16 first = LOADV(X_DTYPE, float32, 16, x, e), second = LOADV(X_DTYPE, float32, 16, x, e + half_width);
    const float16 turned = first * LOADV(X_DTYPE, float32, 16, c, e) - second * LOADV(X_DTYPE, float32, 16, s, e);
    STOREV(X_DTYPE, float32, 16, y, e, turned);
    const float16 other = second * LOADV(X_DTYPE, float32, 16, c, e + half_width) +
                          first * LOADV(X_DTYPE, float32, 16, s, e + half_width);
    STOREV(X_DTYPE, float32, 16, y, e + half_width, other);
  }
#endif
  for (; e < half_width; e++) {
    const float first = LOAD(X_DTYPE, float32, x, e), second = LOAD(X_DTYPE, float32, x, e + half_width);
    STORE(X_DTYPE, float32, y, e, first * LOAD(X_DTYPE, float32, c, e) - second * LOAD(X_DTYPE, float32, s, e));
    STORE(X_DTYPE, float32, y, e + half_width,
          second * LOAD(X_DTYPE, float32, c, e + half_width) + first * LOAD(X_DTYPE, float32, s, e + half_width));
  }
}
