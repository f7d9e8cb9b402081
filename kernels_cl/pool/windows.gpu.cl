// Pooling over square windows of KERNEL_W (2 or 3) neighbours of a plane, GPU, both layouts. Forward: a work-item per
// output; backward, of the maximum and with STRIDE_W (1 or 2) in both directions: one per input. Fewer than 2^31 of
// either. Results are those of pool/pool.cl; all elements are loaded before the first is looked at.
#include "pool/pool.clh"

#ifndef KERNEL_W
#define KERNEL_W 3
#endif
#define GROUP 256
#define TAPS (KERNEL_W * KERNEL_W)
#ifndef STRIDE_W
#define STRIDE_W 2
#endif
#define EACH_TAP _Pragma("unroll") for (int t = 0; t < TAPS; ++t)

// The pixel and the channel of element i, and the distance of neighbouring pixels of a channel.
#if CHANNELS_LAST
#define PIXEL_AND_CHANNEL const uint step = (uint)s.channels, pixel = i / step, channel = i - pixel * step;
#else
#define PIXEL_AND_CHANNEL const uint step = 1, pixel = i, channel = 0;
#endif

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void windows_forward(global const X* restrict x,
                                                                               global X* restrict y,
                                                                               global long* restrict index, PoolShape s,
                                                                               int outputs) {
  const uint i = get_global_id(0);
  if (i >= (uint)outputs) return;
  PIXEL_AND_CHANNEL
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

#if POOL_MAX && STRIDE_W
#define MEETING ((KERNEL_W + STRIDE_W - 1) / STRIDE_W)  // windows that hold an element, in each direction
#define EACH_WINDOW _Pragma("unroll") for (int t = 0; t < MEETING * MEETING; ++t)

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void windows_backward(global const X* restrict g,
                                                                                global const long* restrict index,
                                                                                global X* restrict dx, PoolShape s,
                                                                                int inputs) {
  const uint i = get_global_id(0);
  if (i >= (uint)inputs) return;
  PIXEL_AND_CHANNEL
  const uint row = pixel / (uint)s.in[2], plane = row / (uint)s.in[1];
  const int h = (int)(row - plane * (uint)s.in[1]), w = (int)(pixel - row * (uint)s.in[2]), mine = h * s.in[2] + w;
  // the last windows that may hold it; those before them may as well
  const int out_h = (h + s.padding[1]) / STRIDE_W, out_w = (w + s.padding[2]) / STRIDE_W;
  const long first = (long)plane * s.out_plane * step + channel;
  long from[MEETING * MEETING];
  acc v[MEETING * MEETING];
  EACH_WINDOW {
    const int th = out_h - MEETING + 1 + t / MEETING, tw = out_w - MEETING + 1 + t % MEETING;
    const bool inside = (uint)th < (uint)s.out[1] && (uint)tw < (uint)s.out[2];
    const long at = first + (long)(th * s.out[2] + tw) * step;
    from[t] = -1, v[t] = 0;
    if (inside) from[t] = index[at], v[t] = LOADX(X_DTYPE, g, at);
  }
  acc sum = 0;
  EACH_WINDOW if (from[t] == mine) sum += v[t];
  STOREX(X_DTYPE, dx, i, sum);
}
#endif
