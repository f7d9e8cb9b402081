// Taps of resampling, one work-item per (position, axis). Source position of output o, scale = input step per output:
//   nearest floor(o scale), nearest-exact floor((o + 1/2) scale); otherwise o scale with aligned corners, else (o +
//   1/2) scale - 1/2
// linear: clamped at 0, two taps; cubic: convolution kernel with a = -3/4 (Keys), four taps, indices clamped.
// Against aliasing: the filter (triangle, Keys with a = -1/2, Lanczos with three lobes) is centred at (o + 1/2) scale,
// stretched by the
// scale where that is above 1, cut at the borders, and divided by its sum (Pillow's resampling).
// Defines: LANES (of the compute type).
#include "common/lanes.clh"
#include "params/upsample_tables.h"

enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_ANTIALIAS, CUBIC_ANTIALIAS, LANCZOS_ANTIALIAS };

// First tap of output o, unclamped, and the fraction behind it.
static inline int source_of(const TableShape* s, int axis, int o, acc* fraction) {
  *fraction = 0;
  if (s->taps[axis] == 1) {
    if (s->mode > NEAREST_EXACT) return 0;  // an axis that is not resampled
    const float at = s->mode == NEAREST ? o * s->nearest_scale[axis] : (o + 0.5f) * s->nearest_scale[axis];
    return MIN_OF((int)floor(at), s->in[axis] - 1);
  }
  acc at = s->align_corners ? o * s->scale[axis] : (o + (acc)0.5) * s->scale[axis] - (acc)0.5;
  if (s->mode == LINEAR && at < 0) at = 0;
  const int first = s->mode == LINEAR ? MIN_OF((int)at, s->in[axis] - 1) : (int)floor(at);
  *fraction = at - first;
  if (s->mode == LINEAR && *fraction > 1) *fraction = 1;
  return s->mode == LINEAR ? first : first - 1;
}

static inline acc cubic_weight(acc x, acc a) {
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static inline acc sinc(acc x) { return x == 0 ? 1 : sin((acc)M_PI * x) / ((acc)M_PI * x); }

// The filter of a mode at distance x from its centre.
static inline acc filter_of(int mode, acc x) {
  x = fabs(x);
  if (mode == LINEAR_ANTIALIAS) return x < 1 ? 1 - x : 0;
  if (mode == CUBIC_ANTIALIAS) return x < 2 ? cubic_weight(x, (acc)-0.5) : 0;
  return x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

// Inputs first .. return value of output o under a filter, the filter's centre and what distances are multiplied by.
static inline int window_of(const TableShape* s, int axis, int o, int* first, acc* center, acc* narrow) {
  const acc radius = s->mode == LINEAR_ANTIALIAS ? 1 : s->mode == CUBIC_ANTIALIAS ? 2 : 3, scale = s->scale[axis];
  const acc support = scale >= 1 ? radius * scale : radius;
  *narrow = scale >= 1 ? 1 / scale : 1;
  *center = scale * (o + (acc)0.5);
  *first = MAX_OF((int)(*center - support + (acc)0.5), 0);
  return MIN_OF(*first + s->taps[axis], MIN_OF((int)(*center + support + (acc)0.5), s->in[axis])) - 1;
}

static inline int clamped(const TableShape* s, int axis, int i) { return MAX_OF(0, MIN_OF(i, s->in[axis] - 1)); }

// First and last input of output o.
static inline int first_of(const TableShape* s, int axis, int o) {
  acc f, g;
  int first;
  if (s->mode < LINEAR_ANTIALIAS || s->taps[axis] == 1) return clamped(s, axis, source_of(s, axis, o, &f));
  window_of(s, axis, o, &first, &f, &g);
  return first;
}
static inline int last_of(const TableShape* s, int axis, int o) {
  acc f, g;
  int first;
  if (s->mode < LINEAR_ANTIALIAS || s->taps[axis] == 1)
    return clamped(s, axis, source_of(s, axis, o, &f) + s->taps[axis] - 1);
  return window_of(s, axis, o, &first, &f, &g);
}

static inline void fill_fixed(__global int* index, __global acc* weight, const TableShape* s, int axis, int o) {
  const int taps = s->taps[axis];
  acc f;
  const int first = source_of(s, axis, o, &f);
  for (int t = 0; t < taps; ++t) index[t] = clamped(s, axis, first + t);
  if (taps == 1) {
    weight[0] = 1;
  } else if (taps == 2) {
    weight[0] = 1 - f;
    weight[1] = f;
  } else {
    for (int t = 0; t < 4; ++t) weight[t] = cubic_weight(fabs(t - 1 - f), (acc)-0.75);
  }
}

static inline void fill_filter(__global int* index, __global acc* weight, const TableShape* s, int axis, int o) {
  acc center, narrow, sum = 0;
  int first;
  const int last = window_of(s, axis, o, &first, &center, &narrow);
  for (int t = 0; t < s->taps[axis]; ++t) {
    const bool inside = first + t <= last;
    index[t] = inside ? first + t : MIN_OF(first, s->in[axis] - 1);
    weight[t] = inside ? filter_of(s->mode, (first + t - center + (acc)0.5) * narrow) : 0;
    sum += weight[t];
  }
  for (int t = 0; t < s->taps[axis] && sum != 0; ++t) weight[t] /= sum;
}

kernel void make_tables(global int* index, global acc* weight, global int* ranges, TableShape s) {
  const int axis = get_global_id(1), taps = s.taps[axis];
  for (int o = get_global_id(0); o < s.out[axis]; o += get_global_size(0)) {
    const int at = s.tap_base[axis] + o * taps;
    if (s.mode < LINEAR_ANTIALIAS || taps == 1)
      fill_fixed(index + at, weight + at, &s, axis, o);
    else
      fill_filter(index + at, weight + at, &s, axis, o);
  }
  // Taps grow with o: the outputs of an input are a range, found by bisection.
  for (int i = get_global_id(0); i < s.in[axis]; i += get_global_size(0)) {
    int low = 0, high = s.out[axis];  // first output whose last tap reaches i
    while (low < high) {
      const int middle = (low + high) / 2;
      if (last_of(&s, axis, middle) >= i)
        high = middle;
      else
        low = middle + 1;
    }
    ranges[s.range_base[axis] + 2 * i] = low;
    high = s.out[axis];  // first output whose first tap is beyond i
    while (low < high) {
      const int middle = (low + high) / 2;
      if (first_of(&s, axis, middle) > i)
        high = middle;
      else
        low = middle + 1;
    }
    ranges[s.range_base[axis] + 2 * i + 1] = low - 1;
  }
}
