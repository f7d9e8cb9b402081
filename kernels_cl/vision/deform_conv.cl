// The parts of a deformable convolution around its matrix products (csrc/ops/vision/deform_conv.h).
//   deform_columns             a work-item per output pixel, tap and group of offsets (CPU: `block` of them); loop over
//   the group's channels deform_offset_gradient     the same; grad_mask and both parts of grad_offset
//   deform_image_gradient      the same, with atomic additions to the image's gradient
//   deform_image_gradient_planes   a work-item per channel of an image, all taps and pixels in order
#include "params/vision.h"
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef A
#define A float32
#endif
#ifndef ATOMIC
#define ATOMIC 0
#endif
#define V VALUE(A)
#define ELEMENT STORAGE(D)

// A moved tap: the four pixels around it (-1: outside), how far it is below the upper and right of the left ones, its
// mask.
typedef struct {
  long offset[4];
  V down, along, mask;
  bool inside;  // less than a pixel outside; beyond, the sample is 0
} Tap;

// `at` counts [batch, groups, taps, pixels].
static inline Tap tap_at(__global const ELEMENT* offset, __global const ELEMENT* mask, long at, const DeformShape* s) {
  const long pixels = s->output_height * s->output_width, taps = s->kernel_height * s->kernel_width;
  const long pixel = at % pixels, group_tap = at / pixels, k = group_tap % taps;
  const V y = (pixel / s->output_width) * s->stride_y - s->padding_y + k / s->kernel_width * s->dilation_y +
              LOAD(D, A, offset, 2 * group_tap * pixels + pixel);
  const V x = (pixel % s->output_width) * s->stride_x - s->padding_x + k % s->kernel_width * s->dilation_x +
              LOAD(D, A, offset, (2 * group_tap + 1) * pixels + pixel);
  Tap tap;
  tap.inside = y > -1 && y < s->height && x > -1 && x < s->width;
  // Whole numbers outside the range of long, and NaN, are outside every image.
  const bool near = y >= -1 && y <= s->height && x >= -1 && x <= s->width;
  const long top = near ? (long)floor(y) : -2, left = near ? (long)floor(x) : -2;
  tap.down = y - floor(y);
  tap.along = x - floor(x);
  tap.mask = s->masked ? LOAD(D, A, mask, at) : (V)1;
  for (int i = 0; i < 4; ++i) {
    const long row = top + i / 2, column = left + i % 2;
    tap.offset[i] = row >= 0 && row < s->height && column >= 0 && column < s->width ? row * s->width + column : -1;
  }
  return tap;
}

static inline V weight_of(const Tap* t, int i) {
  return (i < 2 ? 1 - t->down : t->down) * (i % 2 ? t->along : 1 - t->along);
}

// Element [n, channel, tap, pixel] of the columns for the first channel of the group that `at` belongs to.
static inline long column_of(long at, const DeformShape* s) {
  const long inner = s->output_height * s->output_width * s->kernel_height * s->kernel_width;
  return at / inner * (s->channels / s->groups) * inner + at % inner;
}

#define FOR_TAPS                                                                                                      \
  const long plane = s.height * s.width, inner = s.output_height * s.output_width * s.kernel_height * s.kernel_width; \
  const long channels = s.channels / s.groups;                                                                        \
  for (long at = (long)get_global_id(0) * block, end_ = MIN_OF(at + block, s.batch * s.groups * inner); at < end_; ++at)

kernel void deform_columns(global ELEMENT* columns, global const ELEMENT* image, global const ELEMENT* offset,
                           global const ELEMENT* mask, DeformShape s, long block) {
  FOR_TAPS {
    const Tap t = tap_at(offset, mask, at, &s);
    const long column = column_of(at, &s);
    __global const ELEMENT* planes = image + at / inner * channels * plane;
    for (long c = 0; c < channels; ++c) {
      V value = 0;
      if (t.inside)
        for (int i = 0; i < 4; ++i)
          if (t.offset[i] >= 0) value += weight_of(&t, i) * LOAD(D, A, planes, c * plane + t.offset[i]);
      STORE(D, A, columns, column + c * inner, t.mask * value);
    }
  }
}

kernel void deform_offset_gradient(global ELEMENT* grad_offset, global ELEMENT* grad_mask,
                                   global const ELEMENT* grad_columns, global const ELEMENT* image,
                                   global const ELEMENT* offset, global const ELEMENT* mask, DeformShape s,
                                   long block) {
  const long pixels = s.output_height * s.output_width;
  FOR_TAPS {
    const Tap t = tap_at(offset, mask, at, &s);
    const long column = column_of(at, &s);
    __global const ELEMENT* planes = image + at / inner * channels * plane;
    V corner[4];  // over channels: gradient * pixel
    for (int i = 0; i < 4; ++i) {
      corner[i] = 0;
      if (t.offset[i] < 0) continue;
      for (long c = 0; c < channels; ++c)
        corner[i] += LOAD(D, A, grad_columns, column + c * inner) * LOAD(D, A, planes, c * plane + t.offset[i]);
    }
    V value = 0;
    if (t.inside)
      for (int i = 0; i < 4; ++i) value += weight_of(&t, i) * corner[i];
    if (s.masked) STORE(D, A, grad_mask, at, value);
    const V along_y = (1 - t.along) * (corner[2] - corner[0]) + t.along * (corner[3] - corner[1]);
    const V along_x = (1 - t.down) * (corner[1] - corner[0]) + t.down * (corner[3] - corner[2]);
    const long place = at / pixels * 2 * pixels + at % pixels;
    STORE(D, A, grad_offset, place, t.mask * along_y);
    STORE(D, A, grad_offset, place + pixels, t.mask * along_x);
  }
}

#if ATOMIC
#define COMBINE_IS_ADD 1
#define COMBINE_VALUES(x, y) ((x) + (y))
#include "common/atomic.clh"
DEFINE_ATOMIC_UPDATE(A)

kernel void deform_image_gradient(global V* grad_image, global const ELEMENT* grad_columns,
                                  global const ELEMENT* offset, global const ELEMENT* mask, DeformShape s, long block) {
  FOR_TAPS {
    const Tap t = tap_at(offset, mask, at, &s);
    if (!t.inside) continue;
    const long column = column_of(at, &s);
    __global V* planes = grad_image + at / inner * channels * plane;
    for (int i = 0; i < 4; ++i) {
      if (t.offset[i] < 0) continue;
      const V weight = t.mask * weight_of(&t, i);
      for (long c = 0; c < channels; ++c)
        atomic_update(planes + c * plane + t.offset[i], weight * LOAD(D, A, grad_columns, column + c * inner));
    }
  }
}
#endif

kernel void deform_image_gradient_planes(global V* grad_image, global const ELEMENT* grad_columns,
                                         global const ELEMENT* offset, global const ELEMENT* mask, DeformShape s) {
  const long item = get_global_id(0), plane = s.height * s.width,
             inner = s.output_height * s.output_width * s.kernel_height * s.kernel_width;
  if (item >= s.batch * s.channels) return;
  const long group = item / (s.channels / s.groups);  // channels of a group follow each other
  __global V* own = grad_image + item * plane;
  for (long i = 0; i < inner; ++i) {
    const Tap t = tap_at(offset, mask, group * inner + i, &s);
    if (!t.inside) continue;
    const V grad = t.mask * LOAD(D, A, grad_columns, item * inner + i);
    for (int k = 0; k < 4; ++k)
      if (t.offset[k] >= 0) own[t.offset[k]] += weight_of(&t, k) * grad;
  }
}
