// Winograd convolution, forward and gradient of the input: for every interpolation point a small matrix product over
// the channels,
//   M[point][tile][o] = sum_c V[point][tile][c] * U[point][c][o],   then Y = A^T M A (+ bias) of every tile, stored to
//   y [N, O, H, W].
// In volumes c is a channel of one of depth_taps slices: the tiles of the next slice lie tap_tiles further, its weights
// weight_pitch elements.
// A task owns TILE_BLOCK tiles x 32 output channels, keeps all its M in local memory and needs nothing from other
// tasks.
// Micro-kernel: 8 tiles x 32 channels of accumulators; V is broadcast from scalars, U is loaded as vectors.
//   TRANSFORM_WEIGHT == 0: U comes from transform_weight; slabs of 256 channels keep a plane of U in the first-level
//   cache
//   TRANSFORM_WEIGHT == 1: the task transforms its own 32 x SLAB filters into local memory. Each filter is used by
//   ceil(tiles / TILE_BLOCK)
//                          tasks, so with few tiles and many channels this saves writing and reading U (36 / 9 times
//                          the weights)
// Grid: ceil(tiles / TILE_BLOCK) by ceil(O / 32).
#ifndef TRANSFORM_WEIGHT
#define TRANSFORM_WEIGHT 0
#endif
#ifndef TILE_BLOCK
#define TILE_BLOCK 32
#endif
#if TRANSFORM_WEIGHT
#define WEIGHT_SPACE __local
#define WEIGHT STORAGE(DTYPE)
#ifndef SLAB
#define SLAB 16
#endif
#else
#define WEIGHT_SPACE __global const
#define WEIGHT float
#define SLAB 256
#endif
#include "common/register_tile.clh"
#include "conv/limits.clh"
#include "conv/winograd_formulas.clh"
#if TRANSFORM_WEIGHT
#include "conv/winograd_weight.clh"
#endif

// m[8 tiles][32] (+)= sum over `blocks` blocks of 16 channels; v[tile][16] of successive blocks is `stride` floats
// apart, u[channel][32].
// Meanwhile what the next point reads is brought to the second-level cache: v of the same tiles, `next_v` floats ahead,
// and a piece of u at
// `next_u`, next_size floats in each block. (No structure of these: passed by value, it is read back before its parts
// have been written.)
inline void multiply_tiles(int blocks, long stride, __global const float* restrict v, WEIGHT_SPACE float* restrict u,
                           __local float* restrict m, int first, long next_v, WEIGHT_SPACE float* next_u,
                           int next_size) {
  float16 c[8][2];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    c[i][0] = first ? (float16)0.0f : vload16(2 * i, m);
    c[i][1] = first ? (float16)0.0f : vload16(2 * i + 1, m);
  }
#define OF_TILE(p, x) (p)[(x) * 16]
#define OF_CHANNEL(p, y) vload16(y, p)
  // Where the parts of a register tile follow each other, blocks of 16 steps each would make them short: all that lies
  // ahead comes first.
  const int at_once = NARROW_REGISTERS ? blocks : 1;
  for (int block = 0; block < blocks; block += at_once, v += at_once * stride, u += at_once * 16 * 32) {
    for (int ahead = 0; ahead < at_once; ++ahead, next_u += next_size) {
#pragma unroll
      for (int i = 0; i < 8; ++i) PREFETCH_SECOND(v + ahead * stride + next_v + i * 16);
      for (int i = 0; i < next_size; i += 16) PREFETCH_SECOND(next_u + i);
    }
    REGISTER_TILE_IN_BLOCKS(float16, float16, c, at_once, stride, 16 * 32, 16, 2, v, 1, OF_TILE, u, 32, OF_CHANNEL,
                            FUSED_MULTIPLY_ADD)
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    vstore16(c[i][0], 2 * i, m);
    vstore16(c[i][1], 2 * i + 1, m);
  }
}

// y = A^T m A of one tile, lanes = 16 output channels: pixel r * TILE + c of the tile in y[r * TILE + c].
inline void restore_tile(__local const float* m, float16* y) {
  float16 half_way[POINTS][TILE];
#pragma unroll
  for (int r = 0; r < POINTS; ++r) {
    float16 a[POINTS];
#pragma unroll
    for (int c = 0; c < POINTS; ++c) a[c] = vload16(0, m + (r * POINTS + c) * PLANE_PITCH(TILE_BLOCK * 32));
    points_to_output(a, half_way[r]);
  }
#pragma unroll
  for (int c = 0; c < TILE; ++c) {
    float16 a[POINTS], b[TILE];
#pragma unroll
    for (int r = 0; r < POINTS; ++r) a[r] = half_way[r][c];
    points_to_output(a, b);
#pragma unroll
    for (int r = 0; r < TILE; ++r) y[r * TILE + c] = b[r];
  }
}

// One tile of pixels, `step` apart, of 16 channels, pixels[channel][first_lane + r * TILE + c], clipped to rows x
// columns and `channels`.
inline void store_tile(const float16* pixels, int first_lane, __global STORAGE(DTYPE) * y, long channel_stride,
                       int pitch, int step, int rows, int columns, int channels) {
#if TILE == 4
  if (rows == 4 && columns == 4 && channels == 16 && step == 1) {
#pragma unroll
    for (int l = 0; l < 16; ++l) {
      __global STORAGE(DTYPE)* out = y + l * channel_stride;
      STOREV(DTYPE, float32, 4, out, 0, pixels[l].s0123);
      STOREV(DTYPE, float32, 4, out, pitch, pixels[l].s4567);
      STOREV(DTYPE, float32, 4, out, 2 * pitch, pixels[l].s89ab);
      STOREV(DTYPE, float32, 4, out, 3 * pitch, pixels[l].scdef);
    }
    return;
  }
#endif
  float scratch[256];
#pragma unroll
  for (int l = 0; l < 16; ++l) vstore16(pixels[l], l, scratch);
  for (int l = 0; l < channels; ++l) {
    __global STORAGE(DTYPE)* out = y + l * channel_stride;
    const float* in = scratch + l * 16 + first_lane;
    for (int r = 0; r < rows; ++r) {
      int c = 0;
      for (; step != 1 && c < columns; ++c) STORE(DTYPE, float32, out, c * step, in[c]);
      for (; c + 2 <= columns; c += 2) STOREV(DTYPE, float32, 2, out, c, vload2(0, in + c));
      if (c < columns) STORE(DTYPE, float32, out, c, in[c]);
      in += TILE;
      out += pitch;
    }
  }
}

#if TILE == 2
// Four whole tiles side by side: two rows of 8 pixels of 16 channels.
inline void store_four_tiles(const float16* pixels, __global STORAGE(DTYPE) * y, long channel_stride, int pitch) {
#pragma unroll
  for (int l = 0; l < 16; ++l) {
    __global STORAGE(DTYPE)* out = y + l * channel_stride;
    STOREV(DTYPE, float32, 8, out, 0, pixels[l].s014589cd);
    STOREV(DTYPE, float32, 8, out, pitch, pixels[l].s2367abef);
  }
}
#endif

// The same of a channels-last image: y is the tile's first pixel, pixels[r * TILE + c] its channels.
inline void store_tile_channels_last(const float16* pixels, __global STORAGE(DTYPE) * y, long pixel_stride, int pitch,
                                     int rows, int columns, int channels) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      __global STORAGE(DTYPE)* out = y + ((long)r * pitch + c) * pixel_stride;
      if (channels == 16) {
        STOREV(DTYPE, float32, 16, out, 0, pixels[r * TILE + c]);
      } else {
        float scratch[16];
        vstore16(pixels[r * TILE + c], 0, scratch);
        for (int l = 0; l < channels; ++l) STORE(DTYPE, float32, out, l, scratch[l]);
      }
    }
}

#define TILES_AT_ONCE (16 / (TILE * TILE))  // tiles whose pixels fill 16 lanes

// Tiles tile .. tile + count - 1 of m[point][tile][32] to y for output channels o .. o+15.
inline void restore_tiles(__local const float* m, int tile, int count, int o, int out_channels, int height, int width,
                          int tiles_h, int tiles_w, int first_image, int dilation, int channels_last, long image_stride,
                          long channel_stride, float16 bias, Limits limits, __global STORAGE(DTYPE) * y) {
  const long pixel_stride = channels_last ? out_channels : 1;
  for (int t = 0; t < count; t += TILES_AT_ONCE) {
    float16 pixels[16];
#pragma unroll
    for (int s = 0; s < TILES_AT_ONCE; ++s) restore_tile(m + (t + s) * 32, pixels + s * TILE * TILE);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      pixels[i] += bias;
      pixels[i] = LIMIT(float16, pixels[i], limits);
    }
    if (!channels_last) TRANSPOSE16(float16, pixels);
    for (int s = 0; s < TILES_AT_ONCE && t + s < count; ++s) {
      const int index = tile + t + s, row = index / tiles_w, image = row / tiles_h, column = index - row * tiles_w;
      const int x = TILE * column, top = TILE * (row - image * tiles_h), channels = MIN_OF(16, out_channels - o);
      int sample = first_image + image, rows = height - top, columns = width - x;
      long pixel = (long)top * width + x;
      if (dilation > 1) {
        const int phase_x = sample % dilation, phase_y = sample / dilation % dilation;
        sample /= dilation * dilation;
        rows = (height - phase_y + dilation - 1) / dilation - top;
        columns = (width - phase_x + dilation - 1) / dilation - x;
        pixel = (long)(top * dilation + phase_y) * width + x * dilation + phase_x;
      }
      __global STORAGE(DTYPE)* out = y + sample * image_stride + o * channel_stride + pixel * pixel_stride;
      if (channels_last) {
        store_tile_channels_last(pixels + s * TILE * TILE, out, pixel_stride * dilation, width, MIN_OF(TILE, rows),
                                 MIN_OF(TILE, columns), channels);
        continue;
      }
#if TILE == 2
      if (s == 0 && t + 4 <= count && column + 4 <= tiles_w && columns >= 8 && rows >= 2 && channels == 16 &&
          dilation == 1) {
        store_four_tiles(pixels, out, channel_stride, width);
        break;
      }
#endif
      store_tile(pixels, s * TILE * TILE, out, channel_stride, width * dilation, dilation, MIN_OF(TILE, rows),
                 MIN_OF(TILE, columns), channels);
    }
  }
}

// weight: U of transform_weight, or w itself with TRANSFORM_WEIGHT. height, width and strides: of y. tiles: images *
// tiles_h * tiles_w; v_tiles: those that V has.
CPU_KERNEL void multiply(global const float* restrict v, global const WEIGHT* restrict weight,
                         global const STORAGE(DTYPE) * restrict bias, global STORAGE(DTYPE) * restrict y,
                         int in_channels, int out_channels, int height, int width, int tiles_h, int tiles_w, int tiles,
                         int order, int has_bias, int channels_last, long image_stride, long channel_stride,
                         int v_tiles, int depth_taps, int tap_tiles, long weight_pitch, int first_image, int dilation,
                         const Limits limits) {
  local float m[PLANES * PLANE_PITCH(TILE_BLOCK * 32)];
  const int tile = get_group_id(0) * TILE_BLOCK, count = MIN_OF(TILE_BLOCK, tiles - tile), o = get_group_id(1) * 32;
  const int blocks = (in_channels + 15) / 16;
  const long stride = (long)v_tiles * 16, plane = PLANE_PITCH(blocks * stride);
#if TRANSFORM_WEIGHT
  local float u[PLANES * PLANE_PITCH(SLAB * 32)];
  local float staged[16 * FILTER_TAPS * 16];
  const long weight_plane = PLANE_PITCH(SLAB * 32);
#else
  const long weight_plane = PLANE_PITCH((long)(out_channels + 31) / 32 * 32 * blocks * 16);
#endif
  for (int tap = 0; tap < depth_taps; ++tap) {
    __global const float* tap_v = v + (long)tap * tap_tiles * 16;
    __global const WEIGHT* tap_weight = weight + tap * weight_pitch;
    for (int b = 0; b < blocks; b += SLAB / 16) {
      const int depth = MIN_OF(SLAB / 16, blocks - b), groups = (count + 7) / 8;
#if TRANSFORM_WEIGHT
      for (int i = 0; i < depth; ++i)
        for (int h = 0; h < 32; h += 16) {
          stage_weights(tap_weight, out_channels, in_channels, order, o + h, (b + i) * 16, staged);
          transform_staged(staged, u + i * 16 * 32 + h, weight_plane);
        }
#else
      __global const float* u = tap_weight + (long)(o / 32 * blocks + b) * 16 * 32;
#endif
      const int piece = TRANSFORM_WEIGHT ? 0 : (16 * 32 / groups + 15) / 16 * 16;
      for (int point = 0; point < PLANES; ++point)
        for (int t = 0; t < count; t += 8)
          multiply_tiles(depth, stride, tap_v + point * plane + b * stride + (long)(tile + t) * 16,
                         u + point * weight_plane, m + point * PLANE_PITCH(TILE_BLOCK * 32) + t * 32,
                         tap == 0 && b == 0, plane, u + (point + 1) * weight_plane + t / 8 * piece * depth, piece);
    }
  }
  for (int h = 0; h < 32 && o + h < out_channels; h += 16) {
    float16 offset = (float16)0.0f;
    if (has_bias) offset = LOADV(DTYPE, float32, 16, bias, o + h);
    restore_tiles(m + h, tile, count, o + h, out_channels, height, width, tiles_h, tiles_w, first_image, dilation,
                  channels_last, image_stride, channel_stride, offset, limits, y);
  }
}
