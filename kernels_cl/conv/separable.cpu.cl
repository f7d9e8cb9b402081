// An inverted residual in one launch: [1x1 convolution] -> depthwise K x K -> [1x1 convolution + residual], channels
// last, float32, for inference. The wide tensors between them never leave the caches: a task takes a band of rows of
// the result of one image and goes through the channels in chunks of 32.
//   image[row][column][32]   the chunk of the first convolution, with a border of zeros
//   middle[pixel][32]        the chunk behind the depthwise filter
//   sums[panel][pixel][32]   what the chunks so far add to the result
// EXPAND 0: the depthwise filter reads x. PROJECT 0: its results are y, and sums over the band's pixels go to `other`.
// Weights are packed (csrc/ops/conv/separable.h): expand [chunk][source][32], depthwise [chunk][tap][32], project
// [panel][channel][32]; biases are filled up with zeros to whole vectors.
// Grid: (bands of all images, parts of the chunks). With several parts each stores a share of its own in `other`, which
// separable_sum adds up.
#include "conv/activation.clh"
#include "common/register_tile.clh"
#include "common/style_lanes.clh"

#ifndef K
#define K 3
#define STRIDE 1
#define EXPAND 1
#define PROJECT 1
#endif
#define WIDE separable_lanes

// The border of the image: what lies outside x, and the pixels behind its end that fill up tiles. top: of x's rows, the
// first row of the image.
inline void zero_border(const Separable* s, int top, local float* image) {
  for (int r = 0; r < s->rows; ++r) {
    local float* row = image + (long)r * s->pitch * WIDE;
    const int inside = top + r >= 0 && top + r < s->in_h;
    for (int c = 0; c < s->pitch; ++c) {
      if (inside && c == s->pad_w) c += s->in_w;
      if (c >= s->pitch) break;
      vstore16((float16)0, 0, row + c * WIDE);
      vstore16((float16)0, 1, row + c * WIDE);
    }
  }
  local float* behind = image + (long)s->rows * s->pitch * WIDE;
  for (int i = 0; i < separable_slack * 2; ++i) vstore16((float16)0, i, behind);
}

// Eight pixels of x times the chunk's weights, into their places in the image.
#define ROW_AT(p, r) (p)[row[r]]
#define PANEL_AT(p, y) vload16(y, p)
inline void expand_chunk(__global const float* restrict x, const Separable* s, int count,
                         __global const float* restrict weights, __global const float* restrict bias, int vectors,
                         local const int* places, local float* image) {
  for (int i = 0; i < count; i += 8) {
    int row[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) row[r] = MIN_OF(i + r, count - 1) * s->sources;
    float16 c[8][2];
#pragma unroll
    for (int r = 0; r < 8; ++r) c[r][0] = vload16(0, bias), c[r][1] = vload16(1, bias);
    REGISTER_TILE(float16, float16, c, s->sources, vectors, x, 1, ROW_AT, weights, WIDE, PANEL_AT, FUSED_MULTIPLY_ADD)
    float16* all = c[0];
    ACTIVATE(all, 16, s->expanded)
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      local float* to = image + places[i + r];
      vstore16(c[r][0], 0, to);
      vstore16(c[r][1], 1, to);
    }
  }
}

inline void copy_chunk(__global const float* restrict x, const Separable* s, int count, local const int* places,
                       local float* image) {
  for (int i = 0; i < count; ++i) {
    vstore16(vload16(0, x + (long)i * s->sources), 0, image + places[i]);
    vstore16(vload16(1, x + (long)i * s->sources), 1, image + places[i]);
  }
}

// Four results side by side of 16 channels: a pixel of the image is loaded once for all of them.
inline void filter_pixels(local const float* p, const float16* w, int pitch, float16 bias, Activation activation,
                          local float* result) {
  float16 v[4] = {bias, bias, bias, bias};
#define ADD_COLUMN(m) \
  if (j >= (m) * STRIDE && j - (m) * STRIDE < K) v[m] = fma(a, w[i * K + j - (m) * STRIDE], v[m]);
  _Pragma("unroll") for (int i = 0; i < K; ++i) {
    _Pragma("unroll") for (int j = 0; j < K + 3 * STRIDE; ++j) {
      const float16 a = vload16(0, p + (i * pitch + j) * WIDE);
      ADD_COLUMN(0) ADD_COLUMN(1) ADD_COLUMN(2) ADD_COLUMN(3)
    }
  }
  ACTIVATE(v, 4, activation)
#pragma unroll
  for (int m = 0; m < 4; ++m) vstore16(v[m], 0, result + m * WIDE);
}

// Rows of results, one behind the other: what lies past the end of a row is written again by the next one.
inline void filter_chunk(local const float* image, const Separable* s, int band, __global const float* restrict weights,
                         __global const float* restrict bias, int vectors, local float* middle) {
  for (int v = 0; v < vectors; ++v) {
    float16 w[K * K];
#pragma unroll
    for (int t = 0; t < K * K; ++t) w[t] = vload16(v, weights + t * WIDE);
    const float16 offset = vload16(v, bias);
    for (int r = 0; r < band; ++r)
      for (int c = 0; c < s->out_w; c += 4)
        filter_pixels(image + (r * STRIDE * s->pitch + c * STRIDE) * WIDE + 16 * v, w, s->pitch, offset, s->filtered,
                      middle + (r * s->out_w + c) * WIDE + 16 * v);
  }
}

// Where results go: y or a share of them; with the residual where they are whole.
typedef struct {
  global float* y;
  global const float* residual;
  global const float* bias;
  int added, biased;  // whether the residual is, and the bias
  int whole;          // otherwise a share: without the activation
} Results;

#define MIDDLE_AT(p, r) (p)[(r) * WIDE]
inline void project_chunk(local const float* middle, const Separable* s, int pixels, int steps,
                          __global const float* restrict weights, long panel_step, int first, int last,
                          const Results* to, local float* sums) {
  const int tiles = (pixels + 7) / 8;
  for (int o = 0; o < s->results; o += WIDE, weights += panel_step, sums += tiles * 8 * WIDE) {
    const int vectors = s->results - o > 16 ? 2 : 1;
    for (int i = 0; i < pixels; i += 8) {
      float16 c[8][2];
      local float* sum = sums + i * WIDE;
      if (first) {
        float16 low = (float16)0, high = (float16)0;
        if (to->biased) low = vload16(0, to->bias + o), high = vload16(1, to->bias + o);
#pragma unroll
        for (int r = 0; r < 8; ++r) c[r][0] = low, c[r][1] = high;
      } else {
#pragma unroll
        for (int r = 0; r < 8; ++r) c[r][0] = vload16(0, sum + r * WIDE), c[r][1] = vload16(1, sum + r * WIDE);
      }
      REGISTER_TILE(float16, float16, c, steps, vectors, middle + i * WIDE, 1, MIDDLE_AT, weights, WIDE, PANEL_AT,
                    FUSED_MULTIPLY_ADD)
      if (!last) {
#pragma unroll
        for (int r = 0; r < 8; ++r) vstore16(c[r][0], 0, sum + r * WIDE), vstore16(c[r][1], 1, sum + r * WIDE);
        continue;
      }
      if (to->whole) {
        float16* all = c[0];
        ACTIVATE(all, 16, s->projected)
      }
      for (int r = 0; r < 8 && i + r < pixels; ++r) {
        const long at = (long)(i + r) * s->results + o;
        float16 a = c[r][0], b = c[r][1];
        if (to->added) a += vload16(0, to->residual + at), b += vload16(1, to->residual + at);
        PUT_LANES(float32, float32, to->y, at, at - o + s->results, a);
        PUT_LANES(float32, float32, to->y, at + 16, at - o + s->results, b);
      }
    }
  }
}

// The chunk's results as they are, and their sums.
inline void store_chunk(local const float* middle, const Separable* s, int pixels, int channel, __global float* y,
                        __global float* means) {
  float16 sum[2] = {(float16)0, (float16)0};
  for (int i = 0; i < pixels; ++i) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const long at = (long)i * s->width + channel + 16 * v, end = (long)(i + 1) * s->width;
      const float16 value = vload16(v, middle + i * WIDE);
      if (at < end) sum[v] += value;
      PUT_LANES(float32, float32, y, at, end, value);
    }
  }
  PUT_LANES(float32, float32, means, channel, s->width, sum[0]);
  PUT_LANES(float32, float32, means, channel + 16, s->width, sum[1]);
}

CPU_KERNEL void separable(global const float* restrict x, global const float* restrict expand,
                          global const float* restrict expand_bias, global const float* restrict depthwise,
                          global const float* restrict depthwise_bias, global const float* restrict project,
                          global const float* restrict project_bias, global float* restrict y,
                          global float* restrict other, const Separable s, int with_residual,
                          local float* restrict image, local float* restrict middle, local float* restrict sums,
                          local int* restrict places) {
  const int n = get_group_id(0) / s.bands, first_row = get_group_id(0) % s.bands * s.band;
  const int band = MIN_OF(s.band, s.out_h - first_row), pixels = band * s.out_w, top = first_row * STRIDE - s.pad_h;
  const int begin_row = top < 0 ? 0 : top, end_row = MIN_OF(s.in_h, top + (band - 1) * STRIDE + K);
  const int count = (end_row - begin_row) * s.in_w;
  for (int r = begin_row, i = 0; r < end_row; ++r)
    for (int c = 0; c < s.in_w; ++c, ++i) places[i] = ((r - top) * s.pitch + s.pad_w + c) * WIDE;
  for (int i = 0; i < 8; ++i) places[count + i] = s.rows * s.pitch * WIDE;  // of pixels that fill up a tile
  zero_border(&s, top, image);
  for (int i = pixels; i < (pixels + 7) / 8 * 8; ++i)
    for (int v = 0; v < 2; ++v) vstore16((float16)0, v, middle + i * WIDE);
  x += ((long)n * s.in_h + begin_row) * s.in_w * s.sources;
  const long pixel = ((long)n * s.out_h + first_row) * s.out_w;
  const int all_chunks = (s.width + WIDE - 1) / WIDE, begin = get_group_id(1) * s.chunks,
            end = MIN_OF(all_chunks, begin + s.chunks), parts = get_num_groups(1);
#if PROJECT
  Results to = {y + pixel * s.results, x, project_bias, 0, begin == 0, parts == 1};
  if (parts > 1) {
    to.y = other + ((long)get_group_id(1) * s.batch * s.out_h * s.out_w + pixel) * s.results;
  } else if (with_residual) {
    to.added = 1;
    to.residual = x + ((long)first_row - begin_row) * s.in_w * s.sources;
  }
#endif
  for (int chunk = begin; chunk < end; ++chunk) {
    const int channel = chunk * WIDE, live = MIN_OF(WIDE, s.width - channel), vectors = live > 16 ? 2 : 1;
#if EXPAND
    expand_chunk(x, &s, count, expand + (long)channel * s.sources, expand_bias + channel, vectors, places, image);
#else
    copy_chunk(x + channel, &s, count, places, image);
#endif
    filter_chunk(image, &s, band, depthwise + channel * K * K, depthwise_bias + channel, vectors, middle);
#if PROJECT
    project_chunk(middle, &s, pixels, live, project + (long)channel * WIDE, (long)all_chunks * WIDE * WIDE,
                  chunk == begin, chunk == end - 1, &to, sums);
#else
    store_chunk(middle, &s, pixels, channel, y + pixel * s.width, other + (long)get_group_id(0) * s.width);
#endif
  }
}

// y = activation(sum of the parts' shares) + residual. Grid: ranges of elements.
CPU_KERNEL void separable_sum(global const float* restrict shares, global const float* restrict residual,
                              global float* restrict y, long count, int parts, const Activation activation) {
  const long vectors = (count + 15) / 16, end = vectors * (get_group_id(0) + 1) / get_num_groups(0);
  for (long i = vectors * get_group_id(0) / get_num_groups(0); i < end; ++i) {
    float16 v[1] = {vload16(i, shares)};
    for (int part = 1; part < parts; ++part) v[0] += vload16(0, shares + part * count + i * 16);
    ACTIVATE(v, 1, activation)
    if (HAS(residual)) v[0] += vload16(i, residual);
    PUT_LANES(float32, float32, y, i * 16, count, v[0]);
  }
}
