// One axis of bytes resampled with 16-bit weights (csrc/ops/upsample/bytes.h): y[a, o, b] from x[a, first[o] + t, b], a
// < outer, b < inner.
// One work-item per element, both styles.
#include "params/upsample.h"
#include "common/types.clh"

kernel void resample_axis(global const uchar* restrict x, global uchar* restrict y, global const int* restrict first,
                          global const short* restrict weight, AxisShape s) {
  for (long i = get_global_id(0); i < s.outer * s.out * s.inner; i += get_global_size(0)) {
    const long row = i / s.inner, b = i - row * s.inner, a = row / s.out, o = row - a * s.out;
    __global const uchar* source = x + (a * s.in + first[o]) * s.inner + b;
    int sum = 1 << (s.precision - 1);
    for (int t = 0; t < s.taps; ++t) {
      const int w = weight[o * s.taps + t];
      if (w != 0) sum += w * source[t * s.inner];
    }
    y[i] = clamp(sum >> s.precision, 0, 255);
  }
}
