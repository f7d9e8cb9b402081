// Resampling, CPU kernels. planes_*: channels first, a row at a time through a row buffer in local memory of `in[2]`
// padded elements;
// channels_*: channels last, lanes are channels.
#include "upsample/upsample.clh"

#define EACH(total, i)                                                  \
  for (long i = (total) * get_group_id(0) / get_num_groups(0),          \
            end_ = (total) * (get_group_id(0) + 1) / get_num_groups(0); \
       i < end_; ++i)

CPU_KERNEL void planes_forward(global const X* restrict x, global X* restrict y, TABLE_ARGUMENTS, UpsampleShape s,
                               local acc* restrict line) {
  const long plane_rows = (long)s.out[0] * s.out[1];
  const int width = s.in[2];
  __global const int* columns = index + s.tap_base[2];
  __global const acc* weights = weight + s.tap_base[2];
  EACH(s.batch * s.channels * plane_rows, r) {
    const int row = r % plane_rows, td = TAPS_OF(0, row / s.out[1]), th = TAPS_OF(1, row % s.out[1]);
    __global const X* in = x + r / plane_rows * s.in_plane;
    __global X* out = y + r * s.out[2];
    if (s.taps[1] == 1 && s.taps[0] == 1 && s.taps[2] == 1) {
      __global const X* only = in + ((long)index[td] * s.in[1] + index[th]) * width;
      for (int o = 0; o < s.out[2]; ++o) out[o] = only[columns[o]];
      continue;
    }
    for (int a = 0; a < s.taps[0]; ++a)
      for (int b = 0; b < s.taps[1]; ++b) {
        __global const X* source = in + ((long)index[td + a] * s.in[1] + index[th + b]) * width;
        const acc w = weight[td + a] * weight[th + b];
        if (a + b == 0) {
          for (int i = 0; i < width; i += LANES) VSTOREX(w * LOADXV(X_DTYPE, source, i), 0, line + i);
        } else {
          for (int i = 0; i < width; i += LANES)
            VSTOREX(fma((accv)w, LOADXV(X_DTYPE, source, i), VLOADX(0, line + i)), 0, line + i);
        }
      }
    if (s.taps[2] == 2) {
      for (int o = 0; o < s.out[2]; ++o)
        STOREX(X_DTYPE, out, o,
               fma(weights[2 * o], line[columns[2 * o]], weights[2 * o + 1] * line[columns[2 * o + 1]]));
    } else {
      for (int o = 0; o < s.out[2]; ++o) {
        acc v = 0;
        for (int t = 0; t < s.taps[2]; ++t) v = fma(weights[o * s.taps[2] + t], line[columns[o * s.taps[2] + t]], v);
        STOREX(X_DTYPE, out, o, v);
      }
    }
  }
}

// A task owns whole planes of dx (float32 and float64: sums are kept there).
CPU_KERNEL void planes_backward(global const X* restrict g, global X* restrict dx, TABLE_ARGUMENTS, UpsampleShape s,
                                local acc* restrict line) {
  const int width = s.in[2], taps = s.taps[2];
  __global const int* columns = index + s.tap_base[2];
  __global const acc* weights = weight + s.tap_base[2];
  EACH(s.batch * s.channels, plane) {
    __global X* out = dx + plane * s.in_plane;
    __global const X* in = g + plane * s.out_plane;
    for (long i = 0; i < s.in_plane; ++i) STOREX(X_DTYPE, out, i, 0);
    for (int d = 0; d < s.out[0]; ++d)
      for (int h = 0; h < s.out[1]; ++h, in += s.out[2]) {
        for (int i = 0; i < width; i += LANES) VSTOREX((accv)0, 0, line + i);
        for (int o = 0; o < s.out[2]; ++o) {
          const acc v = LOADX(X_DTYPE, in, o);
          for (int t = 0; t < taps; ++t) line[columns[o * taps + t]] += weights[o * taps + t] * v;
        }
        const int td = TAPS_OF(0, d), th = TAPS_OF(1, h);
        for (int a = 0; a < s.taps[0]; ++a)
          for (int b = 0; b < s.taps[1]; ++b) {
            __global X* target = out + ((long)index[td + a] * s.in[1] + index[th + b]) * width;
            const acc w = weight[td + a] * weight[th + b];
            int i = 0;
            for (; i + LANES <= width; i += LANES)
              STOREXV(X_DTYPE, target, i, fma((accv)w, VLOADX(0, line + i), LOADXV(X_DTYPE, target, i)));
            for (; i < width; ++i) STOREX(X_DTYPE, target, i, fma(w, line[i], LOADX(X_DTYPE, target, i)));
          }
      }
  }
}

static inline void store_lanes(__global X* y, long at, accv v, long channels) {
  if (channels >= LANES) {
    STOREXV(X_DTYPE, y, at, v);
  } else {
    STORE_FIRST(X_DTYPE, y, at, v, channels);
  }
}

#define POSITION(at, extent) \
  const int pw = (at) % (extent)[2], ph = (at) / (extent)[2] % (extent)[1], pd = (at) / (extent)[2] / (extent)[1];
#define EACH_BLOCK(c) \
  for (long c0_ = 0, c = 0; c = MAX_OF(0, MIN_OF(c0_, s.channels - LANES)), c0_ < s.channels; c0_ += LANES)

CPU_KERNEL void channels_forward(global const X* restrict x, global X* restrict y, TABLE_ARGUMENTS, UpsampleShape s) {
  EACH(s.batch * s.out_plane, pixel) {
    const long n = pixel / s.out_plane;
    POSITION((int)(pixel % s.out_plane), s.out);
    const int td = TAPS_OF(0, pd), th = TAPS_OF(1, ph), tw = TAPS_OF(2, pw);
    EACH_BLOCK(c) {
      accv sum = (accv)0;
      for (int a = 0; a < s.taps[0]; ++a)
        for (int b = 0; b < s.taps[1]; ++b)
          for (int k = 0; k < s.taps[2]; ++k) {
            const long at = ((long)index[td + a] * s.in[1] + index[th + b]) * s.in[2] + index[tw + k];
            sum = fma((accv)(weight[td + a] * weight[th + b] * weight[tw + k]),
                      LOADXV(X_DTYPE, x, (n * s.in_plane + at) * s.channels + c), sum);
          }
      store_lanes(y, pixel * s.channels + c, sum, s.channels);
    }
  }
}

CPU_KERNEL void channels_backward(global const X* restrict g, global X* restrict dx, TABLE_ARGUMENTS, UpsampleShape s) {
  EACH(s.batch * s.in_plane, pixel) {
    const long n = pixel / s.in_plane;
    POSITION((int)(pixel % s.in_plane), s.in);
    EACH_BLOCK(c) {
      accv sum = (accv)0;
      for (int d = FIRST_OF(0, pd); d <= LAST_OF(0, pd); ++d) {
        const acc wd = weight_of(index, weight, TAPS_OF(0, d), s.taps[0], pd);
        for (int h = FIRST_OF(1, ph); h <= LAST_OF(1, ph); ++h) {
          const acc wh = wd * weight_of(index, weight, TAPS_OF(1, h), s.taps[1], ph);
          for (int w = FIRST_OF(2, pw); w <= LAST_OF(2, pw); ++w) {
            const acc v = wh * weight_of(index, weight, TAPS_OF(2, w), s.taps[2], pw);
            const long at = ((long)d * s.out[1] + h) * s.out[2] + w;
            sum = fma((accv)v, LOADXV(X_DTYPE, g, (n * s.out_plane + at) * s.channels + c), sum);
          }
        }
      }
      store_lanes(dx, pixel * s.channels + c, sum, s.channels);
    }
  }
}
