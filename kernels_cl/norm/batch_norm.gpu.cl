// Batch normalisation, GPU kernels: the same steps and layouts as norm/batch_norm.cpu.cl and
// norm/batch_norm_backward.cpu.cl. Statistics by Chan's combination of the work-items' moments in local memory.
// Work-groups: 256 items. planes_*: one group per (channel, part). rows_*: 32 channels x 8 rows per group and part.
// Defines: X_DTYPE, W_DTYPE, R_DTYPE, LANES.
#include "common/divide.clh"
#include "norm/batch_norm.clh"

#define ITEMS 256
#define ROW_CHANNELS 32
#define ROW_ITEMS (ITEMS / ROW_CHANNELS)
#define GPU_KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

typedef struct {
  acc count, mean, squares;
} Welford;

// Sums of a work-item's values relative to the first of them, which is as good as near their mean; made into moments at
// the end.
typedef struct {
  acc count, shift, sum, squares;
} Shifted;

static inline void add_value(Shifted* s, acc v) {
  if (s->count == 0 && fabs(v) < INFINITY) s->shift = v;
  const acc d = v - s->shift;
  s->count += 1;
  s->sum += d;
  s->squares = fma(d, d, s->squares);
}
static inline Welford moments_of(Shifted s) {
  Welford w = {s.count, s.shift, 0};
  if (s.count == 0) return w;
  const acc mean = s.sum / s.count;
  w.mean += mean;
  w.squares = fmax(s.squares - s.sum * mean, (acc)0);
  if (s.squares != s.squares) w.squares = s.squares;
  return w;
}

static inline Welford merged(Welford a, Welford b) {
  Welford r = a;
  if (b.count > 0) {
    const acc delta = b.mean - a.mean;
    r.count = a.count + b.count;
    r.mean = a.mean + delta * (b.count / r.count);
    r.squares = a.squares + b.squares + delta * delta * (a.count * b.count / r.count);
  }
  return r;
}

// Items `stride` apart hold values of one channel; the sum over them ends in the first `stride` items.
#define REDUCE(shared, value, stride, merge)                                    \
  shared[item] = value;                                                         \
  for (int half_ = ITEMS / 2; half_ >= (stride); half_ /= 2) {                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                               \
    if (item < half_) shared[item] = merge(shared[item], shared[item + half_]); \
  }                                                                             \
  barrier(CLK_LOCAL_MEM_FENCE);

// Walks (n, p) of a part, ITEMS apart, without a division per element; BATCH elements are loaded (LOADS, with n_ and
// p_, into v_ and w_) before
// they are used (USE).
#define BATCH 4
#define EACH_OF_PART(LOADS, USE)                                                                               \
  {                                                                                                            \
    const long width_ = p1 - p0, step_n_ = width_ ? ITEMS / width_ : 0, step_p_ = width_ ? ITEMS % width_ : 0; \
    if (width_ > 0)                                                                                            \
      for (long n = n0 + item / width_, p = p0 + item % width_; n < n1;) {                                     \
        acc v[BATCH], w[BATCH];                                                                                \
        int many = 0;                                                                                          \
        _Pragma("unroll") for (int u = 0; u < BATCH; u++) {                                                    \
          v[u] = w[u] = 0;                                                                                     \
          if (n < n1) {                                                                                        \
            LOADS;                                                                                             \
            many = u + 1;                                                                                      \
          }                                                                                                    \
          n += step_n_;                                                                                        \
          p += step_p_;                                                                                        \
          if (p >= p1) p -= width_, ++n;                                                                       \
        }                                                                                                      \
        _Pragma("unroll") for (int u = 0; u < BATCH; u++) if (u < many) USE;                                   \
      }                                                                                                        \
  }

static inline void put_statistics(__global acc* partial, long padded, long part, long c, Welford w) {
  partial += 3 * part * padded + c;
  partial[0] = w.count;
  partial[padded] = w.mean;
  partial[2 * padded] = w.squares;
}

GPU_KERNEL void planes_statistics(global const X* restrict x, global acc* restrict partial, PlaneShape shape,
                                  int parts) {
  __local Welford shared[ITEMS];
  const int item = get_local_id(0), part = get_group_id(1);
  const long c = get_group_id(0);
  long n0, n1, p0, p1;
  part_range(shape, parts, part, &n0, &n1, &p0, &p1);
  x += c * shape.x_channel;
  Shifted mine = {0, 0, 0, 0};
  EACH_OF_PART(v[u] = LOADX(X_DTYPE, x, n * shape.x_batch + p), add_value(&mine, v[u]));
  REDUCE(shared, moments_of(mine), 1, merged);
  if (item == 0) put_statistics(partial, shape.padded, part, c, shared[0]);
}

GPU_KERNEL void rows_statistics(global const X* restrict x, global acc* restrict partial, RowShape shape, int parts) {
  __local Welford shared[ITEMS];
  const int item = get_local_id(0), part = get_group_id(1);
  const long c = get_group_id(0) * ROW_CHANNELS + item % ROW_CHANNELS, r1 = shape.rows * (part + 1) / parts;
  Shifted mine = {0, 0, 0, 0};
  if (c < shape.channels) {
    long r = shape.rows * part / parts + item / ROW_CHANNELS;
    for (; r + (BATCH - 1) * ROW_ITEMS < r1; r += BATCH * ROW_ITEMS) {
      acc v[BATCH];
#pragma unroll
      for (int u = 0; u < BATCH; u++) v[u] = LOADX(X_DTYPE, x, (r + u * ROW_ITEMS) * shape.x_row + c);
#pragma unroll
      for (int u = 0; u < BATCH; u++) add_value(&mine, v[u]);
    }
    for (; r < r1; r += ROW_ITEMS) add_value(&mine, LOADX(X_DTYPE, x, r * shape.x_row + c));
  }
  REDUCE(shared, moments_of(mine), ROW_CHANNELS, merged);
  if (item < ROW_CHANNELS && c < shape.channels) put_statistics(partial, shape.padded, part, c, shared[item]);
}

typedef struct {
  acc sum, dot;
} Sums;

static inline Sums added(Sums a, Sums b) {
  const Sums r = {a.sum + b.sum, a.dot + b.dot};
  return r;
}

static inline void add_gradient(Sums* s, acc g, acc x, acc mean) {
  s->sum += g;
  s->dot = fma(g, x - mean, s->dot);
}

static inline void put_sums(__global acc* partial, long padded, long part, long c, Sums s) {
  partial += 2 * part * padded + c;
  partial[0] = s.sum;
  partial[padded] = s.dot;
}

GPU_KERNEL void planes_sums(global const X* restrict x, global const X* restrict g, global const acc* restrict mean,
                            global acc* restrict partial, PlaneShape shape, int parts) {
  __local Sums shared[ITEMS];
  const int item = get_local_id(0), part = get_group_id(1);
  const long c = get_group_id(0);
  long n0, n1, p0, p1;
  part_range(shape, parts, part, &n0, &n1, &p0, &p1);
  x += c * shape.x_channel;
  g += c * shape.y_channel;
  const acc m = mean[c];
  Sums mine = {0, 0};
  EACH_OF_PART(v[u] = LOADX(X_DTYPE, g, n * shape.y_batch + p);
               w[u] = LOADX(X_DTYPE, x, n * shape.x_batch + p), add_gradient(&mine, v[u], w[u], m));
  REDUCE(shared, mine, 1, added);
  if (item == 0) put_sums(partial, shape.padded, part, c, shared[0]);
}

GPU_KERNEL void rows_sums(global const X* restrict x, global const X* restrict g, global const acc* restrict mean,
                          global acc* restrict partial, RowShape shape, int parts) {
  __local Sums shared[ITEMS];
  const int item = get_local_id(0), part = get_group_id(1);
  const long c = get_group_id(0) * ROW_CHANNELS + item % ROW_CHANNELS, r1 = shape.rows * (part + 1) / parts;
  Sums mine = {0, 0};
  if (c < shape.channels) {
    const acc m = mean[c];
    long r = shape.rows * part / parts + item / ROW_CHANNELS;
    for (; r + (BATCH - 1) * ROW_ITEMS < r1; r += BATCH * ROW_ITEMS) {
      acc v[BATCH], w[BATCH];
#pragma unroll
      for (int u = 0; u < BATCH; u++) {
        v[u] = LOADX(X_DTYPE, g, (r + u * ROW_ITEMS) * shape.y_row + c);
        w[u] = LOADX(X_DTYPE, x, (r + u * ROW_ITEMS) * shape.x_row + c);
      }
#pragma unroll
      for (int u = 0; u < BATCH; u++) add_gradient(&mine, v[u], w[u], m);
    }
    for (; r < r1; r += ROW_ITEMS)
      add_gradient(&mine, LOADX(X_DTYPE, g, r * shape.y_row + c), LOADX(X_DTYPE, x, r * shape.x_row + c), m);
  }
  REDUCE(shared, mine, ROW_CHANNELS, added);
  if (item < ROW_CHANNELS && c < shape.channels) put_sums(partial, shape.padded, part, c, shared[item]);
}

// ---- elementwise steps, one item per element in the order n, c, p; rows are planes with inner = 1
kernel void elements_apply(global const X* restrict x, global X* restrict y, global const acc* restrict coefficients,
                           PlaneShape shape, int relu) {
  const long total = shape.batch * shape.channels * shape.inner;
  for (long i = get_global_id(0); i < total; i += get_global_size(0)) {
    const long plane = divide(i, shape.inner), p = i - plane * shape.inner, n = divide(plane, shape.channels),
               c = plane - n * shape.channels;
    const acc v = fma(LOADX(X_DTYPE, x, n * shape.x_batch + c * shape.x_channel + p), coefficients[c],
                      coefficients[shape.padded + c]);
    STOREX(X_DTYPE, y, n * shape.y_batch + c * shape.y_channel + p, relu && v < 0 ? 0 : v);
  }
}

kernel void elements_gradient(global const X* restrict x, global const X* restrict g, global X* restrict dx,
                              global const acc* restrict mean, global const acc* restrict coefficients,
                              PlaneShape shape, int train) {
  const long total = shape.batch * shape.channels * shape.inner;
  for (long i = get_global_id(0); i < total; i += get_global_size(0)) {
    const long plane = divide(i, shape.inner), p = i - plane * shape.inner, n = divide(plane, shape.channels),
               c = plane - n * shape.channels;
    acc v = coefficients[c] * LOADX(X_DTYPE, g, n * shape.y_batch + c * shape.y_channel + p);
    if (train)
      v += fma(coefficients[shape.padded + c], LOADX(X_DTYPE, x, n * shape.x_batch + c * shape.x_channel + p) - mean[c],
               coefficients[2 * shape.padded + c]);
    STOREX(X_DTYPE, dx, n * shape.z_batch + c * shape.z_channel + p, v);
  }
}
