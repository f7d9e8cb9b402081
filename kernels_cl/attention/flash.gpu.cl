// Scaled dot-product attention on tensor cores, without storing scores (Dao 2023, "FlashAttention-2"): a warp keeps
// WARP_ROWS
// query rows, their scores with 64 keys and their sums in registers; the scores' fragments are those of the weights.
// Contract: attention/attention.clh, and: rows of q, k, v and out are whole chunks of 16 bytes, scale > 0. Exponentials
// are powers of two.
// Tiles of keys and values take turns in a ring of STAGES: tile 2 j keys, 2 j + 1 values from row 64 j on. While one is
// used the next are on their way. Grid of groups: (ceil(L / ROWS), B Hq), the longest first when causal.
#ifndef X_DTYPE
#define X_DTYPE bfloat16
#define WIDTH 64
#define ROW_BLOCKS 2
#endif
#define WARPS 4
#define OWN_KEYS 0
#define COLUMNS 64
#include "attention/flash.clh"
#define TILE (BLOCK * PITCH)
#define STAGES (3 * TILE * 4 / PER_UNIT <= LOCAL_BYTES ? 3 : 2)  // query rows pass through those behind the first

// Scores become powers of two of factor * (score - largest); what was summed with a smaller maximum shrinks. total: of
// the lane's columns only.
INLINE void softmax_step(float s[BLOCK / 8][4], float sums[WIDTH / 8][4], float largest[2], float total[2],
                         float factor, __local uint* exchange) {
  UNROLL for (int h = 0; h < 2; h++) {
    float top = largest[h];
    UNROLL for (int j = 0; j < BLOCK / 8; j++) top = fmax(top, fmax(s[j][2 * h], s[j][2 * h + 1]));
    top = quad_max(top, exchange);
    const float base = top == -INFINITY ? 0 : top * factor;
    float shrink, sum = 0;
    EXP2(shrink, fma(largest[h], factor, -base));
    UNROLL for (int j = 0; j < BLOCK / 8; j++) UNROLL for (int e = 2 * h; e < 2 * h + 2; e++) {
      EXP2(s[j][e], fma(s[j][e], factor, -base));
      sum += s[j][e];
    }
    total[h] = fma(total[h], shrink, sum);
    largest[h] = top;
    UNROLL for (int j = 0; j < WIDTH / 8; j++) {
      sums[j][2 * h] *= shrink;
      sums[j][2 * h + 1] *= shrink;
    }
  }
}

// One block of rows: their sums over the sum of weights, to a tile, and lse (of the head) from row `first` on. factor:
// of `largest`, to units of log2 e.
INLINE void finish_rows(__local DATA* rows, float sums[WIDTH / 8][4], const float largest[2], const float total[2],
                        float factor, float keep_scale, __global float* lse, int first, int length, int lane,
                        __local uint* exchange) {
  float inverse[2];
  UNROLL for (int h = 0; h < 2; h++) {
    const float sum = quad_sum(total[h], exchange);
    const int empty = largest[h] == -INFINITY && sum == 0, r = first + SUM_ROW(lane, 2 * h);
    inverse[h] = empty ? 0 : (DROPOUT ? keep_scale : 1) / sum;
    if (lane % 4 == 0 && r < length) lse[r] = empty ? INFINITY : (largest[h] * factor + log2(sum)) * LN_2;
  }
  put_sums(rows, sums, inverse, lane);
}

// Waits until tile t has come and everyone is done with the one before it, whose place the next tile takes.
#define NEXT_TILE(t)            \
  WAIT_FOR_NEWEST;              \
  barrier(CLK_LOCAL_MEM_FENCE); \
  COPY_TILE((t) + STAGES - 1)
#define WAIT_FOR_NEWEST \
  if (STAGES == 3) {    \
    WAIT_FOR_COPIES(1); \
  } else {              \
    WAIT_FOR_COPIES(0); \
  }
#define STAGE(t) (tiles + (t) % STAGES * TILE)
#define COPY_TILE(t)                                                                                            \
  if ((t) < steps)                                                                                              \
    copy_rows(STAGE(t), (t) % 2 ? value_rows : key_rows, (t) % 2 ? v_row : k_row, (t) / 2 * BLOCK, BLOCK, keys, \
              (t) % 2 ? value_width : width, item);                                                             \
  END_OF_COPIES

GROUP_KERNEL void attention_forward(global const DATA* q, global const DATA* k, global const DATA* v,
                                    global const DATA* bias, global DATA* out, global float* lse, long q_batch,
                                    long q_head, long q_row, long k_batch, long k_head, long k_row, long v_batch,
                                    long v_head, long v_row, long bias_batch, long bias_head, long bias_row,
                                    long out_batch, long out_head, long out_row, SHAPE_ARGUMENTS) {
  __local DATA tiles[STAGES * TILE] __attribute__((aligned(16)));
  DECLARE_EXCHANGE(GROUP_ITEMS)
  const int item = get_local_id(0), lane = item % WARP_ITEMS, warp_row = item / WARP_ITEMS * WARP_ROWS,
            bh = get_group_id(1);
  const int first = (causal ? get_num_groups(0) - 1 - get_group_id(0) : get_group_id(0)) * ROWS, row = first + warp_row;
  const int b = bh / heads, h = bh % heads, hk = h / (heads / key_heads),
            limit = causal ? MIN_OF(keys, first + ROWS) : keys;
  const int steps = (limit + BLOCK - 1) / BLOCK * 2;
  const float factor = scale * LOG2_E;
  __global const DATA* key_rows = ROWS_OF(k, b, hk);
  __global const DATA* value_rows = ROWS_OF(v, b, hk);
  uint query[ROW_BLOCKS][WIDTH / FRAGMENT_K][4];
  float sums[ROW_BLOCKS][WIDTH / 8][4], largest[ROW_BLOCKS][2], total[ROW_BLOCKS][2];
  copy_rows(tiles + TILE, ROWS_OF(q, b, h), q_row, first, ROWS, length, width, item);
  COPY_TILE(0);
  WAIT_FOR_COPIES(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
    load_own(query[i], tiles + TILE + (warp_row + 16 * i) * PITCH, lane, exchange);
    UNROLL for (int j = 0; j < WIDTH / 8; j++) UNROLL for (int e = 0; e < 4; e++) sums[i][j][e] = 0;
    largest[i][0] = largest[i][1] = -INFINITY;
    total[i][0] = total[i][1] = 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (STAGES == 3) {
    COPY_TILE(1);
  }
  for (int t = 0; t < steps; t += 2) {
    float s[ROW_BLOCKS][BLOCK / 8][4];
    const int start = t * (BLOCK / 2);
    NEXT_TILE(t);
    multiply_transposed(s, query, STAGE(t), lane, exchange);
    UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
      if (BIAS || !all_seen(row, start, length, keys, causal))
        mask_scores(s[i], HEAD_BIAS, bias_row, factor, row + 16 * i, start, length, keys, causal, lane);
      softmax_step(s[i], sums[i], largest[i], total[i], BIAS ? 1 : factor, exchange);
#if DROPOUT
      UNROLL for (int h = 0; h < 2; h++) { DROP_ROW(s[i], h, row + 16 * i + SUM_ROW(lane, 2 * h), start) }
#endif
    }
    NEXT_TILE(t + 1);
    multiply_rows(sums, s, STAGE(t + 1), lane, exchange);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL for (int i = 0; i < ROW_BLOCKS; i++) {
    finish_rows(tiles + (warp_row + 16 * i) * PITCH, sums[i], largest[i], total[i], BIAS ? 1 : factor, keep_scale,
                lse + (long)bh * length, row + 16 * i, length, lane, exchange);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  store_rows(tiles, ROWS_OF(out, b, h), out_row, first, ROWS, length, value_width, item);
}
