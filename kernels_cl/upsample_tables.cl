// Taps of resampling, one work-item per (position, axis). Source position of output o, scale = input step per output:
//   nearest floor(o scale), nearest-exact floor((o + 1/2) scale); otherwise o scale with aligned corners, else (o + 1/2) scale - 1/2
// linear: clamped at 0, two taps; cubic: convolution kernel with a = -3/4 (Keys), four taps, indices clamped.
// Defines: LANES (of the compute type).
#include "common/lanes.clh"

enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC };

typedef struct {
  int in[3], out[3], taps[3], tap_base[3], range_base[3];
  acc scale[3];
  float nearest_scale[3];
  int mode, align_corners;
} TableShape;

// First tap of output o, unclamped, and the fraction behind it.
inline int source_of(const TableShape* s, int axis, int o, acc* fraction) {
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

inline acc cubic_weight(acc x) {
  const acc a = (acc)-0.75;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

inline int clamped(const TableShape* s, int axis, int i) { return MAX_OF(0, MIN_OF(i, s->in[axis] - 1)); }

__kernel void make_tables(TENSOR(int, index), TENSOR(acc, weight), TENSOR(int, ranges), TableShape s) {
  OPEN(int, index);
  OPEN(acc, weight);
  OPEN(int, ranges);
  const int axis = get_global_id(1), taps = s.taps[axis];
  acc f;
  for (int o = get_global_id(0); o < s.out[axis]; o += get_global_size(0)) {
    const int first = source_of(&s, axis, o, &f), at = s.tap_base[axis] + o * taps;
    for (int t = 0; t < taps; ++t) index[at + t] = clamped(&s, axis, first + t);
    if (taps == 1) {
      weight[at] = 1;
    } else if (taps == 2) {
      weight[at] = 1 - f;
      weight[at + 1] = f;
    } else {
      weight[at] = cubic_weight(1 + f);
      weight[at + 1] = cubic_weight(f);
      weight[at + 2] = cubic_weight(1 - f);
      weight[at + 3] = cubic_weight(2 - f);
    }
  }
  // Taps grow with o: the outputs of an input are a range, found by bisection.
  for (int i = get_global_id(0); i < s.in[axis]; i += get_global_size(0)) {
    int low = 0, high = s.out[axis];  // first output whose last tap reaches i
    while (low < high) {
      const int middle = (low + high) / 2;
      if (clamped(&s, axis, source_of(&s, axis, middle, &f) + taps - 1) >= i) high = middle;
      else low = middle + 1;
    }
    ranges[s.range_base[axis] + 2 * i] = low;
    high = s.out[axis];  // first output whose first tap is beyond i
    while (low < high) {
      const int middle = (low + high) / 2;
      if (clamped(&s, axis, source_of(&s, axis, middle, &f)) > i) high = middle;
      else low = middle + 1;
    }
    ranges[s.range_base[axis] + 2 * i + 1] = low - 1;
  }
}
