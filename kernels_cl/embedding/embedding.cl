// Gradients of embedding tables, bags of embeddings, renormalisation (csrc/ops/embedding/embedding.h).
// D: dtype of table and gradients, A: accumulator (float32, or float64 for float64). Fat: a work-item does `block`
// rows, 64 columns at a
// time in registers. GPU: a work-group per row, a work-item per column.
#include "common/device_errors.clh"
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef A
#define A float32
#endif
#ifndef INDEX_DTYPE
#define INDEX_DTYPE int64
#endif
#define INDEX STORAGE(INDEX_DTYPE)
#define ELEMENT STORAGE(D)
#define V VALUE(A)
#define V16 VALUE_V(A, 16)

// Rows of the work-item or work-group, and its columns.
#if CPU_STYLE
#define FOR_ROWS(r, count) for (long r = get_group_id(0) * block, end_ = MIN_OF(r + block, count); r < end_; ++r)
#define FIRST_COLUMN 0
#define COLUMN_STEP 1
#else
#define FOR_ROWS(r, count) for (long r = get_group_id(0); r < count; r += get_num_groups(0))
#define FIRST_COLUMN get_local_id(0)
#define COLUMN_STEP get_local_size(0)
#endif

// ---- backward: table row r = sum over its look-ups
typedef struct {
  __global const ELEMENT* grad;
  __global const int* order;
  __global const INDEX* bag;
  __global const ELEMENT* weights;
  __global const INDEX* bag_size;
  long width;
  int has_bag, has_weights, has_size;
} Lookups;

// Source row and factor of look-up p.
static inline __global const ELEMENT* lookup(const Lookups* l, int p, V* factor) {
  long row = p;
  if (l->has_bag) row = l->bag[p];
  if (l->has_weights) *factor *= LOAD(D, A, l->weights, p);
  if (l->has_size) *factor /= (V)l->bag_size[row];
  return l->grad + row * l->width;
}

TASK_KERNEL void embedding_backward(global ELEMENT* out, global const ELEMENT* grad, global const int* starts,
                                    global const int* order, global const INDEX* bag, global const ELEMENT* weights,
                                    global const INDEX* bag_size, long rows, long width, long padding, int by_frequency,
                                    int has_bag, int has_weights, int has_size, long block) {
  const Lookups l = {grad, order, bag, weights, bag_size, width, has_bag, has_weights, has_size};
  FOR_ROWS(r, rows) {
    const int from = starts[r], to = r == padding ? from : starts[r + 1];
    const V scale = by_frequency && to > from ? (V)1 / (V)(to - from) : (V)1;
    __global ELEMENT* row = out + r * width;
    long c = FIRST_COLUMN;
#if CPU_STYLE
    if (from == to) {
      const V16 zero = (V16)(0);
      for (; c + 16 <= width; c += 16) STOREV(D, A, 16, row, c, zero);
    }
    for (; c + 64 <= width; c += 64) {
      V16 a0 = (V16)(0), a1 = a0, a2 = a0, a3 = a0;
      for (int i = from; i < to; ++i) {
        V factor = scale;
        __global const ELEMENT* g = lookup(&l, order[i], &factor);
        a0 += LOADV(D, A, 16, g, c) * factor;
        a1 += LOADV(D, A, 16, g, c + 16) * factor;
        a2 += LOADV(D, A, 16, g, c + 32) * factor;
        a3 += LOADV(D, A, 16, g, c + 48) * factor;
      }
      STOREV(D, A, 16, row, c, a0);
      STOREV(D, A, 16, row, c + 16, a1);
      STOREV(D, A, 16, row, c + 32, a2);
      STOREV(D, A, 16, row, c + 48, a3);
    }
    for (; c + 16 <= width; c += 16) {
      V16 a0 = (V16)(0);
      for (int i = from; i < to; ++i) {
        V factor = scale;
        __global const ELEMENT* g = lookup(&l, order[i], &factor);
        a0 += LOADV(D, A, 16, g, c) * factor;
      }
      STOREV(D, A, 16, row, c, a0);
    }
#endif
    for (; c < width; c += COLUMN_STEP) {
      V sum = 0;
      for (int i = from; i < to; ++i) {
        V factor = scale;
        __global const ELEMENT* g = lookup(&l, order[i], &factor);
        sum += LOAD(D, A, g, c) * factor;
      }
      STORE(D, A, row, c, sum);
    }
  }
}

// ---- bags
// MODE 0 sum, 1 mean, 2 max
#ifndef MODE
#define MODE 0
#endif

typedef struct {
  __global const ELEMENT* table;
  __global const INDEX* indices;
  __global const ELEMENT* weights;
  long rows, width, padding;
  int has_weights;
} Table;

// The row of position p, or -1 when it does not count.
static inline long counted_row(const Table* t, long p) {
  const long k = t->indices[p];
  return k < 0 || k >= t->rows || k == t->padding ? -1 : k;
}

// Column c of one bag.
static inline void bag_column(const Table* t, long from, long to, V scale, __global ELEMENT* out,
                              __global INDEX* max_rows, long c) {
  V result = 0;
  long best = -1;
  for (long p = from; p < to; ++p) {
    const long k = counted_row(t, p);
    if (k < 0) continue;
    V value = LOAD(D, A, t->table, k * t->width + c);
#if MODE == 2
    if (best < 0 || value > result) {
      result = value;
      best = k;
    }
#else
    if (t->has_weights) value *= LOAD(D, A, t->weights, p);
    result += value;
#endif
  }
  const V scaled = result * scale;
  STORE(D, A, out, c, scaled);
#if MODE == 2
  max_rows[c] = (INDEX)best;
#endif
}

TASK_KERNEL void embedding_bag(global ELEMENT* out, global INDEX* bag, global INDEX* bag_size, global INDEX* max_rows,
                               global const ELEMENT* table, global const INDEX* indices, global const INDEX* offsets,
                               global const ELEMENT* weights, global int* error, long bags, long positions,
                               long last_offset, long rows, long width, long padding, int has_weights, int code,
                               int offsets_code, long block) {
  const Table t = {table, indices, weights, rows, width, padding, has_weights};
  if (get_global_id(0) == 0 && (offsets[0] != 0 || offsets[bags - 1 + last_offset] > positions))
    report_error(error, offsets_code, 0, 0);
  FOR_ROWS(b, bags) {
    // offsets are the user's: never outside the positions
    const long from = MIN_OF(MAX_OF((long)offsets[b], 0), positions);
    const long stop = b + 1 < bags || last_offset ? (long)offsets[b + 1] : positions,
               to = MIN_OF(MAX_OF(stop, from), positions);
    long count = 0;
    for (long p = from; p < to; ++p) {
      const long k = indices[p];
      if (k < 0 || k >= rows) {
        if (FIRST_COLUMN == 0) report_error(error, code, k, rows);
      } else {
        count += k != padding;
      }
      if (FIRST_COLUMN == 0) bag[p] = (INDEX)b;
    }
    if (FIRST_COLUMN == 0) bag_size[b] = (INDEX)count;
    const V scale = MODE == 1 && count > 0 ? (V)1 / (V)count : (V)1;
    __global ELEMENT* row = out + b * width;
    long c = FIRST_COLUMN;
#if CPU_STYLE && MODE != 2
    for (; c + 32 <= width; c += 32) {
      V16 a0 = (V16)(0), a1 = a0;
      for (long p = from; p < to; ++p) {
        const long k = counted_row(&t, p);
        if (k < 0) continue;
        V16 v0 = LOADV(D, A, 16, table, k * width + c), v1 = LOADV(D, A, 16, table, k * width + c + 16);
        if (has_weights) {
          const V w = LOAD(D, A, weights, p);
          v0 *= w;
          v1 *= w;
        }
        a0 += v0;
        a1 += v1;
      }
      const V16 s0 = a0 * scale, s1 = a1 * scale;
      STOREV(D, A, 16, row, c, s0);
      STOREV(D, A, 16, row, c + 16, s1);
    }
#endif
    for (; c < width; c += COLUMN_STEP) bag_column(&t, from, to, scale, row, max_rows + b * width, c);
  }
}

// One work-item per position in both styles.
kernel void embedding_bag_weights_backward(global ELEMENT* out, global const ELEMENT* grad, global const ELEMENT* table,
                                           global const INDEX* indices, global const INDEX* bag, long positions,
                                           long rows, long width, long padding) {
  const long p = get_global_id(0);
  if (p >= positions) return;
  const long k = indices[p];
  V sum = 0;
  if (k >= 0 && k < rows && k != padding)
    for (long c = 0; c < width; ++c)
      sum += LOAD(D, A, grad, (long)bag[p] * width + c) * LOAD(D, A, table, k * width + c);
  STORE(D, A, out, p, sum);
}

// One work-item per table row; rows without look-ups are left alone.
kernel void embedding_renorm(global ELEMENT* table, global const int* starts, long rows, long width, V max_norm,
                             V norm_type) {
  const long r = get_global_id(0);
  if (r >= rows || starts[r] == starts[r + 1]) return;
  __global ELEMENT* row = table + r * width;
  V norm = 0;
  for (long c = 0; c < width; ++c) {
    const V x = fabs(LOAD(D, A, row, c));
    if (isinf(norm_type))
      norm = x > norm || x != x ? x : norm;
    else
      norm += norm_type == 2 ? x * x : norm_type == 1 ? x : norm_type == 0 ? (V)(x != 0) : pow(x, norm_type);
  }
  if (norm_type == 2)
    norm = sqrt(norm);
  else if (!isinf(norm_type) && norm_type != 1 && norm_type != 0)
    norm = pow(norm, 1 / norm_type);
  if (!(norm > max_norm)) return;
  const V scale = max_norm / (norm + (V)1e-7);
  for (long c = 0; c < width; ++c) {
    const V x = LOAD(D, A, row, c) * scale;
    STORE(D, A, row, c, x);
  }
}
