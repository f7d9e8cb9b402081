// Pooling, one work-item per element, both styles and every layout and window. Forward: y = max or mean over the
// window, index =
// position of the maximum in its input plane (the last NaN, else the first of equal values). Backward: every input
// element
// gathers from the windows that hold it: no atomics.
#include "common/divide.clh"
#include "pool/pool.clh"

typedef struct {
  long base;  // offset of the element's plane
  long step;  // between neighbouring positions of a plane
  int d, h, w;
} Position;

static inline Position locate_element(long i, long channels, long plane, const int* extent) {
  Position r;
  long at;
#if CHANNELS_LAST
  const long pixel = divide(i, channels), n = divide(pixel, plane);
  at = pixel - n * plane;
  r.base = n * plane * channels + (i - pixel * channels);
  r.step = channels;
#else
  r.base = divide(i, plane) * plane;
  r.step = 1;
  at = i - r.base;
#endif
  const long row = divide(at, extent[2]), depth = divide(row, extent[1]);
  r.w = at - row * extent[2];
  r.h = row - depth * extent[1];
  r.d = depth;
  return r;
}

// Offset of the same channel's plane in the other tensor of the pass.
static inline long other_plane(Position p, long channels, long plane, long other) {
#if CHANNELS_LAST
  const long pixel = divide(p.base, channels);
  return divide(pixel, plane) * other * channels + (p.base - pixel * channels);
#else
  return divide(p.base, plane) * other;
#endif
}

#define EACH_ELEMENT(total) for (long i = get_global_id(0); i < (total); i += get_global_size(0))

kernel void pool_forward(global const X* restrict x, global X* restrict y, global long* restrict index, PoolShape s) {
  EACH_ELEMENT(s.batch * s.channels * s.out_plane) {
    const Position o = locate_element(i, s.channels, s.out_plane, s.out);
    const Window wd = window_of(&s, 0, o.d), wh = window_of(&s, 1, o.h), ww = window_of(&s, 2, o.w);
    __global const X* in = x + other_plane(o, s.channels, s.out_plane, s.in_plane);
#if POOL_MAX
    acc best = -INFINITY;
    long at = ((long)wd.first * s.in[1] + wh.first) * s.in[2] + ww.first;
#else
    acc sum = 0, sum1 = 0, sum2 = 0, sum3 = 0;  // chains of additions that do not wait for each other
#if CPU_STYLE && !CHANNELS_LAST
    accv sums = (accv)0;  // wide windows, such as the whole plane
#endif
#endif
    for (int d = 0; d < wd.count; ++d)
      for (int h = 0; h < wh.count; ++h) {
        const long row = ((long)(wd.first + d * wd.step) * s.in[1] + wh.first + h * wh.step) * s.in[2] + ww.first;
        int w = 0;
#if !POOL_MAX && CPU_STYLE && !CHANNELS_LAST
        for (; w + LANES <= ww.count; w += LANES) sums += LOADXV(X_DTYPE, in, row + w);
#endif
#if !POOL_MAX
        for (; w + 4 <= ww.count; w += 4) {
          sum += LOADX(X_DTYPE, in, (row + w * ww.step) * o.step);
          sum1 += LOADX(X_DTYPE, in, (row + (w + 1) * ww.step) * o.step);
          sum2 += LOADX(X_DTYPE, in, (row + (w + 2) * ww.step) * o.step);
          sum3 += LOADX(X_DTYPE, in, (row + (w + 3) * ww.step) * o.step);
        }
#endif
        for (; w < ww.count; ++w) {
          const acc v = LOADX(X_DTYPE, in, (row + w * ww.step) * o.step);
#if POOL_MAX
          if (v > best || v != v) best = v, at = row + w * ww.step;
#else
          sum += v;
#endif
        }
      }
#if POOL_MAX
    STOREX(X_DTYPE, y, i, best);
    index[i] = at;
#else
    sum = (sum + sum1) + (sum2 + sum3);
#if CPU_STYLE && !CHANNELS_LAST
    sum += sum_lanes(sums);
#endif
    STOREX(X_DTYPE, y, i, sum / divisor_of(&s, wd.size * wh.size * ww.size));
#endif
  }
}

kernel void pool_backward(global const X* restrict g, global const long* restrict index, global X* restrict dx,
                          PoolShape s) {
  EACH_ELEMENT(s.batch * s.channels * s.in_plane) {
    const Position p = locate_element(i, s.channels, s.in_plane, s.in);
    const long out = other_plane(p, s.channels, s.in_plane, s.out_plane),
               mine = ((long)p.d * s.in[1] + p.h) * s.in[2] + p.w;
    int d0, d1, h0, h1, w0, w1;
    outputs_of(&s, 0, p.d, &d0, &d1);
    outputs_of(&s, 1, p.h, &h0, &h1);
    outputs_of(&s, 2, p.w, &w0, &w1);
    acc sum = 0;
    for (int d = d0; d <= d1; ++d)
      for (int h = h0; h <= h1; ++h)
        for (int w = w0; w <= w1; ++w) {
          const long at = out + (((long)d * s.out[1] + h) * s.out[2] + w) * p.step;
#if POOL_MAX
          if (index[at] == mine) sum += LOADX(X_DTYPE, g, at);
#else
          const int size = window_of(&s, 0, d).size * window_of(&s, 1, h).size * window_of(&s, 2, w).size;
          sum += LOADX(X_DTYPE, g, at) / divisor_of(&s, size);
#endif
        }
    STOREX(X_DTYPE, dx, i, sum);
  }
}
