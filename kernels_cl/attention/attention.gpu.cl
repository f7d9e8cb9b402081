// Scaled dot-product attention for GPUs: a work-group of 64 per row, work-items are keys while scores are made and
// columns while they are
// used. Contract: attention/attention.clh. Nothing of the size of the score matrix is stored.
//   attention_forward          work-group = one query row, walks over blocks of 64 keys
//   attention_delta            work-group = one query row: sum of out * dout
//   attention_backward_query   work-group = one query row: dq
//   attention_backward_key     work-group = one key row: dk and dv, walks over the query rows of its group of heads
#define ONE_LANE 1
#include "attention/attention.clh"
#include "attention/dropout.clh"

#define READ(p, i) LOAD(X_DTYPE, float32, p, i)
#define COLUMNS (WIDTH / BLOCK > 0 ? WIDTH / BLOCK : 1)
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)

inline float group_sum(__local float* scratch, float value) {
  const int lid = get_local_id(0);
  SYNC;
  scratch[lid] = value;
  SYNC;
  for (int half_size = BLOCK / 2; half_size > 0; half_size /= 2) {
    if (lid < half_size) scratch[lid] += scratch[lid + half_size];
    SYNC;
  }
  return scratch[0];
}
inline float group_max(__local float* scratch, float value) {
  const int lid = get_local_id(0);
  SYNC;
  scratch[lid] = value;
  SYNC;
  for (int half_size = BLOCK / 2; half_size > 0; half_size /= 2) {
    if (lid < half_size)
      scratch[lid] = scratch[lid] > scratch[lid + half_size] ? scratch[lid] : scratch[lid + half_size];
    SYNC;
  }
  return scratch[0];
}

inline float dot_row(__local const float* x, __global const DATA* y, int width) {
  float sum = 0;
  for (int e = 0; e < width; ++e) sum = fma(x[e], READ(y, e), sum);
  return sum;
}

#ifdef FORWARD
kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1))) void attention_forward(
    global const DATA* q, global const DATA* k, global const DATA* v, global const DATA* bias, global DATA* out,
    global float* lse, long q_batch, long q_head, long q_row, long k_batch, long k_head, long k_row, long v_batch,
    long v_head, long v_row, long bias_batch, long bias_head, long bias_row, long out_batch, long out_head,
    long out_row, SHAPE_ARGUMENTS) {
  __local float query[WIDTH], weights[BLOCK], scratch[BLOCK];
  const int row = get_group_id(0), bh = get_group_id(1), lid = get_local_id(0);
  const int b = bh / heads, h = bh % heads, hk = h / (heads / key_heads), limit = causal ? MIN_OF(keys, row + 1) : keys;
  __global const DATA* query_row = ROWS_OF(q, b, h) + (long)row * q_row;
  for (int e = lid; e < width; e += BLOCK) query[e] = READ(query_row, e) * scale;
  SYNC;
  float largest = -INFINITY, total = 0, sums[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) sums[c] = 0;
  for (int start = 0; start < limit; start += BLOCK) {
    const int key = start + lid;
    float x = -INFINITY;
    if (key < limit) {
      x = dot_row(query, ROWS_OF(k, b, hk) + (long)key * k_row, width);
#if BIAS
      x += READ(ROWS_OF(bias, b, h) + (long)row * bias_row, key);
#endif
    }
    const float block_max = group_max(scratch, x), new_max = block_max > largest ? block_max : largest;
    const float base = new_max == -INFINITY ? 0 : new_max, shrink = largest == -INFINITY ? 0 : exp(largest - base);
    const float weight = x == -INFINITY ? 0 : exp(x - base);
    total = total * shrink + group_sum(scratch, weight);
    largest = new_max;
    weights[lid] = weight * KEEP(row, key);
    SYNC;
    const int present = MIN_OF(BLOCK, limit - start);
    for (int c = 0; c < COLUMNS; ++c) {
      const int e = lid + c * BLOCK;
      sums[c] *= shrink;
      if (e < value_width)
        for (int j = 0; j < present; ++j)
          sums[c] = fma(weights[j], READ(ROWS_OF(v, b, hk) + (long)(start + j) * v_row, e), sums[c]);
    }
  }
  const int empty = largest == -INFINITY && total == 0;
  __global DATA* y = ROWS_OF(out, b, h) + (long)row * out_row;
  for (int c = 0; c < COLUMNS; ++c) {
    const float value = empty ? 0 : sums[c] / total;
    if (lid + c * BLOCK < value_width) STORE(X_DTYPE, float32, y, lid + c * BLOCK, value);
  }
  if (lid == 0) lse[(long)bh * length + row] = empty ? INFINITY : largest + log(total);
}
#endif

#ifdef BACKWARD
kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1))) void attention_delta(
    global const DATA* out, global const DATA* dout, global float* delta, long out_batch, long out_head, long out_row,
    long dout_batch, long dout_head, long dout_row, int heads, int length, int value_width) {
  __local float scratch[BLOCK];
  const int row = get_group_id(0), bh = get_group_id(1), b = bh / heads, h = bh % heads;
  float sum = 0;
  for (int e = get_local_id(0); e < value_width; e += BLOCK)
    sum = fma(READ(ROWS_OF(out, b, h) + (long)row * out_row, e), READ(ROWS_OF(dout, b, h) + (long)row * dout_row, e),
              sum);
  sum = group_sum(scratch, sum);
  if (get_local_id(0) == 0) delta[(long)bh * length + row] = sum;
}

#define BACKWARD_ARGUMENTS                                                                                            \
  global const DATA *q, global const DATA *k, global const DATA *v, global const DATA *bias, global const DATA *dout, \
      global const float *lse, global const float *delta, global float *dq, global DATA *dk, global DATA *dv,         \
      long q_batch, long q_head, long q_row, long k_batch, long k_head, long k_row, long v_batch, long v_head,        \
      long v_row, long bias_batch, long bias_head, long bias_row, long dout_batch, long dout_head, long dout_row,     \
      long dk_batch, long dk_head, long dk_row, long dv_batch, long dv_head, long dv_row, int dq_pitch,               \
      SHAPE_ARGUMENTS

kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1))) void attention_backward_query(BACKWARD_ARGUMENTS) {
  __local float query[WIDTH], grad[WIDTH], gradients[BLOCK];
  const int row = get_group_id(0), bh = get_group_id(1), lid = get_local_id(0);
  const int b = bh / heads, h = bh % heads, hk = h / (heads / key_heads), limit = causal ? MIN_OF(keys, row + 1) : keys;
  for (int e = lid; e < width; e += BLOCK) query[e] = READ(ROWS_OF(q, b, h) + (long)row * q_row, e) * scale;
  for (int e = lid; e < value_width; e += BLOCK) grad[e] = READ(ROWS_OF(dout, b, h) + (long)row * dout_row, e);
  const float row_lse = lse[(long)bh * length + row], row_delta = delta[(long)bh * length + row];
  float sums[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) sums[c] = 0;
  SYNC;
  for (int start = 0; start < limit; start += BLOCK) {
    const int key = start + lid;
    float gradient = 0;
    if (key < limit) {
      float x = dot_row(query, ROWS_OF(k, b, hk) + (long)key * k_row, width);
#if BIAS
      x += READ(ROWS_OF(bias, b, h) + (long)row * bias_row, key);
#endif
      const float dp = dot_row(grad, ROWS_OF(v, b, hk) + (long)key * v_row, value_width) * KEEP(row, key);
      gradient = x == -INFINITY ? 0 : exp(x - row_lse) * (dp - row_delta);
    }
    gradients[lid] = gradient;
    SYNC;
    const int present = MIN_OF(BLOCK, limit - start);
    for (int c = 0; c < COLUMNS; ++c) {
      const int e = lid + c * BLOCK;
      if (e < width)
        for (int j = 0; j < present; ++j)
          sums[c] = fma(gradients[j], READ(ROWS_OF(k, b, hk) + (long)(start + j) * k_row, e), sums[c]);
    }
    SYNC;
  }
  for (int c = 0; c < COLUMNS; ++c)
    if (lid + c * BLOCK < width) dq[((long)bh * length + row) * dq_pitch + lid + c * BLOCK] = sums[c] * scale;
}

kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1))) void attention_backward_key(BACKWARD_ARGUMENTS) {
  __local float key_row[WIDTH], value_row[WIDTH], weights[BLOCK], gradients[BLOCK];
  const int key = get_group_id(0), lid = get_local_id(0), group = heads / key_heads;
  const int b = get_group_id(1) / key_heads, hk = get_group_id(1) % key_heads;
  for (int e = lid; e < width; e += BLOCK) key_row[e] = READ(ROWS_OF(k, b, hk) + (long)key * k_row, e) * scale;
  for (int e = lid; e < value_width; e += BLOCK) value_row[e] = READ(ROWS_OF(v, b, hk) + (long)key * v_row, e);
  float key_sums[COLUMNS], value_sums[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) key_sums[c] = value_sums[c] = 0;
  SYNC;
  for (int member = 0; member < group; ++member) {
    const int h = hk * group + member, bh = b * heads + h;
    for (int start = causal ? key / BLOCK * BLOCK : 0; start < length; start += BLOCK) {
      const int row = start + lid;
      float weight = 0, gradient = 0;
      if (row < length && !(causal && key > row)) {
        float x = dot_row(key_row, ROWS_OF(q, b, h) + (long)row * q_row, width);
#if BIAS
        x += READ(ROWS_OF(bias, b, h) + (long)row * bias_row, key);
#endif
        const float keep = KEEP(row, key),
                    dp = dot_row(value_row, ROWS_OF(dout, b, h) + (long)row * dout_row, value_width) * keep;
        const float probability = x == -INFINITY ? 0 : exp(x - lse[(long)bh * length + row]);
        weight = probability * keep;
        gradient = x == -INFINITY ? 0 : probability * (dp - delta[(long)bh * length + row]);
      }
      weights[lid] = weight;
      gradients[lid] = gradient;
      SYNC;
      const int present = MIN_OF(BLOCK, length - start);
      for (int c = 0; c < COLUMNS; ++c) {
        const int e = lid + c * BLOCK;
        for (int j = 0; j < present; ++j) {
          if (e < width)
            key_sums[c] = fma(gradients[j], READ(ROWS_OF(q, b, h) + (long)(start + j) * q_row, e), key_sums[c]);
          if (e < value_width)
            value_sums[c] = fma(weights[j], READ(ROWS_OF(dout, b, h) + (long)(start + j) * dout_row, e), value_sums[c]);
        }
      }
      SYNC;
    }
  }
  for (int c = 0; c < COLUMNS; ++c) {
    const int e = lid + c * BLOCK;
    const float key_grad = key_sums[c] * scale, value_grad = value_sums[c];
    if (e < width) STORE(X_DTYPE, float32, ROWS_OF(dk, b, hk) + (long)key * dk_row, e, key_grad);
    if (e < value_width) STORE(X_DTYPE, float32, ROWS_OF(dv, b, hk) + (long)key * dv_row, e, value_grad);
  }
}
#endif
