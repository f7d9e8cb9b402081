// Attention by matrix products (csrc/ops/attention/products.cpp), what lies between them: a group of GROUP work-items
// to a row of scores
// [heads of this launch, L, pitch]. Contract: attention/attention.clh; scores arrive with the scale in them.
//   scores_softmax    weights = dropout(softmax(scores + bias)), lse
//   scores_gradient   weights = dropout(P) and gradients = dscores, from scores and dP = dout v^T
// Rows are written to their whole pitch, zeros behind the keys. Grid of groups: (L, heads of this launch).
#define ONE_LANE 1
#include "attention/attention.clh"
#include "attention/dropout.clh"

#define GROUP 128
#define READ(p, i) LOAD(X_DTYPE, float32, p, i)
#define SCORE_KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))

inline float combined(__local float* shared, float value, int maximum) {
  const int item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[item] = value;
  for (int distance = GROUP / 2; distance > 0; distance /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < distance) {
      const float other = shared[item + distance];
      shared[item] = !maximum                                      ? shared[item] + other
                     : shared[item] > other || isnan(shared[item]) ? shared[item]
                                                                   : other;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return shared[0];
}

// `first`: head (of all heads of the batch) of the launch's first row of groups.
#define ROW_ARGUMENTS                                                                                                \
  long bias_batch, long bias_head, long bias_row, int heads, int length, int keys, int pitch, int first, int causal, \
      ulong seed, ulong offset, uint threshold, float keep_scale
#define FIND_ROW                                                                                 \
  const int row = get_group_id(0), bh = first + get_group_id(1), b = bh / heads, h = bh % heads, \
            item = get_local_id(0);                                                              \
  const int limit = causal ? MIN_OF(keys, row + 1) : keys;                                       \
  const long at = ((long)get_group_id(1) * length + row) * pitch, lse_at = (long)bh * length + row;

#if BIAS
#define SCORE(i) (scores[at + (i)] + READ(ROWS_OF(bias, b, h) + (long)row * bias_row, i))
#else
#define SCORE(i) scores[at + (i)]
#endif

SCORE_KERNEL void scores_softmax(global const float* scores, global const DATA* bias, global DATA* weights,
                                 global float* lse, ROW_ARGUMENTS) {
  __local float shared[GROUP];
  FIND_ROW
  float largest = -INFINITY, sum = 0;
  for (int i = item; i < limit; i += GROUP) {
    const float x = SCORE(i);
    largest = x > largest || isnan(x) ? x : largest;
  }
  largest = combined(shared, largest, 1);
  const float base = largest == -INFINITY ? 0 : largest;
  for (int i = item; i < limit; i += GROUP) sum += exp(SCORE(i) - base);
  sum = combined(shared, sum, 0);
  const float factor = sum == 0 ? 0 : 1 / sum;
  for (int i = item; i < pitch; i += GROUP) {
    const float weight = i < limit ? exp(SCORE(i) - base) * factor * KEEP(row, i) : 0;
    STORE(X_DTYPE, float32, weights, at + i, weight);
  }
  if (item == 0) lse[lse_at] = sum == 0 ? INFINITY : base + log(sum);
}

SCORE_KERNEL void scores_gradient(global const float* scores, global const float* products, global const DATA* bias,
                                  global const float* lse, global const float* delta, global DATA* weights,
                                  global DATA* gradients, ROW_ARGUMENTS) {
  FIND_ROW
  const float row_lse = lse[lse_at], row_delta = delta[lse_at];
  for (int i = item; i < pitch; i += GROUP) {
    float weight = 0, gradient = 0;
    if (i < limit) {
      const float x = SCORE(i), keep = KEEP(row, i), probability = x == -INFINITY ? 0 : exp(x - row_lse);
      weight = probability * keep;
      gradient = x == -INFINITY ? 0 : probability * (products[at + i] * keep - row_delta);
    }
    STORE(X_DTYPE, float32, weights, at + i, weight);
    STORE(X_DTYPE, float32, gradients, at + i, gradient);
  }
}
