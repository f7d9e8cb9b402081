// Direct convolution in two dimensions, CPU style, for groups of few channels and for filters too large for others:
// nothing is gathered. Planes of x are copied into frames in local memory, bordered by zeros, one frame for each phase
// of the stride. There a tap is one displacement, also from
// row to row, so that all pixels of a band of rows are a single line of vectors; the few columns between two rows are
// computed and dropped.
//   conv_direct_pack     weights -> packed[group][o / 4][channel][tap][4]; any strides and tap order, so that it also
//   serves backward-data conv_direct          y = bias + x * w                register tile 4 channels x 3 vectors of
//   pixels
//   conv_direct_weight   dw[o, k] = sum over pixels      register tile 4 channels x 3 pairs k = (channel, tap)
// 12 sums hide the latency of two multiply-adds per clock and leave 4 of 16 registers: 7 loads for 12 products.
#include "params/conv.h"
#include "common/types.clh"
#include "conv/limits.clh"

#ifndef DTYPE
#define DTYPE float32
#define RESULT float32
#define STRIDE 1
#endif
#define T STORAGE(DTYPE)
#if NARROW_REGISTERS
#define L 8
#define LANE_NUMBERS ((int8)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#define L 16
#define LANE_NUMBERS ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#endif
#define V VALUE_V(float32, L)
#define AT(p) CAT(vload, L)(0, p)
#define PUT(v, p) CAT(vstore, L)(v, 0, p)
#define GET(p, i) LOADV(DTYPE, float32, L, p, i)
#define MOST_PAIRS direct_pairs

inline void zero_floats(__local float* to, int floats) {
  for (int i = 0; i < floats; i += 16) vstore16((float16)0, 0, to + i);
}

// offsets[channel][tap]: where pixels under the tap lie in the frames of so many channels.
inline void find_offsets(const Direct* s, int channels, __local int* offsets) {
  for (int c = 0; c < channels; ++c)
    for (int i = 0; i < s->taps_h; ++i)
      for (int j = 0; j < s->taps_w; ++j, ++offsets) {
        const int y = i * s->dilation_h, x = j * s->dilation_w;
        *offsets = ((c * s->stride_h + y % s->stride_h) * STRIDE + x % STRIDE) * s->frame + y / s->stride_h * s->pitch +
                   x / STRIDE;
      }
}

// L elements from `i` on, STRIDE apart; reads up to L * STRIDE - 1 elements past the last that is used.
inline V get_apart(__global const T* p, long i) {
#if STRIDE == 1
  return GET(p, i);
#else
  return (V)(GET(p, i).even, GET(p, i + L).even);
#endif
}

// A plane to its frames, whose first row is that under the first tap of row `top` of the result. What is written past a
// row's end is zero; the next row follows, or space.
inline void fill_frames(const Direct* s, __global const T* plane, int top, __local float* frames) {
  for (int y = 0; y < s->stride_h; ++y)
    for (int x = 0; x < STRIDE; ++x, frames += s->frame) {
      const int columns = s->columns[x];
      __local float* to = frames + s->begin[x];
      for (int i = 0; i < s->rows; ++i, to += s->pitch) {
        const int row = (top + i) * s->stride_h + y - s->pad_h;
        if (row < 0 || row >= s->in_h) {
          for (int j = 0; j < columns; j += L) PUT((V)0, to + j);
          continue;
        }
        __global const T* from = plane + (long)row * s->in_w + s->begin[x] * STRIDE + x - s->pad_w;
        int j = 0;
        for (; j + L <= columns; j += L) PUT(get_apart(from, (long)j * STRIDE), to + j);
        if (j < columns) PUT(select((V)0, get_apart(from, (long)j * STRIDE), LANE_NUMBERS < columns - j), to + j);
      }
    }
}

// Rows of `width` out of lines of `pitch`.
inline void store_rows(__local const float* from, int rows, int width, int pitch, Limits limits, __global T* to) {
  const int total = rows * width;
  for (int at = 0; at < total; at += width, from += pitch) {
    int j = 0;
    for (; j < width && at + j + L <= total; j += L)
      STOREV(DTYPE, float32, L, to, at + j, LIMIT(V, AT(from + j), limits));  // the next row follows
    for (; j < width; ++j) STORE(DTYPE, float32, to, at + j, LIMIT(float, from[j], limits));
  }
}

// Grid: (ceil(results / 4), groups).
CPU_KERNEL void conv_direct_pack(global const T* restrict w, global float* restrict packed, const Direct s,
                                 const WeightMap m) {
  const int o = get_group_id(0) * 4, taps = s.taps_h * s.taps_w, rows = MIN_OF(4, s.results - o);
  w += get_group_id(1) * m.group + o * m.out + m.base;
  packed += ((long)get_group_id(1) * get_num_groups(0) + get_group_id(0)) * s.channels * taps * 4;
  for (int c = 0; c < s.channels; ++c)
    for (int i = 0; i < s.taps_h; ++i)
      for (int j = 0; j < s.taps_w; ++j, packed += 4) {
        __global const T* from = w + c * m.in + i * m.tap[1] + j * m.tap[2];
        if (rows == 4) {
          const float4 v = {LOAD(DTYPE, float32, from, 0), LOAD(DTYPE, float32, from, m.out),
                            LOAD(DTYPE, float32, from, 2 * m.out), LOAD(DTYPE, float32, from, 3 * m.out)};
          vstore4(v, 0, packed);
        } else {
          for (int r = 0; r < 4; ++r) packed[r] = r < rows ? LOAD(DTYPE, float32, from, r * m.out) : 0;
        }
      }
}

// Adds the products with `pairs` pairs of a channel and a tap to one, two or three vectors of four lines, which begin
// with the bias where `first`.
// x: where the first vector begins in the first frame.
#define SUM(l, i) (first ? (V)(bias.s##l) : AT(to + l * line + i * L))
#define EACH_PAIR for (int k_ = 0; k_ < pairs; ++k_, a += 4)
#define ADD_LINE(l, SUMS)   \
  {                         \
    const V w_ = (V)(a[l]); \
    SUMS                    \
  }
inline void direct_1(int pairs, __local const float* x, __local const int* offsets, __global const float* a, int first,
                     float4 bias, __local float* to, int line) {
  V a0 = SUM(0, 0), b0 = SUM(1, 0), c0 = SUM(2, 0), d0 = SUM(3, 0);
  EACH_PAIR {
    const V x0 = AT(x + offsets[k_]);
    ADD_LINE(0, a0 = fma(w_, x0, a0);)
    ADD_LINE(1, b0 = fma(w_, x0, b0);) ADD_LINE(2, c0 = fma(w_, x0, c0);) ADD_LINE(3, d0 = fma(w_, x0, d0);)
  }
  PUT(a0, to), PUT(b0, to + line), PUT(c0, to + 2 * line), PUT(d0, to + 3 * line);
}
inline void direct_2(int pairs, __local const float* x, __local const int* offsets, __global const float* a, int first,
                     float4 bias, __local float* to, int line) {
  V a0 = SUM(0, 0), b0 = SUM(1, 0), c0 = SUM(2, 0), d0 = SUM(3, 0), a1 = SUM(0, 1), b1 = SUM(1, 1), c1 = SUM(2, 1),
    d1 = SUM(3, 1);
  EACH_PAIR {
    __local const float* p = x + offsets[k_];
    const V x0 = AT(p), x1 = AT(p + L);
    ADD_LINE(0, a0 = fma(w_, x0, a0); a1 = fma(w_, x1, a1);)
    ADD_LINE(1, b0 = fma(w_, x0, b0); b1 = fma(w_, x1, b1);)
    ADD_LINE(2, c0 = fma(w_, x0, c0); c1 = fma(w_, x1, c1);)
    ADD_LINE(3, d0 = fma(w_, x0, d0); d1 = fma(w_, x1, d1);)
  }
  PUT(a0, to), PUT(b0, to + line), PUT(c0, to + 2 * line), PUT(d0, to + 3 * line);
  to += L;
  PUT(a1, to), PUT(b1, to + line), PUT(c1, to + 2 * line), PUT(d1, to + 3 * line);
}
inline void direct_3(int pairs, __local const float* x, __local const int* offsets, __global const float* a, int first,
                     float4 bias, __local float* to, int line) {
  V a0 = SUM(0, 0), b0 = SUM(1, 0), c0 = SUM(2, 0), d0 = SUM(3, 0), a1 = SUM(0, 1), b1 = SUM(1, 1), c1 = SUM(2, 1),
    d1 = SUM(3, 1);
  V a2 = SUM(0, 2), b2 = SUM(1, 2), c2 = SUM(2, 2), d2 = SUM(3, 2);
  EACH_PAIR {
    __local const float* p = x + offsets[k_];
    const V x0 = AT(p), x1 = AT(p + L), x2 = AT(p + 2 * L);
    ADD_LINE(0, a0 = fma(w_, x0, a0); a1 = fma(w_, x1, a1); a2 = fma(w_, x2, a2);)
    ADD_LINE(1, b0 = fma(w_, x0, b0); b1 = fma(w_, x1, b1); b2 = fma(w_, x2, b2);)
    ADD_LINE(2, c0 = fma(w_, x0, c0); c1 = fma(w_, x1, c1); c2 = fma(w_, x2, c2);)
    ADD_LINE(3, d0 = fma(w_, x0, d0); d1 = fma(w_, x1, d1); d2 = fma(w_, x2, d2);)
  }
  PUT(a0, to), PUT(b0, to + line), PUT(c0, to + 2 * line), PUT(d0, to + 3 * line);
  to += L;
  PUT(a1, to), PUT(b1, to + line), PUT(c1, to + 2 * line), PUT(d1, to + 3 * line);
  to += L;
  PUT(a2, to), PUT(b2, to + line), PUT(c2, to + 2 * line), PUT(d2, to + 3 * line);
}

// channel_block: channels whose frames stand in local memory at a time. Grid: (shares of the pieces, shares of the
// results, groups).
// memory: frames [channel][phase], then a line of `line` floats for each result of a share, rounded up to four.
CPU_KERNEL void conv_direct(global const T* restrict x, global const float* restrict packed,
                            global const T* restrict bias, global T* restrict y, const Direct s, int has_bias,
                            int channel_block, int line, const Limits limits, local float* restrict memory) {
  local int offsets[MOST_PAIRS];
  const int group = get_group_id(2), taps = s.taps_h * s.taps_w, phases = s.stride_h * STRIDE * s.frame,
            blocks = (s.results + 3) / 4;
  const int begin = blocks * get_group_id(1) / get_num_groups(1),
            end = blocks * (get_group_id(1) + 1) / get_num_groups(1);
  const long pieces = (long)s.batch * s.bands;
  __local float* lines = memory + channel_block * phases;
  x += (long)group * s.channels * s.x_plane;
  y += (long)group * s.results * s.y_plane;
  packed += (long)group * blocks * s.channels * taps * 4;
  bias += group * s.results;
  find_offsets(&s, channel_block, offsets);
  zero_floats(memory, channel_block * phases);
  for (long piece = pieces * get_group_id(0) / get_num_groups(0);
       piece < pieces * (get_group_id(0) + 1) / get_num_groups(0); ++piece) {
    const long n = piece / s.bands;
    const int top = (piece - n * s.bands) * s.band, rows = MIN_OF(s.band, s.out_h - top),
              vectors = ((rows - 1) * s.pitch + s.out_w + L - 1) / L;
    for (int c = 0; c < s.channels; c += channel_block) {
      const int channels = MIN_OF(channel_block, s.channels - c);
      for (int i = 0; i < channels; ++i)
        fill_frames(&s, x + n * s.x_image + (c + i) * s.x_plane, top, memory + i * phases);
      for (int block = begin; block < end; ++block) {
        const int o = block * 4;
        __global const float* a = packed + ((long)block * s.channels + c) * taps * 4;
        __local float* to = lines + (block - begin) * 4 * line;
        float4 offset = 0;
        if (has_bias && c == 0) {
          offset.x = LOAD(DTYPE, float32, bias, o);
          if (o + 1 < s.results) offset.y = LOAD(DTYPE, float32, bias, o + 1);
          if (o + 2 < s.results) offset.z = LOAD(DTYPE, float32, bias, o + 2);
          if (o + 3 < s.results) offset.w = LOAD(DTYPE, float32, bias, o + 3);
        }
        // Two vectors take no longer for each than three.
        for (int v = 0; v < vectors;) {
          const int left = vectors - v;
          if (left == 1) {
            direct_1(channels * taps, memory + v * L, offsets, a, c == 0, offset, to + v * L, line);
            v += 1;
          } else if (left == 2 || left == 4) {
            direct_2(channels * taps, memory + v * L, offsets, a, c == 0, offset, to + v * L, line);
            v += 2;
          } else {
            direct_3(channels * taps, memory + v * L, offsets, a, c == 0, offset, to + v * L, line);
            v += 3;
          }
        }
        if (c + channels == s.channels)
          for (int r = 0; r < 4 && o + r < s.results; ++r)
            store_rows(to + r * line, rows, s.out_w, s.pitch, limits,
                       y + n * s.y_image + (o + r) * s.y_plane + (long)top * s.out_w);
      }
    }
  }
}

// ---- gradient of the weight

// Rows of dy as a line of `pitch` columns, zero between the rows and up to `vectors` whole vectors.
inline void fill_line(__global const T* from, int rows, int width, int pitch, int vectors, __local float* to) {
  for (int i = 0; i < rows; ++i, from += width) {
    int j = 0;
    for (; j + L <= width; j += L) PUT(GET(from, j), to + i * pitch + j);
    if (j < width) PUT(select((V)0, GET(from, j), LANE_NUMBERS < width - j), to + i * pitch + j);
    for (j = width; j < pitch; j += L) PUT((V)0, to + i * pitch + j);
  }
  for (int j = (rows - 1) * pitch + width; j < vectors * L; j += L) PUT((V)0, to + j);
}

// The horizontal sums of four vectors.
inline float4 four_sums(V a, V b, V c, V d) {
#if L == 16
  const float8 e = a.lo + a.hi, f = b.lo + b.hi, g = c.lo + c.hi, h = d.lo + d.hi;
#else
  const float8 e = a, f = b, g = c, h = d;
#endif
  const float4 i = e.lo + e.hi, j = f.lo + f.hi, k = g.lo + g.hi, l = h.lo + h.hi;
  const float4 m = (float4)(i.xy, j.xy) + (float4)(i.zw, j.zw), n = (float4)(k.xy, l.xy) + (float4)(k.zw, l.zw);
  return (float4)(m.xz, n.xz) + (float4)(m.yw, n.yw);
}

// x0, x1, x2: three pairs (channel, tap) in the first image; sums: of four channels of dy by those pairs, `width`
// floats apart.
inline void direct_sums(int images, int vectors, __local const float* x0, __local const float* x1,
                        __local const float* x2, int x_image, __local const float* dy, int line, int dy_image,
                        __local float* sums, int width) {
  V a0 = (V)0, a1 = a0, a2 = a0, b0 = a0, b1 = a0, b2 = a0, c0 = a0, c1 = a0, c2 = a0, d0 = a0, d1 = a0, d2 = a0;
  for (int n = 0; n < images; ++n, x0 += x_image, x1 += x_image, x2 += x_image, dy += dy_image)
    for (int i = 0; i < vectors * L; i += L) {
      const V u0 = AT(x0 + i), u1 = AT(x1 + i), u2 = AT(x2 + i);
      const V a = AT(dy + i);
      a0 = fma(a, u0, a0), a1 = fma(a, u1, a1), a2 = fma(a, u2, a2);
      const V b = AT(dy + line + i);
      b0 = fma(b, u0, b0), b1 = fma(b, u1, b1), b2 = fma(b, u2, b2);
      const V c = AT(dy + 2 * line + i);
      c0 = fma(c, u0, c0), c1 = fma(c, u1, c1), c2 = fma(c, u2, c2);
      const V d = AT(dy + 3 * line + i);
      d0 = fma(d, u0, d0), d1 = fma(d, u1, d1), d2 = fma(d, u2, d2);
    }
#define ADD_SUMS(v, to) *(__local float4*)(to) += v
  ADD_SUMS(four_sums(a0, b0, c0, d0), sums);
  ADD_SUMS(four_sums(a1, b1, c1, d1), sums + width);
  ADD_SUMS(four_sums(a2, b2, c2, d2), sums + 2 * width);
}

// dw: RESULT [share][groups * results][channels][taps]. channel_block, result_block: of one task. line: floats of a
// line of dy.
// Grid: (shares of the pieces, blocks of channels by blocks of results, groups). memory: frames
// [image][channel][phase], lines [image][result], both of a block, and sums [pair][result].
CPU_KERNEL void conv_direct_weight(global const T* restrict x, global const T* restrict dy,
                                   global STORAGE(RESULT) * restrict dw, const Direct s, int channel_block,
                                   int result_block, int line, local float* restrict memory) {
  local int offsets[MOST_PAIRS];
  const int group = get_group_id(2), taps = s.taps_h * s.taps_w, phases = s.stride_h * STRIDE * s.frame;
  const int result_blocks = (s.results + result_block - 1) / result_block;
  const int c0 = get_group_id(1) / result_blocks * channel_block, o0 = get_group_id(1) % result_blocks * result_block;
  const int channels = MIN_OF(channel_block, s.channels - c0), results = MIN_OF(result_block, s.results - o0);
  const int width = (results + 3) / 4 * 4, pairs = channels * taps, x_image = channels * phases,
            dy_image = width * line;
  __local float* lines = memory + s.images * x_image;
  __local float* sums = lines + s.images * dy_image;
  x += ((long)group * s.channels + c0) * s.x_plane;
  dy += ((long)group * s.results + o0) * s.y_plane;
  find_offsets(&s, channels, offsets);
  zero_floats(memory, s.images * (x_image + dy_image) + (pairs + 2) * width);
  const long sets = (s.batch + s.images - 1) / s.images, pieces = sets * s.bands;
  for (long piece = pieces * get_group_id(0) / get_num_groups(0);
       piece < pieces * (get_group_id(0) + 1) / get_num_groups(0); ++piece) {
    const long set = piece / s.bands, n = set * s.images;
    const int images = MIN_OF((long)s.images, s.batch - n), top = (piece - set * s.bands) * s.band,
              rows = MIN_OF(s.band, s.out_h - top);
    const int vectors = ((rows - 1) * s.pitch + s.out_w + L - 1) / L;
    for (int i = 0; i < images; ++i) {
      for (int c = 0; c < channels; ++c)
        fill_frames(&s, x + (n + i) * s.x_image + c * s.x_plane, top, memory + i * x_image + c * phases);
      for (int o = 0; o < results; ++o)
        fill_line(dy + (n + i) * s.y_image + o * s.y_plane + (long)top * s.out_w, rows, s.out_w, s.pitch, vectors,
                  lines + i * dy_image + o * line);
    }
    for (int o = 0; o < results; o += 4) {
      __local const float* dy_lines = lines + o * line;
      for (int k = 0; k < pairs; k += 3) {
        // Where pairs are missing the last one is taken again.
        __local const float* x0 = memory + offsets[k];
        __local const float* x1 = memory + offsets[MIN_OF(k + 1, pairs - 1)];
        __local const float* x2 = memory + offsets[MIN_OF(k + 2, pairs - 1)];
        direct_sums(images, vectors, x0, x1, x2, x_image, dy_lines, line, dy_image, sums + k * width + o, width);
      }
    }
  }
  dw += (((long)get_group_id(0) * get_num_groups(2) + group) * s.results + o0) * s.channels * taps + c0 * taps;
  for (int o = 0; o < results; ++o)
    for (int k = 0; k < pairs; ++k) STORE(RESULT, float32, dw, (long)o * s.channels * taps + k, sums[k * width + o]);
}
