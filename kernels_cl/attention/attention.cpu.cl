// Scaled dot-product attention for CPU runtimes, without ever storing the matrix of scores (Dao et al. 2022,
// "FlashAttention";
// online softmax: Milakov and Gimelshein 2018). Contract: attention/attention.clh.
//   attention_forward    task = 64 query rows of one head; walks over blocks of 64 keys
//   attention_backward   task = one key head: all its blocks of keys, and for each all query rows of its group. dq is
//   accumulated in
//                        float32 by this task alone, so nothing needs atomics
//   attention_delta      delta[row] = sum over F of out * dout
// All products are 8 x 32 register tiles: lanes run over keys (scores), over F (P v) or over E (gradients).
// PACKED: E or F is not a multiple of 32; rows whose lanes run over them are copied to local memory, which has room
// behind their ends.
#include "attention/rows.clh"
#include "common/register_tile.clh"
#include "common/transpose16.clh"

#ifndef PACKED
#define PACKED 0
#endif
#define LOCAL16(p) (*(__local const float16*)(p))
#define LOCAL_VECTOR(p, y) LOCAL16((p) + 16 * (y))
#define DATA_VECTOR(p, y) LOAD16(p, 16 * (y))

// c[r][0..31] += sum over k < count of a(k, r) B(k, 0..31), r = 0..7; c: float16[8][2]. a is step_a apart from k to k,
// A says where row r is.
#define OF_TILE(p, r) (p)[(r) * WIDTH]
#define OF_SCORES(p, r) (p)[(r) * BLOCK]
#define TILE(c, count, vectors, a, step_a, A, b, step_b, B) \
  REGISTER_TILE(float16, float16, c, count, vectors, a, step_a, A, b, step_b, B, FUSED_MULTIPLY_ADD)
// b: columns e to e + 31 of `width` of the rows of x, or of their copy.
#if PACKED
#define ROWS_TILE(c, count, a, step_a, A, copy, x, row_stride, e, width) \
  TILE(c, count, (width) - (e) > 16 ? 2 : 1, a, step_a, A, (copy) + (e), WIDTH, LOCAL_VECTOR)
#else
#define ROWS_TILE(c, count, a, step_a, A, copy, x, row_stride, e, width) \
  TILE(c, count, 2, a, step_a, A, (x) + (e), row_stride, DATA_VECTOR)
#endif
#define TILE_ZERO(c) _Pragma("unroll") for (int r_ = 0; r_ < 8; ++r_) c[r_][0] = c[r_][1] = (float16)0
#define TILE_LOAD(c, p)                              \
  _Pragma("unroll") for (int r_ = 0; r_ < 8; ++r_) { \
    c[r_][0] = LOCAL16((p) + r_ * WIDTH);            \
    c[r_][1] = LOCAL16((p) + r_ * WIDTH + 16);       \
  }
#define TILE_STORE(c, p, row_step)                              \
  _Pragma("unroll") for (int r_ = 0; r_ < 8; ++r_) {            \
    *(__local float16*)((p) + r_ * (row_step)) = c[r_][0];      \
    *(__local float16*)((p) + r_ * (row_step) + 16) = c[r_][1]; \
  }

// rows[r][0..width) = factor * x[row clamped to last][..] for `count` rows, rounded up to 8; whole vectors are copied,
// what lies behind `width` is never used.
inline void copy_rows(__global const DATA* x, long row_stride, int first, int last, int count, int width, float factor,
                      __local float* rows) {
  for (int r = 0; r < (count + 7) / 8 * 8; ++r) {
    __global const DATA* p = x + (long)MIN_OF(first + r, last) * row_stride;
    for (int e = 0; e < width; e += 16) *(__local float16*)(rows + r * WIDTH + e) = load_row(p, e, width) * factor;
  }
}

// columns[e][key] = x[key clamped to last][e] for `count` keys, rounded up to 16.
inline void copy_transposed(__global const DATA* x, long row_stride, int first, int last, int count, int width,
                            __local float* columns) {
  for (int j = 0; j < count; j += 16)
    for (int e = 0; e < width; e += 16) {
      float16 m[16];
      for (int r = 0; r < 16; ++r) m[r] = load_row(x + (long)MIN_OF(first + j + r, last) * row_stride, e, width);
      TRANSPOSE16(float16, m)
      for (int r = 0; r < 16; ++r) *(__local float16*)(columns + (e + r) * BLOCK + j) = m[r];
    }
}

// scores[r][key] = products of rows (WIDTH apart) and columns, for `count` rows rounded up to 8 and `present` keys
// rounded up to 32; keys
// beyond the copied ones get zeros. (Their columns are not multiplied: rubbish may be denormal, which slows products a
// hundredfold.)
inline void multiply_block(__local const float* rows_, __local const float* columns, int count, int present, int width,
                           __local float* scores) {
  for (int r = 0; r < count; r += 8)
    for (int j = 0; j < present; j += 32) {
      float16 c[8][2];
      TILE_ZERO(c);
      TILE(c, width, present - j > 16 ? 2 : 1, rows_ + r * WIDTH, 1, OF_TILE, columns + j, BLOCK, LOCAL_VECTOR)
      TILE_STORE(c, scores + r * BLOCK + j, BLOCK)
    }
}

#ifdef FORWARD
CPU_KERNEL void attention_forward(global const DATA* q, global const DATA* k, global const DATA* v,
                                  global const DATA* bias, global DATA* out, global float* lse, long q_batch,
                                  long q_head, long q_row, long k_batch, long k_head, long k_row, long v_batch,
                                  long v_head, long v_row, long bias_batch, long bias_head, long bias_row,
                                  long out_batch, long out_head, long out_row, SHAPE_ARGUMENTS) {
  local float query[BLOCK * WIDTH];
  local float columns[BLOCK * WIDTH];
  local float scores[BLOCK * BLOCK];
  local float sums[BLOCK * WIDTH];
#if PACKED
  local float value_tile[BLOCK * WIDTH];
#else
  __local float* const value_tile = 0;
#endif
  float largest[BLOCK], total[BLOCK];
  const int first = get_group_id(0) * BLOCK, rows = MIN_OF(BLOCK, length - first), bh = get_group_id(1);
  const int b = bh / heads, h = bh % heads, hk = h / (heads / key_heads);
  __global const DATA* key_rows = ROWS_OF(k, b, hk);
  __global const DATA* value_rows = ROWS_OF(v, b, hk);
  __global const DATA* bias_rows = bias;
#if BIAS
  bias_rows = ROWS_OF(bias, b, h);
#endif
  copy_rows(ROWS_OF(q, b, h), q_row, first, length - 1, rows, width, scale, query);
  for (int r = 0; r < BLOCK; ++r) {
    largest[r] = -INFINITY;
    total[r] = 0;
    for (int e = 0; e < value_width; e += 16) *(__local float16*)(sums + r * WIDTH + e) = (float16)0;
  }
  for (int start = 0; start < keys && !(causal && start >= first + rows); start += BLOCK) {
    const int present = MIN_OF(BLOCK, keys - start);
    copy_transposed(key_rows, k_row, start, keys - 1, present, width, columns);
    multiply_block(query, columns, rows, present, width, scores);
    for (int r = 0; r < rows; ++r) {
      const int limit = causal ? MIN_OF(keys, first + r + 1) : keys;
      __local float16* row = (__local float16*)(scores + r * BLOCK);
      float16 x[4];
      for (int j = 0; j < 4; ++j)
        x[j] = masked_scores(row[j], bias_rows + (first + r) * bias_row, start + 16 * j, limit);
      const float16 m01 = x[0] > x[1] ? x[0] : x[1], m23 = x[2] > x[3] ? x[2] : x[3];
      const float block_max = lane_max(m01 > m23 ? m01 : m23);
      const float new_max = block_max > largest[r] ? block_max : largest[r];
      const float base = new_max == -INFINITY ? 0 : new_max;
      const float shrink = largest[r] == base ? 1 : largest[r] == -INFINITY ? 0 : exp(largest[r] - base);
      float16 sum = 0;
      for (int j = 0; j < 4; ++j) {
        x[j] = exp_fast(x[j] - base);
        sum += x[j];
      }
      total[r] = total[r] * shrink + lane_sum(sum);
      largest[r] = new_max;
#if DROPOUT
      uint16 words[4];
      philox(seed, DROPOUT_COUNTER(bh, first + r, start / BLOCK), 0, words);
      for (int j = 0; j < 4; ++j) x[j] = words[j] < threshold ? x[j] * keep_scale : (float16)0;
#endif
      for (int j = 0; j < 4; ++j) row[j] = x[j];
      if (shrink != 1)
        for (int e = 0; e < value_width; e += 16) *(__local float16*)(sums + r * WIDTH + e) *= shrink;
    }
    __global const DATA* values = value_rows + (long)start * v_row;
    if (PACKED) copy_rows(value_rows, v_row, start, keys - 1, present, value_width, 1, value_tile);
    for (int r = 0; r < rows; r += 8)
      for (int e = 0; e < value_width; e += 32) {
        float16 c[8][2];
        TILE_LOAD(c, sums + r * WIDTH + e)
        ROWS_TILE(c, present, scores + r * BLOCK, 1, OF_SCORES, value_tile, values, v_row, e, value_width)
        TILE_STORE(c, sums + r * WIDTH + e, WIDTH)
      }
  }
  for (int r = 0; r < rows; ++r) {
    const int empty = largest[r] == -INFINITY && total[r] == 0;
    const float inverse = empty ? 0 : 1 / total[r];
    __global DATA* y = ROWS_OF(out, b, h) + (long)(first + r) * out_row;
    for (int e = 0; e < value_width; e += 16) {
      const float16 value = *(__local float16*)(sums + r * WIDTH + e) * inverse;
      STORE16(y, e, value_width, value);
    }
    lse[(long)bh * length + first + r] = empty ? INFINITY : largest[r] + log(total[r]);
  }
}
#endif

#ifdef BACKWARD
// One row per task: delta[b, h, row].
CPU_KERNEL void attention_delta(global const DATA* out, global const DATA* dout, global float* delta, long out_batch,
                                long out_head, long out_row, long dout_batch, long dout_head, long dout_row, int heads,
                                int length, int value_width) {
  const int bh = get_group_id(1), b = bh / heads, h = bh % heads;
  for (int row = get_group_id(0) * BLOCK; row < MIN_OF(length, (int)(get_group_id(0) + 1) * BLOCK); ++row) {
    __global const DATA* x = ROWS_OF(out, b, h) + (long)row * out_row;
    __global const DATA* y = ROWS_OF(dout, b, h) + (long)row * dout_row;
    float sum = 0;
    int e = 0;
    float16 sums = 0;
    for (; e + 16 <= value_width; e += 16) sums = fma(LOAD16(x, e), LOAD16(y, e), sums);
    for (; e < value_width; ++e) sum += LOAD(X_DTYPE, float32, x, e) * LOAD(X_DTYPE, float32, y, e);
    delta[(long)bh * length + row] = sum + lane_sum(sums);
  }
}

// grad tile [`present` keys of 64][WIDTH] += transposed weights [rows][64] times rows of x (PACKED: of `tile`)
inline void accumulate_keys(__local const float* weights, __global const DATA* x, long row_stride,
                            __local const float* tile, int rows, int present, int width, __local float* grad) {
  for (int j = 0; j < present; j += 8)
    for (int e = 0; e < width; e += 32) {
      float16 c[8][2];
      TILE_LOAD(c, grad + j * WIDTH + e)
      ROWS_TILE(c, rows, weights + j, BLOCK, NEXT_ELEMENT, tile, x, row_stride, e, width)
      TILE_STORE(c, grad + j * WIDTH + e, WIDTH)
    }
}
inline void clear_tile(__local float* tile) {
  for (int i = 0; i < BLOCK * WIDTH; i += 16) *(__local float16*)(tile + i) = (float16)0;
}

// dq: float32 [B, Hq, L, dq_pitch], zeroed by the caller; dq_pitch is a multiple of 32.
CPU_KERNEL void attention_backward(global const DATA* q, global const DATA* k, global const DATA* v,
                                   global const DATA* bias, global const DATA* dout, global const float* lse,
                                   global const float* delta, global float* dq, global DATA* dk, global DATA* dv,
                                   long q_batch, long q_head, long q_row, long k_batch, long k_head, long k_row,
                                   long v_batch, long v_head, long v_row, long bias_batch, long bias_head,
                                   long bias_row, long dout_batch, long dout_head, long dout_row, long dk_batch,
                                   long dk_head, long dk_row, long dv_batch, long dv_head, long dv_row, int dq_pitch,
                                   SHAPE_ARGUMENTS) {
  local float rows_tile[BLOCK * WIDTH];
  local float key_columns[BLOCK * WIDTH];
  local float value_columns[BLOCK * WIDTH];
  local float p[BLOCK * BLOCK];
  local float ds[BLOCK * BLOCK];
  local float key_grad[BLOCK * WIDTH];
  local float value_grad[BLOCK * WIDTH];
#if PACKED
  local float query_tile[BLOCK * WIDTH];
  local float key_tile[BLOCK * WIDTH];
#else
  __local float *const query_tile = 0, *const key_tile = 0;
#endif
  const int group = heads / key_heads, b = get_group_id(0) / key_heads, hk = get_group_id(0) % key_heads;
  __global const DATA* key_rows = ROWS_OF(k, b, hk);
  __global const DATA* value_rows = ROWS_OF(v, b, hk);
  for (int start = 0; start < keys; start += BLOCK) {
    const int present = MIN_OF(BLOCK, keys - start);
    copy_transposed(key_rows, k_row, start, keys - 1, present, width, key_columns);
    copy_transposed(value_rows, v_row, start, keys - 1, present, value_width, value_columns);
    if (PACKED) copy_rows(key_rows, k_row, start, keys - 1, present, width, 1, key_tile);
    clear_tile(key_grad);
    clear_tile(value_grad);
    for (int member = 0; member < group; ++member) {
      const int h = hk * group + member, bh = b * heads + h;
      __global const DATA* query_rows = ROWS_OF(q, b, h);
      __global const DATA* grad_rows = ROWS_OF(dout, b, h);
      __global const DATA* bias_rows = bias;
#if BIAS
      bias_rows = ROWS_OF(bias, b, h);
#endif
      for (int first = causal ? start : 0; first < length; first += BLOCK) {
        const int rows = MIN_OF(BLOCK, length - first);
        __local float* const queries = PACKED ? query_tile : rows_tile;
        copy_rows(query_rows, q_row, first, length - 1, rows, width, scale, queries);
        multiply_block(queries, key_columns, rows, present, width, p);
        copy_rows(grad_rows, dout_row, first, length - 1, rows, value_width, 1, rows_tile);
        multiply_block(rows_tile, value_columns, rows, present, value_width, ds);
        for (int r = 0; r < rows; ++r) {
          const int limit = causal ? MIN_OF(keys, first + r + 1) : keys;
          const float row_lse = lse[(long)bh * length + first + r], row_delta = delta[(long)bh * length + first + r];
          __local float16* p_row = (__local float16*)(p + r * BLOCK);
          __local float16* ds_row = (__local float16*)(ds + r * BLOCK);
#if DROPOUT
          uint16 words[4];
          philox(seed, DROPOUT_COUNTER(bh, first + r, start / BLOCK), 0, words);
#endif
          for (int j = 0; j < 4; ++j) {
            const float16 x = masked_scores(p_row[j], bias_rows + (first + r) * bias_row, start + 16 * j, limit);
            const float16 weight = exp_fast(x - row_lse);
            float16 dp = ds_row[j], kept = weight;
#if DROPOUT
            dp = words[j] < threshold ? dp * keep_scale : (float16)0;
            kept = words[j] < threshold ? weight * keep_scale : (float16)0;
#endif
            // masked keys hold no number of their own: their products are dropped, not multiplied by zero
            const float16 gradient = x == -INFINITY ? (float16)0 : weight * (dp - row_delta);
            p_row[j] = kept;
            ds_row[j] = gradient;
          }
        }
        accumulate_keys(p, grad_rows + (long)first * dout_row, dout_row, rows_tile, rows, present, value_width,
                        value_grad);
        accumulate_keys(ds, query_rows + (long)first * q_row, q_row, query_tile, rows, present, width, key_grad);
        __global float* query_grad = dq + ((long)bh * length + first) * dq_pitch;
        for (int r = 0; r < rows; r += 8)
          for (int e = 0; e < width; e += 32) {
            float16 c[8][2];
            TILE_ZERO(c);
            ROWS_TILE(c, present, ds + r * BLOCK, 1, OF_SCORES, key_tile, key_rows + (long)start * k_row, k_row, e,
                      width)
            __global float* y = query_grad + (long)r * dq_pitch + e;
#pragma unroll
            for (int i = 0; i < 8; ++i, y += dq_pitch)
              if (r + i < rows) {
                vstore16(vload16(0, y) + c[i][0] * scale, 0, y);
                vstore16(vload16(0, y + 16) + c[i][1] * scale, 0, y + 16);
              }
          }
      }
    }
    for (int j = 0; j < present; ++j) {
      __global DATA* key_out = ROWS_OF(dk, b, hk) + (long)(start + j) * dk_row;
      __global DATA* value_out = ROWS_OF(dv, b, hk) + (long)(start + j) * dv_row;
      for (int e = 0; e < width; e += 16) {
        const float16 value =
            *(__local float16*)(key_grad + j * WIDTH + e) * (PACKED ? 1 : scale);  // query_tile is scaled
        STORE16(key_out, e, width, value);
      }
      for (int e = 0; e < value_width; e += 16) {
        const float16 value = *(__local float16*)(value_grad + j * WIDTH + e);
        STORE16(value_out, e, value_width, value);
      }
    }
  }
}
#endif
