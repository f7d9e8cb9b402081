// Attention of few queries over many keys, for CPU runtimes: a token that a language model writes. Contract:
// attention/attention.clh; no dropout.
//   attention_few_rows  task = (up to ROWS queries that share a head of keys, a part of the keys): reads its keys and
//                       values once, for all of its queries. Where keys have several parts, sums that are not yet
//                       divided go to partial[part][batch, head of queries, query][F + 2]: the weighted sums of
//                       values, the largest score, the sum of exponentials
//   attention_merge     task = a query: the parts together
// Row r of a key head's is query r / group of head r % group. Lanes run over E for scores and over F for values.
#include "params/attention.h"
#include "attention/rows.clh"

#define T float
#define V float16
#define L 16
#include "common/horizontal_sum.clh"
#undef T
#include "common/transpose16.clh"

#define ROWS few_rows_tile
#define TILE_ROWS (NARROW_REGISTERS ? 2 : 4)  // of values' sums in registers
#define QUAD 4                                // rows whose scores are computed together, lanes along E
#define OCTET 8                               // rows whose scores are computed together, lanes along keys

// Rows of keys and values are read where they lie where they are whole vectors (DIRECT), else copied as float32.
#ifndef DIRECT
#define DIRECT 0
#endif
#if DIRECT
#define TILE __global const DATA
#define GET16(p) LOAD16(p, 0)
#else
#define TILE __local const float
#define GET16(p) LOADV(float32, float32, 16, p, 0)
#endif

// `count` rows of x, from `row` on, as float32 with zeros behind their ends.
inline void copy_block(__global const DATA* x, long row_stride, int row, int count, int width, __local float* to) {
  for (int j = 0; j < count; j++)
    for (int e = 0; e < width; e += 16)
      *(__local float16*)(to + j * WIDTH + e) = load_row(x + (row + j) * row_stride, e, width);
}

// What is read next, on its way to the caches while other rows are multiplied: a row at a time.
typedef struct {
  __global const DATA* rows;
  long stride;
  int count, width;
} rows_ahead;
inline void fetch_row(const rows_ahead ahead, int j) {
  if (j < ahead.count)
    for (int e = 0; e < ahead.width; e += 64 / (int)sizeof(DATA)) PREFETCH_FIRST(ahead.rows + j * ahead.stride + e);
}

// scores[r][0..15] of OCTET rows and 16 rows of keys, of which `count` exist: 16 x 16 numbers of keys are transposed,
// which takes less than summing over lanes for so many rows.
inline void score_octet(__local const float* query, TILE* keys, long stride, int count, int width,
                        __local float* scores, const rows_ahead ahead, int first) {
  float16 sum[OCTET];
#pragma unroll
  for (int i = 0; i < OCTET; i++) sum[i] = (float16)0;
  for (int e = 0; e < width; e += 16) {
    for (int j = first + e * 16 / width; j < first + (e + 16) * 16 / width; j++) fetch_row(ahead, j);
    float16 key[16];
#pragma unroll
    for (int j = 0; j < 16; j++) key[j] = GET16(keys + MIN_OF(j, count - 1) * stride + e);
    TRANSPOSE16(float16, key)
#pragma unroll
    for (int x = 0; x < 16; x++)
#pragma unroll
      for (int i = 0; i < OCTET; i++) sum[i] = fma((float16)query[i * WIDTH + e + x], key[x], sum[i]);
  }
#pragma unroll
  for (int i = 0; i < OCTET; i++) *(__local float16*)(scores + i * BLOCK) = sum[i];
}

// scores[r][0..15] of 16 rows of keys, of which `count` exist.
inline void score_keys(__local const float* query, int rows, TILE* keys, long stride, int count, int width,
                       __local float* scores, const rows_ahead ahead, int first) {
  int r = 0;
  if (!NARROW_REGISTERS)
    for (; r + OCTET <= rows; r += OCTET)
      score_octet(query + r * WIDTH, keys, stride, count, width, scores + r * BLOCK,
                  r == 0 ? ahead : (rows_ahead){ahead.rows, 0, 0, 0}, first);
  for (; r < rows; r += QUAD) {
    float16 products[QUAD][16];
    for (int j = 0; j < 16; j++) {
      float16 sum[QUAD];
#pragma unroll
      for (int i = 0; i < QUAD; i++) sum[i] = (float16)0;
      if (r == 0) fetch_row(ahead, first + j);
      if (j < count)
        for (int e = 0; e < width; e += 16) {
          const float16 key = GET16(keys + j * stride + e);
#pragma unroll
          for (int i = 0; i < QUAD; i++)
            sum[i] = fma(*(__local const float16*)(query + (r + i) * WIDTH + e), key, sum[i]);
        }
#pragma unroll
      for (int i = 0; i < QUAD; i++) products[i][j] = sum[i];
    }
#pragma unroll
    for (int i = 0; i < QUAD; i++) *(__local float16*)(scores + (r + i) * BLOCK) = horizontal_sums(products[i]);
  }
}

// sums[r][e ..] += weights[r][j] * values[j][e ..] for TILE_ROWS rows and `vectors` vectors.
inline __attribute__((always_inline)) void add_tile(const int vectors, __local const float* weights, TILE* values,
                                                    long stride, int count, __local float* sums, const rows_ahead ahead,
                                                    int turn, int turns) {
  float16 c[TILE_ROWS][4];
#pragma unroll
  for (int i = 0; i < TILE_ROWS; i++)
#pragma unroll
    for (int x = 0; x < vectors; x++) c[i][x] = *(__local const float16*)(sums + i * WIDTH + 16 * x);
  for (int j = 0; j < count; j++) {
    if (j % turns == turn) fetch_row(ahead, j);
    float16 v[4];
#pragma unroll
    for (int x = 0; x < vectors; x++) v[x] = GET16(values + j * stride + 16 * x);
#pragma unroll
    for (int i = 0; i < TILE_ROWS; i++) {
      const float16 w = (float16)weights[i * BLOCK + j];
#pragma unroll
      for (int x = 0; x < vectors; x++) c[i][x] = fma(w, v[x], c[i][x]);
    }
  }
#pragma unroll
  for (int i = 0; i < TILE_ROWS; i++)
#pragma unroll
    for (int x = 0; x < vectors; x++) *(__local float16*)(sums + i * WIDTH + 16 * x) = c[i][x];
}

// sums[r][0..F) += weights[r][j] * values[j][..] for `rows` rows, rounded up to TILE_ROWS. What lies ahead is fetched
// evenly over all tiles: more misses at a time than the processor can keep would stop it.
inline void add_values(__local const float* weights, int rows, TILE* values, long stride, int count, int width,
                       __local float* sums, const rows_ahead ahead) {
  const int across = NARROW_REGISTERS ? (width + 31) / 32 : width / 64 + (width % 64 + 31) / 32;
  const int turns = (rows + TILE_ROWS - 1) / TILE_ROWS * across;
  int turn = 0;
  for (int r = 0; r < rows; r += TILE_ROWS) {
    int e = 0;
    if (!NARROW_REGISTERS)
      for (; e + 64 <= width; e += 64)
        add_tile(4, weights + r * BLOCK, values + e, stride, count, sums + r * WIDTH + e, ahead, turn++, turns);
    for (; e < width; e += 32)
      add_tile(2, weights + r * BLOCK, values + e, stride, count, sums + r * WIDTH + e, ahead, turn++, turns);
  }
}

CPU_KERNEL void attention_few_rows(global const DATA* q, global const DATA* k, global const DATA* v,
                                   global const DATA* bias, global DATA* out, global float* lse, global float* partial,
                                   long q_batch, long q_head, long q_row, long k_batch, long k_head, long k_row,
                                   long v_batch, long v_head, long v_row, long bias_batch, long bias_head,
                                   long bias_row, long out_batch, long out_head, long out_row, SHAPE_ARGUMENTS,
                                   FewRowsPlan plan) {
  local float query[ROWS * WIDTH];
  local float sums[ROWS * WIDTH];
  local float block[BLOCK * WIDTH];
  local float scores[ROWS * BLOCK];
  const int group = heads / key_heads, first = get_group_id(0) % plan.tiles * ROWS, part = get_group_id(1);
  const int bh = get_group_id(0) / plan.tiles, b = bh / key_heads, hk = bh % key_heads;
  const int rows = MIN_OF(ROWS, group * length - first), padded = (rows + QUAD - 1) / QUAD * QUAD;
  __global const DATA* key_rows = ROWS_OF(k, b, hk);
  __global const DATA* value_rows = ROWS_OF(v, b, hk);
  float largest[ROWS], total[ROWS];
  for (int r = 0; r < padded; r++) {
    const int row = first + MIN_OF(r, rows - 1), h = hk * group + row % group;
    __global const DATA* from = ROWS_OF(q, b, h) + (long)(row / group) * q_row;
    for (int e = 0; e < width; e += 16) *(__local float16*)(query + r * WIDTH + e) = load_row(from, e, width) * scale;
    for (int e = 0; e < WIDTH; e += 16) *(__local float16*)(sums + r * WIDTH + e) = (float16)0;
    for (int j = 0; j < BLOCK; j += 16) *(__local float16*)(scores + r * BLOCK + j) = (float16)0;
    largest[r] = -INFINITY;
    total[r] = 0;
  }
  const int end = MIN_OF(keys, (part + 1) * plan.part_keys);
  for (int start = part * plan.part_keys; start < end; start += BLOCK) {
    const int present = MIN_OF(BLOCK, end - start), next = MIN_OF(BLOCK, end - start - present);
    int seen = 0;  // whether a row sees a key of this block
#if BIAS
    for (int r = 0; r < rows; r++) {
      const int row = first + r, h = hk * group + row % group;
      __global const DATA* line = ROWS_OF(bias, b, h) + (long)(row / group) * bias_row;
      for (int j = 0; j < present; j += 16) seen |= any_lane(load_row(line, start + j, end) != (float16)-INFINITY);
    }
    if (!seen) continue;
#endif
    const rows_ahead next_values = {value_rows + start * v_row, v_row, present, value_width};
    const rows_ahead next_keys = {key_rows + (start + present) * k_row, k_row, next, width};
#if DIRECT
    TILE* tile = key_rows + start * k_row;
    const long key_stride = k_row, value_stride = v_row;
#else
    TILE* tile = block;
    const long key_stride = WIDTH, value_stride = WIDTH;
    copy_block(key_rows, k_row, start, present, width, block);
#endif
    for (int j = 0; j < present; j += 16)
      score_keys(query, rows, tile + j * key_stride, key_stride, MIN_OF(16, present - j), width, scores + j,
                 next_values, j);
#if DIRECT
    tile = next_values.rows;
#else
    copy_block(value_rows, v_row, start, present, value_width, block);
#endif
    for (int r = 0; r < rows; r++) {
      const int row = first + r, h = hk * group + row % group, query_index = row / group;
      const int limit = causal ? MIN_OF(end, query_index + 1) : end;
      __global const DATA* bias_of_row = bias;
#if BIAS
      bias_of_row = ROWS_OF(bias, b, h) + (long)query_index * bias_row;
#endif
      __local float16* line = (__local float16*)(scores + r * BLOCK);
      float16 x[4], most = (float16)-INFINITY;
      for (int j = 0; j < 4; j++) {
        x[j] = 16 * j < present ? masked_scores(line[j], bias_of_row, start + 16 * j, limit) : (float16)-INFINITY;
        most = x[j] > most ? x[j] : most;
      }
      const float block_max = lane_max(most), new_max = block_max > largest[r] ? block_max : largest[r];
      const float base = new_max == -INFINITY ? 0 : new_max;
      const float shrink = largest[r] == base ? 1 : largest[r] == -INFINITY ? 0 : exp(largest[r] - base);
      float16 sum = (float16)0;
      for (int j = 0; j < 4; j++) {
        x[j] = exp_fast(x[j] - base);
        sum += x[j];
        line[j] = x[j];
      }
      total[r] = total[r] * shrink + lane_sum(sum);
      largest[r] = new_max;
      if (shrink != 1)
        for (int e = 0; e < value_width; e += 16) *(__local float16*)(sums + r * WIDTH + e) *= shrink;
    }
    add_values(scores, rows, tile, value_stride, present, value_width, sums, next_keys);
  }
  for (int r = 0; r < rows; r++) {
    const int row = first + r, h = hk * group + row % group, query_index = row / group;
    const long at = ((long)b * heads + h) * length + query_index;
    if (plan.parts > 1) {
      __global float* to = partial + (part * (long)(get_num_groups(0) / plan.tiles / key_heads) * heads * length + at) *
                                         (value_width + 2);
      for (int e = 0; e < value_width; e += 16)
        PUT_LANES(float32, float32, to, e, value_width, *(__local const float16*)(sums + r * WIDTH + e));
      to[value_width] = largest[r];
      to[value_width + 1] = total[r];
      continue;
    }
    const int empty = largest[r] == -INFINITY && total[r] == 0;
    const float inverse = empty ? 0 : 1 / total[r];
    __global DATA* y = ROWS_OF(out, b, h) + (long)query_index * out_row;
    for (int e = 0; e < value_width; e += 16) {
      const float16 value = *(__local const float16*)(sums + r * WIDTH + e) * inverse;
      STORE16(y, e, value_width, value);
    }
    lse[at] = empty ? INFINITY : largest[r] + log(total[r]);
  }
}

// partial: [parts][queries][F + 2]. Grid: queries.
CPU_KERNEL void attention_merge(global const float* partial, global DATA* out, global float* lse, long out_batch,
                                long out_head, long out_row, int heads, int length, int value_width, int parts,
                                long queries) {
  const long at = get_group_id(0), step = queries * (value_width + 2);
  const int bh = at / length, b = bh / heads, h = bh % heads;
  __global const float* from = partial + at * (value_width + 2);
  float largest = -INFINITY, total = 0;
  for (int part = 0; part < parts; part++) {
    const float x = from[part * step + value_width];
    largest = x > largest ? x : largest;
  }
  float16 sums[WIDTH / 16];
  for (int e = 0; e < value_width; e += 16) sums[e / 16] = (float16)0;
  for (int part = 0; part < parts; part++) {
    __global const float* line = from + part * step;
    const float x = line[value_width], sum = line[value_width + 1];
    if (x == -INFINITY && sum == 0) continue;
    const float weight = x == largest ? 1 : exp(x - largest);
    total += weight * sum;
    for (int e = 0; e < value_width; e += 16) sums[e / 16] = fma(vload16(0, line + e), weight, sums[e / 16]);
  }
  const int empty = largest == -INFINITY && total == 0;
  const float inverse = empty ? 0 : 1 / total;
  __global DATA* y = ROWS_OF(out, b, h) + (at % length) * out_row;
  for (int e = 0; e < value_width; e += 16) STORE16(y, e, value_width, sums[e / 16] * inverse);
  lse[at] = empty ? INFINITY : largest + log(total);
}
