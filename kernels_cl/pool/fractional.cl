// Fractional max pooling: window o of an axis begins at floor((o + u) alpha) - floor(u alpha), alpha = (in - kernel) /
// (out - 1), and the
// last one ends with the axis. One work-item per output, both styles.
// Defines: X_DTYPE, LANES.
#include "params/pool.h"
#include "common/lanes.clh"

#pragma OPENCL FP_CONTRACT OFF

#define X STORAGE(X_DTYPE)

static inline int start_of(const FractionalPoolShape* s, int axis, int o, __global const X* samples) {
  const int room = s->input[axis] - s->kernel_size[axis];
  if (s->sample[axis] < 0 || o == s->output[axis] - 1) return room;
  const acc alpha = (acc)room / (acc)(s->output[axis] - 1), u = LOADX(X_DTYPE, samples, s->sample[axis]);
  return (int)((o + u) * alpha) - (int)(u * alpha);
}

kernel void fractional_max_pool(global const X* restrict x, global const X* restrict samples, global X* restrict y,
                                global long* restrict index, FractionalPoolShape s) {
  const long volume = (long)s.output[0] * s.output[1] * s.output[2],
             plane_size = (long)s.input[0] * s.input[1] * s.input[2];
  for (long i = get_global_id(0); i < s.planes * volume; i += get_global_size(0)) {
    const long plane = i / volume, at = i - plane * volume;
    __global const X* u = samples + plane * s.axes;
    const int d0 = start_of(&s, 0, at / (s.output[1] * s.output[2]), u),
              h0 = start_of(&s, 1, at / s.output[2] % s.output[1], u);
    const int w0 = start_of(&s, 2, at % s.output[2], u);
    long best = ((long)d0 * s.input[1] + h0) * s.input[2] + w0;
    acc greatest = -INFINITY;
    for (int d = d0; d < d0 + s.kernel_size[0]; ++d)
      for (int h = h0; h < h0 + s.kernel_size[1]; ++h)
        for (int w = w0; w < w0 + s.kernel_size[2]; ++w) {
          const long place = ((long)d * s.input[1] + h) * s.input[2] + w;
          const acc v = LOADX(X_DTYPE, x, plane * plane_size + place);
          if (v > greatest || isnan(v)) greatest = v, best = place;
        }
    STOREX(X_DTYPE, y, i, greatest);
    index[i] = best;
  }
}
