// Sampling at the points of a grid (csrc/ops/grid_sample/grid_sample.h). INTERPOLATION: 0 bilinear, 1 nearest, 2 bicubic (Keys, a = -0.75).
// Per axis a point reaches 2, 1 or 4 pixels ("taps"); their products give the pixels and weights of the point, shared by all channels.
//   grid_sample            a work-item per point (fat: `block` points), loop over channels
//   grid_gradient          the same for the gradient of the grid
//   image_gradient_points  a work-item per point, atomic additions
//   image_gradient_planes  a work-item per `block` channels of an image, all points in order
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef A
#define A float32
#endif
#ifndef DIMS
#define DIMS 2
#endif
#ifndef INTERPOLATION
#define INTERPOLATION 0
#endif
#ifndef ATOMIC
#define ATOMIC 0
#endif
#define V VALUE(A)
#define ELEMENT STORAGE(D)

#if INTERPOLATION == 0
#define TAPS 2
#elif INTERPOLATION == 1
#define TAPS 1
#else
#define TAPS 4
#endif
#if DIMS == 3
#define PIXELS (TAPS * TAPS * TAPS)
#else
#define PIXELS (TAPS * TAPS)
#endif

typedef struct {
  long batch, channels, points;
  long size[3];
  int padding, align_corners;
} GridShape;

// Reflects x into [low, high] (both given doubled); *slope becomes the derivative's sign.
inline V reflect(V x, long low2, long high2, V* slope) {
  if (low2 == high2) {
    *slope = 0;
    return 0;
  }
  const V low = (V)low2 / 2, span = (V)(high2 - low2) / 2;
  x -= low;
  const V sign = x < 0 ? -1 : 1;
  x *= sign;
  const V extra = fmod(x, span);
  const bool odd = fmod(floor(x / span), (V)2) != 0;
  *slope = odd ? -sign : sign;
  return (odd ? span - extra : extra) + low;
}

// Applies the padding mode to a pixel coordinate; *slope is multiplied by the derivative.
inline V pad(V x, long size, const GridShape* s, V* slope) {
  if (s->padding == 0) return x;
  if (s->padding == 2) {
    V turn;
    x = s->align_corners ? reflect(x, 0, 2 * (size - 1), &turn) : reflect(x, -1, 2 * size - 1, &turn);
    *slope *= turn;
  }
  const V last = (V)(size - 1);
  if (x <= 0 || x >= last || x != x) *slope = 0;
  return x > 0 ? (x < last ? x : last) : 0;
}

// Whole numbers outside the range of long, and NaN, are outside every image.
inline long to_index(V x) {
  return x >= -1e9f && x <= 1e9f ? (long)x : -1000;
}

typedef struct {
  long index[TAPS];  // -1: outside the image
  V weight[TAPS], slope[TAPS];
} Axis;

inline Axis axis_taps(V coordinate, long size, const GridShape* s) {
  Axis axis;
  V slope = s->align_corners ? (V)(size - 1) / 2 : (V)size / 2;
  V x = s->align_corners ? (coordinate + 1) / 2 * (size - 1) : ((coordinate + 1) * size - 1) / 2;
#if INTERPOLATION == 0
  x = pad(x, size, s, &slope);
  const long first = to_index(floor(x));
  axis.weight[1] = x - floor(x);
  axis.weight[0] = 1 - axis.weight[1];
  axis.slope[0] = -slope;
  axis.slope[1] = slope;
  for (int t = 0; t < 2; ++t) axis.index[t] = first + t;
#elif INTERPOLATION == 1
  x = pad(x, size, s, &slope);
  axis.index[0] = to_index(rint(x));
  axis.weight[0] = 1;
  axis.slope[0] = 0;
#else
  const V whole = floor(x), t = x - whole, a = (V)-0.75f;
  const V d[4] = {t + 1, t, 1 - t, 2 - t}, sign[4] = {1, 1, -1, -1};
  for (int i = 0; i < 4; ++i) {
    const bool outer = i == 0 || i == 3;
    axis.weight[i] = outer ? ((a * d[i] - 5 * a) * d[i] + 8 * a) * d[i] - 4 * a : ((a + 2) * d[i] - (a + 3)) * d[i] * d[i] + 1;
    axis.slope[i] = slope * sign[i] * (outer ? (3 * a * d[i] - 10 * a) * d[i] + 8 * a : (3 * (a + 2) * d[i] - 2 * (a + 3)) * d[i]);
    V ignored = 1;
    axis.index[i] = to_index(pad(whole + (i - 1), size, s, &ignored));
  }
#endif
  for (int t = 0; t < TAPS; ++t)
    if (axis.index[t] < 0 || axis.index[t] >= size) axis.index[t] = -1;
  return axis;
}

typedef struct {
  Axis axis[DIMS];
} Point;

inline Point point_at(__global const ELEMENT* grid, long point, const GridShape* s) {
  Point p;
  for (int a = 0; a < DIMS; ++a) p.axis[a] = axis_taps(LOAD(D, A, grid, point * DIMS + a), s->size[a], s);
  return p;
}

// Tap of axis a in pixel k of a point.
#define TAP(a, k) ((a) == 0 ? (k) % TAPS : (a) == 1 ? (k) / TAPS % TAPS : (k) / (TAPS * TAPS))

// Offset of pixel k in its plane, or -1.
inline long pixel_offset(const Point* p, int k, const GridShape* s) {
  long offset = 0;
  for (int a = DIMS - 1; a >= 0; --a) {
    const long i = p->axis[a].index[TAP(a, k)];
    if (i < 0) return -1;
    offset = offset * s->size[a] + i;
  }
  return offset;
}
// Product of weights; the derivative with respect to axis `along` when that is an axis.
inline V pixel_weight(const Point* p, int k, int along) {
  V weight = 1;
  for (int a = 0; a < DIMS; ++a) weight *= a == along ? p->axis[a].slope[TAP(a, k)] : p->axis[a].weight[TAP(a, k)];
  return weight;
}

#if DIMS == 3
#define PLANE(s) (s.size[0] * s.size[1] * s.size[2])
#else
#define PLANE(s) (s.size[0] * s.size[1])
#endif

#define FOR_POINTS(i) for (long i = (long)get_global_id(0) * block, end_ = MIN_OF(i + block, s.batch * s.points); i < end_; ++i)

__kernel void grid_sample(TENSOR(ELEMENT, output), TENSOR(const ELEMENT, input), TENSOR(const ELEMENT, grid), GridShape s, long block) {
  OPEN(ELEMENT, output);
  OPEN(const ELEMENT, input);
  OPEN(const ELEMENT, grid);
  const long plane = PLANE(s);
  FOR_POINTS(i) {
    const long n = i / s.points, at = i - n * s.points;
    const Point p = point_at(grid, i, &s);
    long offsets[PIXELS];
    V weights[PIXELS];
    for (int k = 0; k < PIXELS; ++k) {
      offsets[k] = pixel_offset(&p, k, &s);
      weights[k] = pixel_weight(&p, k, -1);
    }
    V outside = 0;  // NaN for coordinates that are not finite: in two dimensions the CPU multiplies what lies outside by zero
#if DIMS == 2
    for (int k = 0; k < PIXELS; ++k)
      if (offsets[k] < 0) outside += weights[k] * 0;
#endif
    for (long c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      V sum = outside;
      for (int k = 0; k < PIXELS; ++k)
        if (offsets[k] >= 0) sum += weights[k] * LOAD(D, A, input, c * plane + offsets[k]);
      STORE(D, A, output, c * s.points + at, sum);
    }
  }
}

__kernel void grid_gradient(TENSOR(ELEMENT, grad_grid), TENSOR(const ELEMENT, grad_output), TENSOR(const ELEMENT, input), TENSOR(const ELEMENT, grid),
                            GridShape s, long block) {
  OPEN(ELEMENT, grad_grid);
  OPEN(const ELEMENT, grad_output);
  OPEN(const ELEMENT, input);
  OPEN(const ELEMENT, grid);
  const long plane = PLANE(s);
  FOR_POINTS(i) {
    const long n = i / s.points, at = i - n * s.points;
    const Point p = point_at(grid, i, &s);
    V slope[DIMS];
    for (int a = 0; a < DIMS; ++a) slope[a] = 0;
    for (int k = 0; k < PIXELS; ++k) {
      const long offset = pixel_offset(&p, k, &s);
      if (offset < 0) continue;
      V sum = 0;  // over channels of pixel * gradient
      for (long c = n * s.channels; c < (n + 1) * s.channels; ++c) sum += LOAD(D, A, input, c * plane + offset) * LOAD(D, A, grad_output, c * s.points + at);
      for (int a = 0; a < DIMS; ++a) slope[a] += sum * pixel_weight(&p, k, a);
    }
    for (int a = 0; a < DIMS; ++a) STORE(D, A, grad_grid, i * DIMS + a, slope[a]);
  }
}

#if ATOMIC
#define COMBINE_IS_ADD 1
#define COMBINE_VALUES(x, y) ((x) + (y))
#include "common/atomic.clh"
DEFINE_ATOMIC_UPDATE(D)

__kernel void image_gradient_points(TENSOR(ELEMENT, grad_input), TENSOR(const ELEMENT, grad_output), TENSOR(const ELEMENT, grid), GridShape s, long block) {
  OPEN(ELEMENT, grad_input);
  OPEN(const ELEMENT, grad_output);
  OPEN(const ELEMENT, grid);
  const long plane = PLANE(s);
  FOR_POINTS(i) {
    const long n = i / s.points, at = i - n * s.points;
    const Point p = point_at(grid, i, &s);
    for (int k = 0; k < PIXELS; ++k) {
      const long offset = pixel_offset(&p, k, &s);
      if (offset < 0) continue;
      const V weight = pixel_weight(&p, k, -1);
      for (long c = n * s.channels; c < (n + 1) * s.channels; ++c)
        atomic_update(grad_input + c * plane + offset, weight * LOAD(D, A, grad_output, c * s.points + at));
    }
  }
}
#endif

__kernel void image_gradient_planes(TENSOR(ELEMENT, grad_input), TENSOR(const ELEMENT, grad_output), TENSOR(const ELEMENT, grid), GridShape s, long block) {
  OPEN(ELEMENT, grad_input);
  OPEN(const ELEMENT, grad_output);
  OPEN(const ELEMENT, grid);
  const long plane = PLANE(s), blocks = (s.channels + block - 1) / block, item = get_global_id(0), n = item / blocks;
  if (n >= s.batch) return;
  const long from = n * s.channels + item % blocks * block, to = MIN_OF(from + block, (n + 1) * s.channels);
  for (long at = 0; at < s.points; ++at) {
    const Point p = point_at(grid, n * s.points + at, &s);
    for (int k = 0; k < PIXELS; ++k) {
      const long offset = pixel_offset(&p, k, &s);
      if (offset < 0) continue;
      const V weight = pixel_weight(&p, k, -1);
      for (long c = from; c < to; ++c) {
        const V sum = LOAD(D, A, grad_input, c * plane + offset) + weight * LOAD(D, A, grad_output, c * s.points + at);
        STORE(D, A, grad_input, c * plane + offset, sum);
      }
    }
  }
}
