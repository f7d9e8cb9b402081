// Pooling forward over square windows of KERNEL_W (2 or 3) neighbours of a plane, SIMT: a work-item per output, fewer than 2^31 of them, both
// layouts. Results are those of pool.cl; all elements of a window are loaded before the first is looked at.
#include "common/pool.clh"

#ifndef KERNEL_W
#define KERNEL_W 3
#endif
#define GROUP 256
#define TAPS (KERNEL_W * KERNEL_W)
#define EACH_TAP _Pragma("unroll") for (int t = 0; t < TAPS; ++t)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void windows_forward(TENSOR(const X, x), TENSOR(X, y), TENSOR(long, index), PoolShape s,
                                                                                 int outputs) {
  OPEN_RESTRICT(const X, x);
  OPEN_RESTRICT(X, y);
  OPEN_RESTRICT(long, index);
  const uint i = get_global_id(0);
  if (i >= (uint)outputs) return;
#if CHANNELS_LAST
  const uint step = (uint)s.channels, pixel = i / step, channel = i - pixel * step;
#else
  const uint step = 1, pixel = i, channel = 0;
#endif
  const uint row = pixel / (uint)s.out[2], plane = row / (uint)s.out[1];
  const int out_h = (int)(row - plane * (uint)s.out[1]), out_w = (int)(pixel - row * (uint)s.out[2]);
  const int h = out_h * s.stride[1] - s.padding[1], w = out_w * s.stride[2] - s.padding[2];  // where the window begins
  __global const X* in = x + (long)plane * s.in_plane * step + channel;
  acc v[TAPS];
  EACH_TAP {
    const int th = h + t / KERNEL_W, tw = w + t % KERNEL_W;
    const bool inside = (uint)th < (uint)s.in[1] && (uint)tw < (uint)s.in[2];
    v[t] = POOL_MAX ? (acc)-INFINITY : (acc)0;
    if (inside) v[t] = LOADX(X_DTYPE, in, (long)(th * s.in[2] + tw) * step);
  }
#if POOL_MAX
  acc best = -INFINITY;
  int at = MAX_OF(h, 0) * s.in[2] + MAX_OF(w, 0);
  EACH_TAP if (v[t] > best || v[t] != v[t]) best = v[t], at = (h + t / KERNEL_W) * s.in[2] + w + t % KERNEL_W;
  STOREX(X_DTYPE, y, i, best);
  index[i] = at;
#else
  acc sum = 0;
  EACH_TAP sum += v[t];
  STOREX(X_DTYPE, y, i, sum / divisor_of(&s, window_of(&s, 1, out_h).size * window_of(&s, 2, out_w).size));
#endif
}
