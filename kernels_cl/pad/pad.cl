// Reflection and replication padding of [planes, D, H, W], both styles. Output o of an axis reads input source(o -
// left), source =
// reflection at the border elements, or clamping. Backward sums over the outputs that read an element: no atomics.
// Defines: X_DTYPE, REFLECT (1, else replication), LANES.
#include "params/pad.h"
#include "common/lanes.clh"

#define X STORAGE(X_DTYPE)

static inline int source_of(const PadShape* s, int axis, int o) {
  const int i = o - s->left[axis], last = s->in[axis] - 1;
#if REFLECT
  return i < 0 ? -i : (i > last ? 2 * last - i : i);
#else
  return MAX_OF(0, MIN_OF(i, last));
#endif
}

// Outputs that read input i: `count` of them. No array: GPUs would keep it in memory, as it is indexed at run time.
typedef struct {
  int count, first, second, third;
} Readers;

static inline void add_reader(Readers* r, int o) {
  r->first = r->count == 0 ? o : r->first;
  r->second = r->count == 1 ? o : r->second;
  r->third = r->count == 2 ? o : r->third;
  ++r->count;
}

static inline Readers readers_of(const PadShape* s, int axis, int i) {
  Readers r = {0, 0, 0, 0};
  const int left = s->left[axis], last = s->in[axis] - 1, out = s->out[axis];
#if REFLECT
  if (i + left >= 0 && i + left < out) add_reader(&r, i + left);
  if (i > 0 && left - i >= 0) add_reader(&r, left - i);
  const int mirrored = 2 * last - i + left;
  if (i < last && mirrored >= 0 && mirrored < out) add_reader(&r, mirrored);
#else
  const int first = i == 0 ? 0 : MAX_OF(0, i + left), end = i == last ? out : MIN_OF(out, i + left + 1);
  r.first = first;
  r.count = MAX_OF(0, end - first);
#endif
  return r;
}

#if REFLECT
#define READER(r, k) ((k) == 0 ? (r).first : (k) == 1 ? (r).second : (r).third)
#else
#define READER(r, k) ((r).first + (k))
#endif

#define EACH_ELEMENT(total) for (long i = get_global_id(0); i < (total); i += get_global_size(0))
#define EACH_ROW(total)                                                 \
  for (long r = (total) * get_group_id(0) / get_num_groups(0),          \
            end_ = (total) * (get_group_id(0) + 1) / get_num_groups(0); \
       r < end_; ++r)
#define POSITION(at, extent) \
  const int pw = (at) % (extent)[2], ph = (at) / (extent)[2] % (extent)[1], pd = (at) / (extent)[2] / (extent)[1];

#if !BACKWARD
kernel void elements_forward(global const X* restrict x, global X* restrict y, PadShape s) {
  EACH_ELEMENT(s.planes * s.out_plane) {
    const long plane = i / s.out_plane;
    POSITION(i - plane * s.out_plane, s.out);
    y[i] = x[plane * s.in_plane + ((long)source_of(&s, 0, pd) * s.in[1] + source_of(&s, 1, ph)) * s.in[2] +
             source_of(&s, 2, pw)];
  }
}

#define ELEMENT X
#include "common/copy_run.clh"

// A task is a range of output rows: a copy with scalar borders.
CPU_KERNEL void rows_forward(global const X* restrict x, global X* restrict y, PadShape s) {
  const long rows = (long)s.out[0] * s.out[1];
  const int width = s.out[2], from = MAX_OF(0, s.left[2]), to = MIN_OF(width, s.left[2] + s.in[2]);
  EACH_ROW(s.planes * rows) {
    const int row = r % rows;
    __global const X* in =
        x + r / rows * s.in_plane +
        ((long)source_of(&s, 0, row / s.out[1]) * s.in[1] + source_of(&s, 1, row % s.out[1])) * s.in[2];
    __global X* out = y + r * width;
    for (int o = 0; o < from; ++o) out[o] = in[source_of(&s, 2, o)];
    if (from < to) copy_run(out + from, in + (from - s.left[2]), to - from);
    for (int o = MAX_OF(to, from); o < width; ++o) out[o] = in[source_of(&s, 2, o)];
  }
}
#else
kernel void elements_backward(global const X* restrict g, global X* restrict dx, PadShape s) {
  EACH_ELEMENT(s.planes * s.in_plane) {
    const long plane = i / s.in_plane;
    POSITION(i - plane * s.in_plane, s.in);
    const Readers rd = readers_of(&s, 0, pd), rh = readers_of(&s, 1, ph), rw = readers_of(&s, 2, pw);
    __global const X* in = g + plane * s.out_plane;
    acc sum = 0;
    for (int a = 0; a < rd.count; ++a)
      for (int b = 0; b < rh.count; ++b)
        for (int c = 0; c < rw.count; ++c)
          sum += LOADX(X_DTYPE, in, ((long)READER(rd, a) * s.out[1] + READER(rh, b)) * s.out[2] + READER(rw, c));
    STOREX(X_DTYPE, dx, i, sum);
  }
}

// A task is a range of input rows: elements inside come from one column, borders are summed one by one.
CPU_KERNEL void rows_backward(global const X* restrict g, global X* restrict dx, PadShape s) {
  const long rows = (long)s.in[0] * s.in[1];
  const int width = s.in[2], left = s.left[2], right = s.out[2] - width - left;
  // Columns that only output i + left reads; the others are near the borders.
  const int from = MIN_OF(width, MAX_OF(1, (int)abs(left) + 1)),
            to = MAX_OF(from, MIN_OF(width - 1, width - 1 - (int)abs(right)));
  EACH_ROW(s.planes * rows) {
    const int row = r % rows;
    const Readers rd = readers_of(&s, 0, row / s.in[1]), rh = readers_of(&s, 1, row % s.in[1]);
    __global const X* in = g + r / rows * s.out_plane;
    __global X* out = dx + r * width;
    for (int i = 0; i < width;) {
      const int inner = i >= from && i + LANES <= to;
      const Readers rw = readers_of(&s, 2, i);
      accv sums = (accv)0;
      acc sum = 0;
      for (int a = 0; a < rd.count; ++a)
        for (int b = 0; b < rh.count; ++b) {
          __global const X* line = in + ((long)READER(rd, a) * s.out[1] + READER(rh, b)) * s.out[2];
          if (inner) {
            sums += LOADXV(X_DTYPE, line, i + left);
          } else {
            for (int c = 0; c < rw.count; ++c) sum += LOADX(X_DTYPE, line, READER(rw, c));
          }
        }
      if (inner) {
        STOREXV(X_DTYPE, out, i, sums);
        i += LANES;
      } else {
        STOREX(X_DTYPE, out, i, sum);
        ++i;
      }
    }
  }
}
#endif
