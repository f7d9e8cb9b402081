// Average of bilinear samples in the bins of regions (csrc/ops/vision/roi_align.h).
//   roi_align                   a work-item per bin of a region and BLOCK channels
//   roi_align_gradient_bins     the same, with atomic additions to the image's gradient
//   roi_align_gradient_planes   a work-item per `block` channels of an image, all regions in order
// The place of a sample is the same for all channels, so a work-item computes it once for its channels.
#include "params/vision.h"
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef A
#define A float32
#endif
#ifndef BLOCK
#define BLOCK 1
#endif
#ifndef ATOMIC
#define ATOMIC 0
#endif
#define V VALUE(A)
#define ELEMENT STORAGE(D)

// Where the samples of a region begin, their distance, and how many a bin has along each axis.
typedef struct {
  long image;  // -1: no image
  V y, x, bin_y, bin_x;
  long count_y, count_x;
} Region;

static inline Region region_at(__global const ELEMENT* regions, long i, const RoiShape* s, V scale) {
  Region r;
  V side[5];
  for (int k = 0; k < 5; ++k) side[k] = LOAD(D, A, regions, 5 * i + k);
  const V shift = s->aligned ? (V)0.5f : (V)0;
  r.x = side[1] * scale - shift;
  r.y = side[2] * scale - shift;
  V width = side[3] * scale - shift - r.x, height = side[4] * scale - shift - r.y;
  if (!s->aligned) {
    width = fmax(width, (V)1);
    height = fmax(height, (V)1);
  }
  r.bin_y = height / s->bins_y;
  r.bin_x = width / s->bins_x;
  const bool sound = side[0] >= 0 && side[0] < s->batch && fabs(r.x) < (V)1e9f && fabs(r.y) < (V)1e9f &&
                     fabs(width) < (V)1e9f && fabs(height) < (V)1e9f;
  r.image = sound ? (long)side[0] : -1;
  r.count_y = s->sampling_ratio > 0 ? s->sampling_ratio : sound ? (long)ceil(r.bin_y) : 0;
  r.count_x = s->sampling_ratio > 0 ? s->sampling_ratio : sound ? (long)ceil(r.bin_x) : 0;
  return r;
}

// The four pixels around a sample and their weights, all 0 more than a pixel outside.
typedef struct {
  long offset[4];
  V weight[4];
} Sample;

static inline bool sample_at(Sample* sample, V y, V x, const RoiShape* s) {
  if (!(y >= -1 && y <= s->height && x >= -1 && x <= s->width)) return false;
  y = fmax(y, (V)0);
  x = fmax(x, (V)0);
  const long top = MIN_OF((long)y, s->height - 1), left = MIN_OF((long)x, s->width - 1);
  const long bottom = MIN_OF(top + 1, s->height - 1), right = MIN_OF(left + 1, s->width - 1);
  const V down = top == s->height - 1 ? 0 : y - top, along = left == s->width - 1 ? 0 : x - left;
  sample->offset[0] = top * s->width + left;
  sample->offset[1] = top * s->width + right;
  sample->offset[2] = bottom * s->width + left;
  sample->offset[3] = bottom * s->width + right;
  sample->weight[0] = (1 - down) * (1 - along);
  sample->weight[1] = (1 - down) * along;
  sample->weight[2] = down * (1 - along);
  sample->weight[3] = down * along;
  return true;
}

#define FOR_SAMPLES(r, by, bx)                                                          \
  for (long iy = 0; iy < r.count_y; ++iy)                                               \
    for (long ix = 0; ix < r.count_x; ++ix)                                             \
      if (sample_at(&sample, r.y + by * r.bin_y + (iy + (V)0.5f) * r.bin_y / r.count_y, \
                    r.x + bx * r.bin_x + (ix + (V)0.5f) * r.bin_x / r.count_x, &s))

// Region, bin and first channel of a work-item: grid (bins, blocks of channels, regions).
#define FIND_BIN                                                                                                    \
  const long bin = get_global_id(0), from = get_global_id(1) * BLOCK, i = get_global_id(2);                         \
  if (bin >= s.bins_y * s.bins_x) return;                                                                           \
  const long by = bin / s.bins_x, bx = bin - by * s.bins_x, bins = s.bins_y * s.bins_x, plane = s.height * s.width; \
  const long channels = MIN_OF((long)BLOCK, s.channels - from), first = (i * s.channels + from) * bins + bin;       \
  const Region r = region_at(regions, i, &s, scale);                                                                \
  const V samples = MAX_OF(r.count_y * r.count_x, 1l);                                                              \
  Sample sample

kernel void roi_align(global ELEMENT* output, global const ELEMENT* image, global const ELEMENT* regions, RoiShape s,
                      V scale) {
  FIND_BIN;
  V sum[BLOCK];
  for (int c = 0; c < BLOCK; ++c) sum[c] = 0;
  if (r.image >= 0) {
    __global const ELEMENT* planes = image + (r.image * s.channels + from) * plane;
    FOR_SAMPLES(r, by, bx) {
      for (long c = 0; c < channels; ++c) {
        V value = 0;
        for (int k = 0; k < 4; ++k) value += sample.weight[k] * LOAD(D, A, planes, c * plane + sample.offset[k]);
        sum[c] += value;
      }
    }
  }
  for (long c = 0; c < channels; ++c) STORE(D, A, output, first + c * bins, sum[c] / samples);
}

#if ATOMIC
#define COMBINE_IS_ADD 1
#define COMBINE_VALUES(x, y) ((x) + (y))
#include "common/atomic.clh"
DEFINE_ATOMIC_UPDATE(A)

kernel void roi_align_gradient_bins(global V* grad_image, global const ELEMENT* grad_output,
                                    global const ELEMENT* regions, RoiShape s, V scale) {
  FIND_BIN;
  if (r.image < 0) return;
  __global V* planes = grad_image + (r.image * s.channels + from) * plane;
  FOR_SAMPLES(r, by, bx) {
    for (long c = 0; c < channels; ++c) {
      const V grad = LOAD(D, A, grad_output, first + c * bins) / samples;
      for (int k = 0; k < 4; ++k) atomic_update(planes + c * plane + sample.offset[k], sample.weight[k] * grad);
    }
  }
}
#endif

kernel void roi_align_gradient_planes(global V* grad_image, global const ELEMENT* grad_output,
                                      global const ELEMENT* regions, RoiShape s, V scale, long block) {
  const long plane = s.height * s.width, bins = s.bins_y * s.bins_x, blocks = (s.channels + block - 1) / block;
  const long item = get_global_id(0), n = item / blocks, from = item % blocks * block,
             to = MIN_OF(from + block, s.channels);
  if (n >= s.batch) return;
  Sample sample;
  for (long i = 0; i < s.regions; ++i) {
    const Region r = region_at(regions, i, &s, scale);
    if (r.image != n) continue;
    const V samples = MAX_OF(r.count_y * r.count_x, 1l);
    for (long bin = 0; bin < bins; ++bin) {
      const long by = bin / s.bins_x, bx = bin - by * s.bins_x;
      FOR_SAMPLES(r, by, bx) {
        for (long c = from; c < to; ++c) {
          const V grad = LOAD(D, A, grad_output, (i * s.channels + c) * bins + bin) / samples;
          for (int k = 0; k < 4; ++k)
            grad_image[(n * s.channels + c) * plane + sample.offset[k]] += sample.weight[k] * grad;
        }
      }
    }
  }
}
