// Sampling at the points of a grid (csrc/ops/grid_sample/grid_sample.h). INTERPOLATION: 0 bilinear, 1 nearest, 2
// bicubic (Keys, a = -0.75).
// Per axis a point reaches 2, 1 or 4 pixels ("taps"); their products give the pixels and weights of the point, shared
// by all channels.
//   grid_sample            a work-item per point (CPU: `block` points), loop over channels
//   grid_gradient          the same for the gradient of the grid
//   image_gradient_points  a work-item per point, atomic additions
//   image_gradient_planes  a work-item per `block` channels of an image, all points in order
// CPU devices know the pixels of GROUP points at a time and go through them channel by channel.
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
#define EACH_PIXEL(k) _Pragma("unroll") for (int k = 0; k < PIXELS; ++k)
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

#include "common/grid_axes.clh"

// Tap of axis a in pixel k of a point.
#define TAP(a, k) ((a) == 0 ? (k) % TAPS : (a) == 1 ? (k) / TAPS % TAPS : (k) / (TAPS * TAPS))

#if !CPU_STYLE
typedef struct {
  Axis axis[DIMS];
} Point;

static inline Point point_at(__global const ELEMENT* grid, long point, const GridShape* s) {
  Point p;
  for (int a = 0; a < DIMS; ++a) p.axis[a] = axis_taps(LOAD(D, A, grid, point * DIMS + a), s->size[a], s);
  return p;
}

// Offset of pixel k in its plane, or -1.
static inline long pixel_offset(const Point* p, int k, const GridShape* s) {
  long offset = 0;
  for (int a = DIMS - 1; a >= 0; --a) {
    const long i = (long)p->axis[a].index[TAP(a, k)];
    if (i < 0) return -1;
    offset = offset * s->size[a] + i;
  }
  return offset;
}
// Product of weights; the derivative with respect to axis `along` when that is an axis.
static inline V pixel_weight(const Point* p, int k, int along) {
  V weight = 1;
  for (int a = 0; a < DIMS; ++a) weight *= a == along ? p->axis[a].slope[TAP(a, k)] : p->axis[a].weight[TAP(a, k)];
  return weight;
}

#endif

#if DIMS == 3
#define PLANE(s) (s.size[0] * s.size[1] * s.size[2])
#else
#define PLANE(s) (s.size[0] * s.size[1])
#endif

#if CPU_STYLE
#define GROUP 64
// The axes and pixels of `count` points of one image from `point` on. Pixels outside of the image have offset 0, which
// may be read, weight 0, and
// are not `valid`. outside: 0, or NaN for coordinates that are not finite: in two dimensions the CPU multiplies what
// lies outside by zero.
typedef struct {
  int count, all_valid;
  V index[DIMS][TAPS][GROUP], factor[DIMS][TAPS][GROUP], slope[DIMS][TAPS][GROUP];
  long offset[PIXELS][GROUP];
  int valid[PIXELS][GROUP];
  V weight[PIXELS][GROUP], outside[GROUP];
} PointGroup;

static inline void point_group(PointGroup* g, __global const ELEMENT* grid, long point, long count,
                               const GridShape* s) {
  g->count = (int)count;
  for (int a = 0; a < DIMS; ++a) {
    V coordinates[GROUP];
    for (int i = 0; i < GROUP; ++i) coordinates[i] = 0;
    for (int i = 0; i < g->count; ++i) coordinates[i] = LOAD(D, A, grid, (point + i) * DIMS + a);
    for (int i = 0; i < g->count; i += LANES) {
      const Axis axis = axis_taps(CAT(vload, LANES)(0, coordinates + i), s->size[a], s);
      for (int t = 0; t < TAPS; ++t) {
        CAT(vstore, LANES)(axis.index[t], 0, g->index[a][t] + i);
        CAT(vstore, LANES)(axis.weight[t], 0, g->factor[a][t] + i);
        CAT(vstore, LANES)(axis.slope[t], 0, g->slope[a][t] + i);
      }
    }
  }
  int invalid = 0;
  for (int i = 0; i < g->count; ++i) g->outside[i] = 0;
  EACH_PIXEL(k) {
    for (int i = 0; i < g->count; ++i) {
      V weight = 1;
      long offset = 0;
      int valid = 1;
      _Pragma("unroll") for (int a = DIMS - 1; a >= 0; --a) {
        const V index = g->index[a][TAP(a, k)][i];
        valid &= index >= 0;
        offset = offset * s->size[a] + (long)index;
        weight *= g->factor[a][TAP(a, k)][i];
      }
      g->valid[k][i] = valid;
      g->offset[k][i] = valid ? offset : 0;
      g->weight[k][i] = valid ? weight : 0;
      if (DIMS == 2) g->outside[i] += valid ? 0 : weight * 0;
      invalid |= !valid;
    }
  }
  g->all_valid = !invalid;
}
// Product of factors of pixel k of point i; of its derivative with respect to axis `along`.
static inline V pixel_slope(const PointGroup* g, int k, int i, int along) {
  V product = 1;
  _Pragma("unroll") for (int a = 0; a < DIMS; ++a) product *=
      a == along ? g->slope[a][TAP(a, k)][i] : g->factor[a][TAP(a, k)][i];
  return product;
}
// The points of `channels` planes, so many at a time that an offset and a weight serve while they are in registers.
#define CHANNELS 4
static inline __attribute__((always_inline)) void sample_channels(const PointGroup* g,
                                                                  __global const ELEMENT* restrict from, long plane,
                                                                  __global ELEMENT* restrict to, long points,
                                                                  const int channels) {
  for (int i = 0; i < g->count; ++i) {
    V sum[CHANNELS];
    _Pragma("unroll") for (int j = 0; j < channels; ++j) sum[j] = g->outside[i];
    EACH_PIXEL(k) {
      const long offset = g->offset[k][i];
      const V weight = g->weight[k][i];
      if (g->all_valid || g->valid[k][i]) {
        _Pragma("unroll") for (int j = 0; j < channels; ++j) sum[j] += weight * LOAD(D, A, from, j * plane + offset);
      }
    }
    _Pragma("unroll") for (int j = 0; j < channels; ++j) STORE(D, A, to, j * points + i, sum[j]);
  }
}
// Calls of points [from, to) that lie in one image, GROUP of them at most at a time: `at` of image n.
#define FOR_GROUPS(from, to, n, at, count)                          \
  for (long i_ = from, count = 0; i_ < (to); i_ += count)           \
    for (long n = i_ / s.points, at = i_ - n * s.points, once_ = 1; \
         once_ && (count = MIN_OF((long)GROUP, MIN_OF(s.points - at, (to) - i_)), 1); once_ = 0)
#endif

#define FOR_POINTS(i) \
  for (long i = (long)get_global_id(0) * block, end_ = MIN_OF(i + block, s.batch * s.points); i < end_; ++i)

TASK_KERNEL void grid_sample(global ELEMENT* output, global const ELEMENT* input, global const ELEMENT* grid,
                             GridShape s, long block) {
  const long plane = PLANE(s);
#if CPU_STYLE
  const long first = (long)get_global_id(0) * block, last = MIN_OF(first + block, s.batch * s.points);
  PointGroup g;
  FOR_GROUPS(first, last, n, at, count) {
    point_group(&g, grid, n * s.points + at, count, &s);
    long c = n * s.channels;
    const long end = c + s.channels;
    for (; c + CHANNELS <= end; c += CHANNELS)
      sample_channels(&g, input + c * plane, plane, output + c * s.points + at, s.points, CHANNELS);
    for (; c < end; ++c) sample_channels(&g, input + c * plane, plane, output + c * s.points + at, s.points, 1);
  }
#else
  FOR_POINTS(i) {
    const long n = i / s.points, at = i - n * s.points;
    const Point p = point_at(grid, i, &s);
    long offsets[PIXELS];
    V weights[PIXELS];
    EACH_PIXEL(k) {
      offsets[k] = pixel_offset(&p, k, &s);
      weights[k] = pixel_weight(&p, k, -1);
    }
    V outside =
        0;  // NaN for coordinates that are not finite: in two dimensions the CPU multiplies what lies outside by zero
#if DIMS == 2
    EACH_PIXEL(k)
    if (offsets[k] < 0) outside += weights[k] * 0;
#endif
    for (long c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      V sum = outside;
      EACH_PIXEL(k)
      if (offsets[k] >= 0) sum += weights[k] * LOAD(D, A, input, c * plane + offsets[k]);
      STORE(D, A, output, c * s.points + at, sum);
    }
  }
#endif
}

TASK_KERNEL void grid_gradient(global ELEMENT* grad_grid, global const ELEMENT* grad_output,
                               global const ELEMENT* input, global const ELEMENT* grid, GridShape s, long block) {
  const long plane = PLANE(s);
#if CPU_STYLE
  const long first = (long)get_global_id(0) * block, last = MIN_OF(first + block, s.batch * s.points);
  PointGroup g;
  FOR_GROUPS(first, last, n, at, count) {
    point_group(&g, grid, n * s.points + at, count, &s);
    V sum[PIXELS][GROUP];  // over channels of pixel * gradient
    EACH_PIXEL(k)
    for (int i = 0; i < g.count; ++i) sum[k][i] = 0;
    for (long c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      __global const ELEMENT* restrict from = input + c * plane;
      __global const ELEMENT* restrict gradient = grad_output + c * s.points + at;
      for (int i = 0; i < g.count; ++i) {
        const V d = LOAD(D, A, gradient, i);
        EACH_PIXEL(k) sum[k][i] += LOAD(D, A, from, g.offset[k][i]) * d;
      }
    }
    for (int i = 0; i < g.count; ++i) {
      const long point = n * s.points + at + i;
      for (int a = 0; a < DIMS; ++a) {
        V slope = 0;
        EACH_PIXEL(k) slope += g.valid[k][i] ? sum[k][i] * pixel_slope(&g, k, i, a) : (V)0;
        STORE(D, A, grad_grid, point * DIMS + a, slope);
      }
    }
  }
#else
  FOR_POINTS(i) {
    const long n = i / s.points, at = i - n * s.points;
    const Point p = point_at(grid, i, &s);
    V slope[DIMS];
    for (int a = 0; a < DIMS; ++a) slope[a] = 0;
    EACH_PIXEL(k) {
      const long offset = pixel_offset(&p, k, &s);
      if (offset < 0) continue;
      V sum = 0;  // over channels of pixel * gradient
      for (long c = n * s.channels; c < (n + 1) * s.channels; ++c)
        sum += LOAD(D, A, input, c * plane + offset) * LOAD(D, A, grad_output, c * s.points + at);
      for (int a = 0; a < DIMS; ++a) slope[a] += sum * pixel_weight(&p, k, a);
    }
    for (int a = 0; a < DIMS; ++a) STORE(D, A, grad_grid, i * DIMS + a, slope[a]);
  }
#endif
}

#if ATOMIC
#define COMBINE_IS_ADD 1
#define COMBINE_VALUES(x, y) ((x) + (y))
#include "common/atomic.clh"
DEFINE_ATOMIC_UPDATE(D)

kernel void image_gradient_points(global ELEMENT* grad_input, global const ELEMENT* grad_output,
                                  global const ELEMENT* grid, GridShape s, long block) {
  const long plane = PLANE(s);
  FOR_POINTS(i) {
    const long n = i / s.points, at = i - n * s.points;
    const Point p = point_at(grid, i, &s);
    EACH_PIXEL(k) {
      const long offset = pixel_offset(&p, k, &s);
      if (offset < 0) continue;
      const V weight = pixel_weight(&p, k, -1);
      for (long c = n * s.channels; c < (n + 1) * s.channels; ++c)
        atomic_update(grad_input + c * plane + offset, weight * LOAD(D, A, grad_output, c * s.points + at));
    }
  }
}
#endif

TASK_KERNEL void image_gradient_planes(global ELEMENT* grad_input, global const ELEMENT* grad_output,
                                       global const ELEMENT* grid, GridShape s, long block) {
  const long plane = PLANE(s), blocks = (s.channels + block - 1) / block, item = get_global_id(0), n = item / blocks;
  if (n >= s.batch) return;
  const long from = n * s.channels + item % blocks * block, to = MIN_OF(from + block, (n + 1) * s.channels);
#if CPU_STYLE
  PointGroup g;
  for (long at = 0; at < s.points; at += GROUP) {
    point_group(&g, grid, n * s.points + at, MIN_OF((long)GROUP, s.points - at), &s);
    for (long c = from; c < to; ++c) {
      __global ELEMENT* plane_of = grad_input + c * plane;
      for (int i = 0; i < g.count; ++i) {
        const V d = LOAD(D, A, grad_output, c * s.points + at + i);
        EACH_PIXEL(k) {
          if (!g.valid[k][i]) continue;
          const V sum = LOAD(D, A, plane_of, g.offset[k][i]) + g.weight[k][i] * d;
          STORE(D, A, plane_of, g.offset[k][i], sum);
        }
      }
    }
  }
#else
  for (long at = 0; at < s.points; ++at) {
    const Point p = point_at(grid, n * s.points + at, &s);
    EACH_PIXEL(k) {
      const long offset = pixel_offset(&p, k, &s);
      if (offset < 0) continue;
      const V weight = pixel_weight(&p, k, -1);
      for (long c = from; c < to; ++c) {
        const V sum = LOAD(D, A, grad_input, c * plane + offset) + weight * LOAD(D, A, grad_output, c * s.points + at);
        STORE(D, A, grad_input, c * plane + offset, sum);
      }
    }
  }
#endif
}
