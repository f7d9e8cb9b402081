// Pooling of channels-last tensors, CPU kernels: a task is a range of pixels, lanes are channels. Backward gathers from
// the windows
// that hold the input pixel. Index arithmetic as in pool/pool.cl.
#include "pool/pool.clh"

#define TO_LONGS CAT(convert_long, LANES)

static inline void store_lanes(__global X* y, long at, accv v, long channels) {
  if (channels >= LANES) {
    STOREXV(X_DTYPE, y, at, v);
  } else {
    STORE_FIRST(X_DTYPE, y, at, v, channels);
  }
}

#define EACH_PIXEL(plane, extent)                                                                  \
  const long pixels_ = s.batch * (plane), begin_ = pixels_ * get_group_id(0) / get_num_groups(0);  \
  const long end_ = pixels_ * (get_group_id(0) + 1) / get_num_groups(0), C = s.channels;           \
  for (long pixel = begin_; pixel < end_; ++pixel) {                                               \
    const long n = pixel / (plane);                                                                \
    const int at_ = pixel % (plane), pw = at_ % (extent)[2], ph = at_ / (extent)[2] % (extent)[1], \
              pd = at_ / (extent)[2] / (extent)[1];

CPU_KERNEL void channels_forward(global const X* restrict x, global X* restrict y, global long* restrict index,
                                 PoolShape s) {
  EACH_PIXEL(s.out_plane, s.out)
  const Window wd = window_of(&s, 0, pd), wh = window_of(&s, 1, ph), ww = window_of(&s, 2, pw);
  __global const X* in = x + n * s.in_plane * C;
  for (long i = 0; i < C; i += LANES) {
    const long c = MAX_OF(0, MIN_OF(i, C - LANES));
#if POOL_MAX
    accv best = (accv)-INFINITY;
    maskv at = (maskv)((wd.first * s.in[1] + wh.first) * s.in[2] + ww.first);
#else
    accv sum = (accv)0;
#endif
    for (int d = 0; d < wd.count; ++d)
      for (int h = 0; h < wh.count; ++h)
        for (int w = 0; w < ww.count; ++w) {
          const int position =
              ((wd.first + d * wd.step) * s.in[1] + wh.first + h * wh.step) * s.in[2] + ww.first + w * ww.step;
          const accv v = LOADXV(X_DTYPE, in, position * C + c);
#if POOL_MAX
          const maskv better = (v > best) | (v != v);
          best = better ? v : best;
          at = better ? (maskv)position : at;
#else
          sum += v;
#endif
        }
#if POOL_MAX
    store_lanes(y, pixel * C + c, best, C);
    if (C >= LANES) {
      CAT(vstore, LANES)(TO_LONGS(at), 0, index + pixel * C + c);
    } else {
      long lane[LANES];
      CAT(vstore, LANES)(TO_LONGS(at), 0, lane);
      for (int k = 0; k < C; ++k) index[pixel * C + k] = lane[k];
    }
#else
    store_lanes(y, pixel * C + c, sum / (acc)divisor_of(&s, wd.size * wh.size * ww.size), C);
#endif
  }
}
}

CPU_KERNEL void channels_backward(global const X* restrict g, global const long* restrict index, global X* restrict dx,
                                  PoolShape s) {
  EACH_PIXEL(s.in_plane, s.in)
  int d0, d1, h0, h1, w0, w1;
  outputs_of(&s, 0, pd, &d0, &d1);
  outputs_of(&s, 1, ph, &h0, &h1);
  outputs_of(&s, 2, pw, &w0, &w1);
  for (long i = 0; i < C; i += LANES) {
    const long c = MAX_OF(0, MIN_OF(i, C - LANES));
    accv sum = (accv)0;
    for (int d = d0; d <= d1; ++d)
      for (int h = h0; h <= h1; ++h)
        for (int w = w0; w <= w1; ++w) {
          const long out = (n * s.out_plane + ((long)d * s.out[1] + h) * s.out[2] + w) * C + c;
          const accv v = LOADXV(X_DTYPE, g, out);
#if POOL_MAX
          const maskv chosen = CONVERT_MASKV(CAT(vload, LANES)(0, index + out)) == (maskv)at_;
          sum += chosen ? v : (accv)0;
#else
          sum +=
              v / (acc)divisor_of(&s, window_of(&s, 0, d).size * window_of(&s, 1, h).size * window_of(&s, 2, w).size);
#endif
        }
    store_lanes(dx, pixel * C + c, sum, C);
  }
}
}
