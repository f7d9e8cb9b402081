// Resampling, one work-item per element, both styles and layouts. Backward gathers over the outputs that use the
// element.
#include "upsample/upsample.clh"

#define EACH_ELEMENT(total) for (long i = get_global_id(0); i < (total); i += get_global_size(0))

// Position (d, h, w) of element i in its plane, plane offset in the other tensor (`other` elements per plane), step of
// positions.
#if CHANNELS_LAST
#define LOCATE(plane, other, extent)                                                                          \
  const long pixel_ = i / s.channels, c_ = i - pixel_ * s.channels, n_ = pixel_ / (plane), step = s.channels; \
  const long at_ = pixel_ - n_ * (plane), base = n_ * (other) * s.channels + c_;
#else
#define LOCATE(plane, other, extent) \
  const long plane_ = i / (plane), at_ = i - plane_ * (plane), base = plane_ * (other), step = 1;
#endif
#define POSITION(extent) \
  const int pw = at_ % (extent)[2], ph = at_ / (extent)[2] % (extent)[1], pd = at_ / (extent)[2] / (extent)[1];

kernel void upsample_forward(global const X* restrict x, global X* restrict y, TABLE_ARGUMENTS, UpsampleShape s) {
  EACH_ELEMENT(s.batch * s.channels * s.out_plane) {
    LOCATE(s.out_plane, s.in_plane, s.out);
    POSITION(s.out);
    const int td = TAPS_OF(0, pd), th = TAPS_OF(1, ph), tw = TAPS_OF(2, pw);
    acc sum = 0;
    for (int a = 0; a < s.taps[0]; ++a)
      for (int b = 0; b < s.taps[1]; ++b) {
        const long row = ((long)index[td + a] * s.in[1] + index[th + b]) * s.in[2];
        acc line = 0;
        for (int c = 0; c < s.taps[2]; ++c)
          line += weight[tw + c] * LOADX(X_DTYPE, x, base + (row + index[tw + c]) * step);
        sum += weight[td + a] * weight[th + b] * line;
      }
    STOREX(X_DTYPE, y, i, sum);
  }
}

kernel void upsample_backward(global const X* restrict g, global X* restrict dx, TABLE_ARGUMENTS, UpsampleShape s) {
  EACH_ELEMENT(s.batch * s.channels * s.in_plane) {
    LOCATE(s.in_plane, s.out_plane, s.in);
    POSITION(s.in);
    acc sum = 0;
    for (int d = FIRST_OF(0, pd); d <= LAST_OF(0, pd); ++d) {
      const acc wd = weight_of(index, weight, TAPS_OF(0, d), s.taps[0], pd);
      for (int h = FIRST_OF(1, ph); h <= LAST_OF(1, ph); ++h) {
        const acc wh = wd * weight_of(index, weight, TAPS_OF(1, h), s.taps[1], ph);
        const long row = ((long)d * s.out[1] + h) * s.out[2];
        for (int w = FIRST_OF(2, pw); w <= LAST_OF(2, pw); ++w)
          sum +=
              wh * weight_of(index, weight, TAPS_OF(2, w), s.taps[2], pw) * LOADX(X_DTYPE, g, base + (row + w) * step);
      }
    }
    STOREX(X_DTYPE, dx, i, sum);
  }
}
