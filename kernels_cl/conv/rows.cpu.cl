// Convolution of channels-last images as a matrix product whose pixel rows are read where they lie: every tap of a
// pixel is a row of
// channels, so a register tile of 8 pixels x 32 result channels walks over taps and channels and nothing is gathered.
//   rows_pack      weights -> packed[group][panel of 32 results][tap][source channel][32], and a row of zeros for taps
//   outside the image rows_multiply  y[pixel, result] = bias[result] + sum over taps and sources of x[pixel's tap,
//   source] packed[...]
// Serves the gradient of the input too: each residue of the stride is a grid of pixels with taps of its own, stored
// where it belongs.
// Float32, CPU; shapes as in csrc/ops/conv/rows.cpp.
#include "params/conv.h"
#include "common/types.clh"
#include "common/register_tile.clh"
#include "common/style_lanes.clh"
#include "common/transpose16.clh"

#define PANEL rows_panel
#define SOURCE_BLOCK rows_source_block

inline int count_of(const int* size) { return size[0] * size[1] * size[2]; }

inline int tap_of(int t, const RowsShape* s, const WeightMap* m) {
  const int c = t % s->taps[2], b = t / s->taps[2] % s->taps[1], a = t / (s->taps[2] * s->taps[1]);
  return m->base + a * m->tap[0] + b * m->tap[1] + c * m->tap[2];
}

// A panel of packed weights for the sources [begin, end), whose neighbours in w are the sources or the results. Lanes
// of results that do not exist hold anything.
inline void pack_channels(__global const float* w, __global float* packed, const RowsShape* s, const WeightMap* m,
                          int result, int begin, int end, int taps) {
  for (int h = 0; h < PANEL; h += 16)
    for (int t = 0; t < taps; ++t) {
      __global const float* from = w + tap_of(t, s, m);
      __global float* to = packed + (long)t * s->sources * PANEL + h;
      if (m->out == 1) {
        for (int k = begin; k < end; ++k)
          vstore16(vload16(0, from + MIN_OF(result + h, s->results - 1) + k * m->in), 0, to + k * PANEL);
        continue;
      }
      float16 r[16];
#pragma unroll
      for (int l = 0; l < 16; ++l) r[l] = vload16(0, from + MIN_OF(result + h + l, s->results - 1) * m->out + begin);
      TRANSPOSE16(float16, r);
#pragma unroll
      for (int l = 0; l < 16; ++l)
        if (begin + l < end) vstore16(r[l], 0, to + (begin + l) * PANEL);
    }
}

// raw_taps: taps of w, neighbours in memory unless channels are (m.in or m.out is 1). Grid: (panels of results, blocks
// of sources, groups).
CPU_KERNEL void rows_pack(global const float* restrict w, global float* restrict packed, global float* restrict zeros,
                          const RowsShape s, const WeightMap m, int raw_taps) {
  local float lanes[256];
  const int panel = get_group_id(0), group = get_group_id(2), taps = count_of(s.taps);
  const int begin = get_group_id(1) * SOURCE_BLOCK, end = MIN_OF(s.sources, begin + SOURCE_BLOCK);
  if (panel == 0 && group == 0)
    for (int i = begin; i < begin + SOURCE_BLOCK; ++i) zeros[i] = 0;
  packed += ((long)group * get_num_groups(0) + panel) * taps * s.sources * PANEL;
  w += group * m.group;
  if (m.in == 1 || m.out == 1) return pack_channels(w, packed, &s, &m, panel * PANEL, begin, end, taps);
  for (int h = 0; h < PANEL; h += 16)
    for (int k = begin; k < end; ++k)
      for (int raw = 0; raw < raw_taps; raw += 16) {
        float16 r[16];  // taps of 16 results; the last result stands for those that do not exist
#pragma unroll
        for (int l = 0; l < 16; ++l)
          r[l] = vload16(0, w + MIN_OF(panel * PANEL + h + l, s.results - 1) * m.out + k * m.in + raw);
        TRANSPOSE16(float16, r);
#pragma unroll
        for (int l = 0; l < 16; ++l) vstore16(r[l], l, lanes);
        for (int t = 0; t < taps; ++t) {
          const int from = tap_of(t, &s, &m) - raw;
          if (from >= 0 && from < 16) vstore16(vload16(from, lanes), 0, packed + ((long)t * s.sources + k) * PANEL + h);
        }
      }
}

// c += 8 rows of x at `offsets` (of each tap `pitch` apart) times the panel of weights.
inline void multiply_taps(__global const float* restrict x, __local const long* offsets, int pitch, int taps,
                          int sources, int vectors, __global const float* restrict b, float16 c[8][2]) {
  float16 sum[8][2];  // in registers even where this function is not inlined
#pragma unroll
  for (int r = 0; r < 8; ++r) sum[r][0] = c[0][0], sum[r][1] = c[0][1];
#define ROW_AT(p, r) (p)[row[r]]
#define PANEL_AT(p, y) vload16(y, p)
  for (int t = 0; t < taps; ++t, offsets += pitch, b += (long)sources * PANEL) {
    long row[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) row[r] = offsets[r];
    REGISTER_TILE(float16, float16, sum, sources, vectors, x, 1, ROW_AT, b, PANEL, PANEL_AT, FUSED_MULTIPLY_ADD)
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) c[r][0] = sum[r][0], c[r][1] = sum[r][1];
}

// Where pixels first .. first + count - 1 of the grid are stored, and the rows of x under their taps:
// offsets[tap][pixel].
inline void find_rows(const RowsShape* s, long first, int count, int pitch, long nothing, __local long* offsets,
                      __local long* targets) {
  const int plane = count_of(s->grid);
  for (int i = 0; i < (count + 7) / 8 * 8; ++i) {
    const long pixel = first + MIN_OF(i, count - 1), n = pixel / plane;
    const int q = pixel - n * plane, x = q % s->grid[2], y = q / s->grid[2] % s->grid[1],
              z = q / (s->grid[2] * s->grid[1]);
    targets[i] =
        (((n * s->image[0] + s->first[0] + z * s->step[0]) * s->image[1] + s->first[1] + y * s->step[1]) * s->image[2] +
         s->first[2] + x * s->step[2]) *
        s->y_pixel;
    __local long* offset = offsets + i;
    for (int a = 0; a < s->taps[0]; ++a)
      for (int b = 0; b < s->taps[1]; ++b)
        for (int c = 0; c < s->taps[2]; ++c, offset += pitch) {
          const int iz = z * s->stride[0] - s->padding[0] + a * s->dilation[0],
                    iy = y * s->stride[1] - s->padding[1] + b * s->dilation[1];
          const int ix = x * s->stride[2] - s->padding[2] + c * s->dilation[2];
          const int inside = iz >= 0 && iz < s->input[0] && iy >= 0 && iy < s->input[1] && ix >= 0 && ix < s->input[2];
          *offset = inside ? (((n * s->input[0] + iz) * s->input[1] + iy) * s->input[2] + ix) * s->x_pixel : nothing;
        }
  }
}

// pixels: of a task, a multiple of 8; panels: of a task. Grid: (pixels, panels, groups). Local memory: taps x pixels,
// and pixels.
CPU_KERNEL void rows_multiply(global const float* restrict x, global const float* restrict packed,
                              global const float* restrict zeros, global const float* restrict bias,
                              global float* restrict y, const RowsShape s, int has_bias, int pixels, int panels,
                              local long* restrict offsets, local long* restrict targets) {
  const int group = get_group_id(2), taps = count_of(s.taps), all_panels = (s.results + PANEL - 1) / PANEL;
  const long first = (long)get_group_id(0) * pixels;
  const int count = MIN_OF((long)pixels, (long)s.batch * count_of(s.grid) - first);
  const int begin = get_group_id(1) * panels, end = MIN_OF(all_panels, begin + panels);
  x += (long)group * s.sources;
  y += (long)group * s.results;
  bias += (long)group * s.results;
  packed += (long)group * all_panels * taps * s.sources * PANEL;
  find_rows(&s, first, count, pixels, zeros - x, offsets, targets);
  for (int panel = begin; panel < end; ++panel) {
    const int o = panel * PANEL, vectors = s.results - o > 16 ? 2 : 1;
    float16 low = (float16)0, high = (float16)0;
    if (has_bias) low = vload16(0, bias + o), high = vload16(1, bias + o);
    for (int i = 0; i < count; i += 8) {
      float16 c[8][2];
      c[0][0] = low, c[0][1] = high;
      multiply_taps(x, offsets + i, pixels, taps, s.sources, vectors, packed + (long)panel * taps * s.sources * PANEL,
                    c);
#pragma unroll
      for (int r = 0; r < 8; ++r)
        if (i + r < count) {
          __global float* to = y + targets[i + r];
          PUT_LANES(float32, float32, to, o, s.results, c[r][0]);
          PUT_LANES(float32, float32, to, o + 16, s.results, c[r][1]);
        }
    }
  }
}
