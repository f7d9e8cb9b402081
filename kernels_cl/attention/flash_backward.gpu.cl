// Gradients of attention on tensor cores, without storing scores (Dao 2023, "FlashAttention-2"): they are made again, a
// few columns at
// a time, from q, k and lse. Contract: attention/attention.clh and attention/flash.gpu.cl. A group has 64 own rows, and
// tiles of TILE_ROWS others come by:
//   attention_backward_query (OWN_KEYS 0)   own q and dout, tiles of k and v:    delta = sum of out * dout; dq
//   attention_backward_key   (OWN_KEYS 1)   own k and v, tiles of q and dout of every query head of the key head: dk,
//   dv. Needs delta.
// Both make P = exp(scores - lse) and dscores = P (dropout(dP) - delta), dP = dout v^T, with own rows as rows; no sum
// needs a second group.
// Grid of groups: (ceil(own rows / ROWS), B times heads), the longest first when causal.
#ifndef X_DTYPE
#define X_DTYPE bfloat16
#define WIDTH 64
#define OWN_KEYS 1
#endif
#define WARPS 4
#define ROW_BLOCKS 1
#define COLUMNS (WIDTH <= 64 && !OWN_KEYS && !IS_WORD ? 32 : 16)
#include "attention/flash.clh"

#define KEPT_BYTES 1024
#define TILE_ROWS (4 * BLOCK * PITCH * 4 / PER_UNIT + KEPT_BYTES <= LOCAL_BYTES ? 64 : 32)

#define STAGE(t) (tiles + (t) % 2 * (2 * TILE_ROWS * PITCH))
#define DECLARE_TILES __local DATA tiles[4 * TILE_ROWS * PITCH] __attribute__((aligned(16)));
#define WAIT_FOR_TILE \
  WAIT_FOR_COPIES(0); \
  barrier(CLK_LOCAL_MEM_FENCE)

// What belongs to the queries of a lane's sums: to those of its rows, or of its columns.
#if OWN_KEYS
#define QUERY_VALUES (COLUMNS / 4)
#define OF_QUERY(x, j, e) (x)[2 * (j) + (e) % 2]
#else
#define QUERY_VALUES 2
#define OF_QUERY(x, j, e) (x)[(e) / 2]
#endif
// lse in units of log2 e and delta of these queries, of one head; nothing is left of a query that does not exist.
INLINE void load_queries(float lse2[QUERY_VALUES], float deltas[QUERY_VALUES], __global const float* lse,
                         __global const float* delta, int first, int length, int lane) {
  UNROLL for (int i = 0; i < QUERY_VALUES; i++) {
    const int query = first + (OWN_KEYS ? SUM_COLUMN(lane, i / 2, i) : SUM_ROW(lane, 2 * i));
    lse2[i] = query < length ? lse[query] * LOG2_E : INFINITY;
    deltas[i] = query < length ? delta[query] : 0;
  }
}

// Which elements of P dropout keeps, of `count` queries and the 64 keys of a block: bit i of [query][r] is key 16 i +
// r.
#if DROPOUT
#define DECLARE_KEPT __local uchar kept[KEPT_BYTES];
INLINE void find_kept(__local uchar* kept, int count, int query, int block, ulong seed, ulong offset, uint threshold,
                      int bh, int length, int keys, int item) {
  for (int i = item; i < count * 16; i += GROUP_ITEMS) {
    uint words[4], bits = 0;
    philox(seed, DROPOUT_COUNTER(bh, query + i / 16, block) + i % 16, 0, words);
    UNROLL for (int w = 0; w < 4; w++) bits |= (uint)(words[w] < threshold) << w;
    kept[i] = (uchar)bits;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
#define FIND_KEPT(count, query, block) \
  find_kept(kept, count, query, block, seed, offset, threshold, bh, length, keys, item)
#else
#define DECLARE_KEPT __local const uchar* const kept = 0;
#define FIND_KEPT(count, query, block)
#endif

// From scores (of factor: units of log2 e) and dP: weights = dropout(P) but for keep_scale, gradients = dscores. `own`,
// `other`: the first own row and column, counted from the first query of `kept` and from the first key of its block.
INLINE void make_gradients(float weights[COLUMNS / 8][4], float gradients[COLUMNS / 8][4],
                           const float lse2[QUERY_VALUES], const float deltas[QUERY_VALUES], float factor,
                           float keep_scale, __local const uchar* kept, int own, int other, int lane) {
  UNROLL for (int j = 0; j < COLUMNS / 8; j++) UNROLL for (int e = 0; e < 4; e++) {
    float p, product = gradients[j][e];
    EXP2(p, fma(weights[j][e], factor, -OF_QUERY(lse2, j, e)));
    weights[j][e] = p;
#if DROPOUT
    const int row = own + SUM_ROW(lane, e), column = other + SUM_COLUMN(lane, j, e), query = OWN_KEYS ? column : row,
              key = OWN_KEYS ? row : column;
    const int keep = kept[query * 16 + key % 16] >> (key / 16) & 1;
    product = keep ? product * keep_scale : 0;
    if (!keep) weights[j][e] = 0;
#endif
    gradients[j][e] = p == 0 ? 0 : p * (product - OF_QUERY(deltas, j, e));
  }
}

#define BACKWARD_ARGUMENTS                                                                                           \
  global const DATA *q, global const DATA *k, global const DATA *v, global const DATA *bias, global const DATA *out, \
      global const DATA *dout, global const float *lse, global float *delta, global DATA *dq, global DATA *dk,       \
      global DATA *dv, long q_batch, long q_head, long q_row, long k_batch, long k_head, long k_row, long v_batch,   \
      long v_head, long v_row, long bias_batch, long bias_head, long bias_row, long out_batch, long out_head,        \
      long out_row, long dout_batch, long dout_head, long dout_row, long dq_batch, long dq_head, long dq_row,        \
      long dk_batch, long dk_head, long dk_row, long dv_batch, long dv_head, long dv_row, SHAPE_ARGUMENTS
#define BACKWARD_BEGIN                                                                                               \
  DECLARE_TILES DECLARE_EXCHANGE(GROUP_ITEMS)                                                                        \
  DECLARE_KEPT const int item = get_local_id(0), lane = item % WARP_ITEMS, warp_row = item / WARP_ITEMS * WARP_ROWS; \
  const float factor = scale * LOG2_E;                                                                               \
  uint own0[1][WIDTH / FRAGMENT_K][4], own1[1][WIDTH / FRAGMENT_K][4];                                               \
  float lse2[QUERY_VALUES], deltas[QUERY_VALUES];
// Fragments of the own rows of two operands, which pass through the tiles.
#define LOAD_OWN(x, x_row, width_x, y, y_row, width_y, end)                   \
  copy_rows(tiles, x, x_row, first, ROWS, end, width_x, item);                \
  copy_rows(tiles + ROWS * PITCH, y, y_row, first, ROWS, end, width_y, item); \
  END_OF_COPIES;                                                              \
  WAIT_FOR_TILE;                                                              \
  load_own(own0[0], tiles + warp_row * PITCH, lane, exchange);                \
  load_own(own1[0], tiles + (ROWS + warp_row) * PITCH, lane, exchange);       \
  barrier(CLK_LOCAL_MEM_FENCE);
// weights and gradients of own rows with COLUMNS rows of tiles `other0`, `other1`, which begin at row `start` of their
// operand.
#define MAKE_GRADIENTS(other0, other1, start, own_kept, other_kept)                                                 \
  float weights[1][COLUMNS / 8][4], gradients[1][COLUMNS / 8][4];                                                   \
  multiply_transposed(weights, own0, other0, lane, exchange);                                                       \
  multiply_transposed(gradients, own1, other1, lane, exchange);                                                     \
  if (BIAS || !all_seen(row, start, length, keys, causal))                                                          \
    mask_scores(weights[0], HEAD_BIAS, bias_row, factor, row, start, length, keys, causal, lane);                   \
  make_gradients(weights[0], gradients[0], lse2, deltas, BIAS ? 1 : factor, keep_scale, kept, own_kept, other_kept, \
                 lane);
#define CLEAR_SUMS(sums) \
  UNROLL for (int j_ = 0; j_ < WIDTH / 8; j_++) UNROLL for (int e_ = 0; e_ < 4; e_++) sums[0][j_][e_] = 0;

#if !OWN_KEYS
#define COPY_TILE(t)                                                                                                 \
  if ((t) < steps) {                                                                                                 \
    copy_rows(STAGE(t), key_rows, k_row, (t) * TILE_ROWS, TILE_ROWS, keys, width, item);                             \
    copy_rows(STAGE(t) + TILE_ROWS * PITCH, value_rows, v_row, (t) * TILE_ROWS, TILE_ROWS, keys, value_width, item); \
  }                                                                                                                  \
  END_OF_COPIES

// Sum of out * dout of a row of the lane; grad: fragments of dout.
INLINE float row_delta(uint grad[WIDTH / FRAGMENT_K][4], __global const DATA* out_row, int width, int h, int lane,
                       __local uint* exchange) {
  float sum = 0;
  UNROLL for (int i = 0; i < CHUNKS; i++) {
    const int e = i * CHUNK + lane % 4 * PER_UNIT;
    const uint x = e < width ? *(__global const uint*)(out_row + e) : 0, y = grad[i / 2][h + i % 2 * 2];
    UNROLL for (int part = 0; part < PER_UNIT; part++) sum = fma(part_of_unit(x, part), part_of_unit(y, part), sum);
  }
  return quad_sum(sum, exchange);
}

GROUP_KERNEL void attention_backward_query(BACKWARD_ARGUMENTS) {
  BACKWARD_BEGIN
  const int first = (causal ? get_num_groups(0) - 1 - get_group_id(0) : get_group_id(0)) * ROWS, row = first + warp_row,
            bh = get_group_id(1);
  const int b = bh / heads, h = bh % heads, hk = h / (heads / key_heads),
            limit = causal ? MIN_OF(keys, first + ROWS) : keys;
  const int steps = (limit + TILE_ROWS - 1) / TILE_ROWS;
  __global const DATA* key_rows = ROWS_OF(k, b, hk);
  __global const DATA* value_rows = ROWS_OF(v, b, hk);
  float sums[1][WIDTH / 8][4];
  CLEAR_SUMS(sums)
  LOAD_OWN(ROWS_OF(q, b, h), q_row, width, ROWS_OF(dout, b, h), dout_row, value_width, length)
  COPY_TILE(0);
  load_queries(lse2, deltas, lse + (long)bh * length, delta + (long)bh * length, row, length, lane);
  UNROLL for (int i = 0; i < 2; i++) {
    const int r = MIN_OF(row + SUM_ROW(lane, 2 * i), length - 1);
    deltas[i] = row_delta(own1[0], ROWS_OF(out, b, h) + r * out_row, value_width, i, lane, exchange);
    if (lane % 4 == 0 && row + SUM_ROW(lane, 2 * i) < length) delta[(long)bh * length + r] = deltas[i];
  }
  for (int t = 0; t < steps; t++) {
    WAIT_FOR_TILE;
    COPY_TILE(t + 1);
    const int start = t * TILE_ROWS;
#if DROPOUT
    if (start % BLOCK == 0) FIND_KEPT(BLOCK, first, start / BLOCK);
#endif
    _Pragma("unroll 1") for (int part = 0; part < TILE_ROWS; part += COLUMNS) {
      __local const DATA* key_tile = STAGE(t) + part * PITCH;
      MAKE_GRADIENTS(key_tile, key_tile + TILE_ROWS * PITCH, start + part, warp_row, start % BLOCK + part)
      multiply_rows(sums, gradients, key_tile, lane, exchange);
    }
  }
  const float scales[2] = {scale, scale};
  WAIT_FOR_TILE;
  put_sums(tiles + warp_row * PITCH, sums[0], scales, lane);
  barrier(CLK_LOCAL_MEM_FENCE);
  store_rows(tiles, ROWS_OF(dq, b, h), dq_row, first, ROWS, length, width, item);
}
#else
// Tile t: of query head t / tiles of the group of heads, the tiles that see the first own key.
#define FIRST_QUERY(t) (((t) % tiles_of_head + first_tile) * TILE_ROWS)
#define COPY_TILE(t)                                                                                              \
  if ((t) < steps) {                                                                                              \
    const int head_ = hk * group + (t) / tiles_of_head;                                                           \
    copy_rows(STAGE(t), ROWS_OF(q, b, head_), q_row, FIRST_QUERY(t), TILE_ROWS, length, width, item);             \
    copy_rows(STAGE(t) + TILE_ROWS * PITCH, ROWS_OF(dout, b, head_), dout_row, FIRST_QUERY(t), TILE_ROWS, length, \
              value_width, item);                                                                                 \
  }                                                                                                               \
  END_OF_COPIES

GROUP_KERNEL void attention_backward_key(BACKWARD_ARGUMENTS) {
  BACKWARD_BEGIN
  const int first = get_group_id(0) * ROWS, row = first + warp_row, group = heads / key_heads;
  const int b = get_group_id(1) / key_heads, hk = get_group_id(1) % key_heads;
  const int first_tile = causal ? first / TILE_ROWS : 0,
            tiles_of_head = MAX_OF((length + TILE_ROWS - 1) / TILE_ROWS - first_tile, 0);
  const int steps = tiles_of_head * group;
  float key_sums[1][WIDTH / 8][4], value_sums[1][WIDTH / 8][4];
  CLEAR_SUMS(key_sums)
  CLEAR_SUMS(value_sums)
  LOAD_OWN(ROWS_OF(k, b, hk), k_row, width, ROWS_OF(v, b, hk), v_row, value_width, keys)
  COPY_TILE(0);
  for (int t = 0; t < steps; t++) {
    WAIT_FOR_TILE;
    COPY_TILE(t + 1);
    const int h = hk * group + t / tiles_of_head, bh = b * heads + h, start = FIRST_QUERY(t);
    FIND_KEPT(TILE_ROWS, start, first / BLOCK);
    _Pragma("unroll 1") for (int part = 0; part < TILE_ROWS; part += COLUMNS) {
      __local const DATA* query_tile = STAGE(t) + part * PITCH;
      load_queries(lse2, deltas, lse + (long)bh * length, delta + (long)bh * length, start + part, length, lane);
      MAKE_GRADIENTS(query_tile, query_tile + TILE_ROWS * PITCH, start + part, warp_row, part)
      multiply_rows(value_sums, weights, query_tile + TILE_ROWS * PITCH, lane, exchange);
      multiply_rows(key_sums, gradients, query_tile, lane, exchange);
    }
  }
  const float scales[2] = {scale, scale}, keep_scales[2] = {DROPOUT ? keep_scale : 1, DROPOUT ? keep_scale : 1};
  WAIT_FOR_TILE;
  put_sums(tiles + warp_row * PITCH, key_sums[0], scales, lane);
  put_sums(tiles + (ROWS + warp_row) * PITCH, value_sums[0], keep_scales, lane);
  barrier(CLK_LOCAL_MEM_FENCE);
  store_rows(tiles, ROWS_OF(dk, b, hk), dk_row, first, ROWS, keys, width, item);
  store_rows(tiles + ROWS * PITCH, ROWS_OF(dv, b, hk), dv_row, first, ROWS, keys, value_width, item);
}
#endif
