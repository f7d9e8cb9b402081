// Direct convolution of images with few channels (C <= 4, the first layer of a network), forward and gradient of the
// weights.
// Phase planes: the rows of a band are split into L[c][row % S][column % S][row / S][column / S] with pitch = OW + (K -
// 1) / S, zeros outside
// the image. Output pixel g = oy * pitch + ox is then one linear index over the whole band, and tap (kh, kw) of every
// pixel is the constant
// offset plane(kh % S, kw % S) + (kh / S) * pitch + kw / S: no im2col and no masks. (K - 1) / S positions per row are
// not pixels.
//   stem_forward          y [N, O, OH, OW] (CHANNELS_LAST: [N, OH, OW, O], as x is then); task = (image, band of output
//   rows)
//   stem_weight_gradient  partial [part][O, C, K, K]; task = (range of bands of all images, 32 output channels); lanes
//   = positions
//   stem_sum_partials     w = sum of the parts, in their order (deterministic)
//   stem_widen            weights of half types to float32
// Defines: CHANNELS = C, KERNEL = K (square), STRIDE = S (1, 2 or 4), CHANNELS_LAST, DTYPE. The caller gives the local
// memory (csrc/ops/conv/stem.cpp). In the weight gradient a zero of the gaps multiplies an image value: an infinity in
// x may reach a tap that does not touch it.
#include "conv/stem.clh"
#include "common/transpose16.clh"
#include "common/transpose8.clh"
#include "conv/limits.clh"

#define TAPS (CHANNELS * KERNEL * KERNEL)

// Register tiles, for 32 registers of 64 bytes or 16 of 32. Forward: CHANNEL_BLOCK output channels by CHUNKS vectors of
// 16 positions; gradient
// of the weights: CHANNEL_STEP output channels by 6 taps, sums of LANES positions.
#if NARROW_REGISTERS
#define CHANNEL_BLOCK 6
#define CHUNKS 1
#define CHANNEL_STEP 2
#define LANES 8
#else
#define CHANNEL_BLOCK 8
#define CHUNKS 2
#define CHANNEL_STEP 4
#define LANES 16
#endif

#include "conv/stem_memory.clh"

// First position of a chunk of 16. The last one of a row ends with the row, some of its pixels are computed twice.
inline int chunk_position(StemGeometry g, int chunk) {
  if (!g.row_chunks) return chunk * 16;
  const int row = chunk / g.row_chunks;
  return row * g.pitch + MIN_OF((chunk - row * g.row_chunks) * 16, g.out_width - 16);
}

// sum[output channel][vector of positions] += all taps; w[channel][TAPS], planes at the first vector, a second one
// `next` positions on.
inline __attribute__((always_inline)) void accumulate_taps(StemGeometry g, __global const float* restrict w,
                                                           __local const float* restrict planes, int next,
                                                           float16 sum[CHANNEL_BLOCK][CHUNKS]) {
  for (int c = 0; c < CHANNELS; ++c)
    for (int kh = 0; kh < KERNEL; ++kh) {
      __local const float* restrict row =
          planes + (c * STRIDE + kh % STRIDE) * STRIDE * g.plane + kh / STRIDE * g.pitch;
#pragma unroll
      for (int kw = 0; kw < KERNEL; ++kw) {
        __local const float* restrict x = row + kw % STRIDE * g.plane + kw / STRIDE;
        float16 v[CHUNKS];
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) v[j] = vload16(0, x + j * next);
#pragma unroll
        for (int i = 0; i < CHANNEL_BLOCK; ++i) {
          const float16 a = (float16)(w[i * TAPS + kw]);
#pragma unroll
          for (int j = 0; j < CHUNKS; ++j) sum[i][j] = fma(a, v[j], sum[i][j]);
        }
      }
      w += KERNEL;
    }
}

// Grid: images by bands. Local memory: line, then the planes. out_channels >= CHANNEL_BLOCK; a ragged last block
// repeats channels of the one
// before.
CPU_KERNEL void stem_forward(global const STORAGE(DTYPE) * restrict x, global const float* restrict w,
                             global const STORAGE(DTYPE) * restrict bias, global STORAGE(DTYPE) * restrict y,
                             StemGeometry g, int out_channels, int has_bias, const Limits limits,
                             local float* restrict local_memory) {
  local float scratch[16];
  __local float *line = local_memory, *planes = local_memory + LINES * g.line;
  const int image = get_group_id(0), oy = get_group_id(1) * g.band, rows = MIN_OF(g.band, g.out_height - oy),
            limited = IS_LIMITED(limits);
  for (int i = 0; i < LINES * g.line; ++i) line[i] = 0;
  load_band(g, x + (long)image * CHANNELS * g.height * g.width, oy, rows, line, planes);
  const long out_plane = (long)g.out_height * g.out_width, channel = CHANNELS_LAST ? 1 : out_plane;
  const int chunks = g.row_chunks ? rows * g.row_chunks : (rows * g.pitch + 15) / 16;
  for (int chunk = 0; chunk < chunks; chunk += CHUNKS) {
    Piece pieces[CHUNKS][16];
    int count[CHUNKS];
    const int position = chunk_position(g, chunk),
              next = chunk + 1 < chunks ? chunk_position(g, chunk + 1) - position : 0;
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j)
      count[j] = j == 0 || next ? find_pieces(g, position + j * next, oy, rows, pieces[j]) : 0;
    const int ahead = count[0] ? pieces[0][0].target + CHUNKS * 16 : 0;
    for (int block = 0; block < out_channels; block += CHANNEL_BLOCK) {
      const int o = MIN_OF(block, out_channels - CHANNEL_BLOCK);
      float16 sum[CHANNEL_BLOCK][CHUNKS];
#pragma unroll
      for (int i = 0; i < CHANNEL_BLOCK; ++i) {
        const float16 first = has_bias ? (float16)(LOAD(DTYPE, float32, bias, o + i)) : (float16)0.0f;
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) sum[i][j] = first;
      }
      __global STORAGE(DTYPE)* out = y + image * out_channels * out_plane + o * channel;
#if !CHANNELS_LAST
      // Each channel is a stream of its own, more of them than processors follow: lines of the next chunk are brought
      // here.
#pragma unroll
      for (int i = 0; i < CHANNEL_BLOCK; ++i)
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) PREFETCH_FIRST(out + i * out_plane + ahead + j * 16);
#endif
      accumulate_taps(g, w + (long)o * TAPS, planes + position, next, sum);
      if (limited)
#pragma unroll
        for (int i = 0; i < CHANNEL_BLOCK; ++i)
#pragma unroll
          for (int j = 0; j < CHUNKS; ++j) sum[i][j] = LIMIT(float16, sum[i][j], limits);
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) store_tile(sum, j, count[j], pieces[j], scratch, out, out_plane, out_channels);
    }
  }
}

// ---- gradient of the weights

#define TAP_GROUPS ((TAPS + 5) / 6)

// Sums over the lanes of v[0 .. LANES - 1], one sum per lane.
inline CAT(float, LANES) sum_lanes(CAT(float, LANES) * v) {
  CAT(TRANSPOSE, LANES)(CAT(float, LANES), v);
  CAT(float, LANES) sum = v[0];
#pragma unroll
  for (int i = 1; i < LANES; ++i) sum += v[i];
  return sum;
}

// dw[tap of 6][CHANNEL_STEP output channels] += sum over positions of d[channel][position] * planes[offsets[tap] +
// position]
inline void accumulate_gradient(__local const float* restrict d, int length, __local const float* restrict planes,
                                __local const int* offsets, __local float* restrict dw) {
  __local const float* restrict x[6];
#pragma unroll
  for (int t = 0; t < 6; ++t) x[t] = planes + offsets[t];
  CAT(float, LANES) sum[6 * CHANNEL_STEP];
#pragma unroll
  for (int i = 0; i < 6 * CHANNEL_STEP; ++i) sum[i] = (CAT(float, LANES))0.0f;
  for (int k = 0; k < length; k += LANES) {
    CAT(float, LANES) g[CHANNEL_STEP];
#pragma unroll
    for (int o = 0; o < CHANNEL_STEP; ++o) g[o] = CAT(vload, LANES)(0, d + o * length + k);
#pragma unroll
    for (int t = 0; t < 6; ++t) {
      const CAT(float, LANES) value = CAT(vload, LANES)(0, x[t] + k);
#pragma unroll
      for (int o = 0; o < CHANNEL_STEP; ++o) sum[t * CHANNEL_STEP + o] = fma(g[o], value, sum[t * CHANNEL_STEP + o]);
    }
  }
  // The sums that do not fill a second square of LANES x LANES.
  CAT(float, LANES) rest[LANES];
#pragma unroll
  for (int i = 0; i < LANES / 2; ++i) {
    rest[i] = sum[LANES + i];
    rest[i + LANES / 2] = (CAT(float, LANES))0.0f;
  }
  CAT(vstore, LANES)(CAT(vload, LANES)(0, dw) + sum_lanes(sum), 0, dw);
#if LANES == 16
  vstore8(vload8(0, dw + 16) + sum_lanes(rest).lo, 0, dw + 16);
#else
  vstore4(vload4(0, dw + 8) + sum_lanes(rest).lo, 0, dw + 8);
#endif
}

// Grid: parts by ceil(O / 32). A part is `bands_per_part` successive bands of the sequence of all images' bands. Local
// memory: line, planes,
// then d[32][length] + 16.
CPU_KERNEL void stem_weight_gradient(global const STORAGE(DTYPE) * restrict x,
                                     global const STORAGE(DTYPE) * restrict dy, global float* restrict partial,
                                     StemGeometry g, int out_channels, int bands_per_part, int bands,
                                     local float* restrict local_memory) {
  local float dw[OUT_BLOCK * TAP_GROUPS * 6];
  local int offsets[TAP_GROUPS * 6];
  const int planes_size = CHANNELS * STRIDE * STRIDE * g.plane + 64, lines = LINES * g.line;
  __local float *line = local_memory, *planes = line + lines, *d = planes + planes_size;
  const int o = get_group_id(1) * OUT_BLOCK, outs = MIN_OF(OUT_BLOCK, out_channels - o),
            image_bands = (g.out_height + g.band - 1) / g.band;
  for (int i = 0; i < lines + planes_size; ++i) local_memory[i] = 0;
  for (int i = 0; i < OUT_BLOCK * TAP_GROUPS * 6; ++i) dw[i] = 0;
  for (int i = 0; i < TAP_GROUPS * 6; ++i) {
    const int tap = MIN_OF(i, TAPS - 1), c = tap / (KERNEL * KERNEL), kh = tap / KERNEL % KERNEL, kw = tap % KERNEL;
    offsets[i] = ((c * STRIDE + kh % STRIDE) * STRIDE + kw % STRIDE) * g.plane + kh / STRIDE * g.pitch + kw / STRIDE;
  }
  const int begin = get_group_id(0) * bands_per_part, end = MIN_OF(bands, begin + bands_per_part);
  for (int b = begin; b < end; ++b) {
    const int image = b / image_bands, oy = (b - image * image_bands) * g.band,
              rows = MIN_OF(g.band, g.out_height - oy);
    const int length = (rows * g.pitch + 15) / 16 * 16;
    load_band(g, x + (long)image * CHANNELS * g.height * g.width, oy, rows, line, planes);
    const long out_plane = (long)g.out_height * g.out_width;
    load_gradient(g, dy + image * out_channels * out_plane + o * (CHANNELS_LAST ? 1 : out_plane), oy, rows, outs,
                  out_channels, length, d);
    for (int i = 0; i < outs; i += CHANNEL_STEP)
      for (int t = 0; t < TAP_GROUPS; ++t)
        accumulate_gradient(d + i * length, length, planes, offsets + t * 6,
                            dw + (i / CHANNEL_STEP * TAP_GROUPS + t) * 6 * CHANNEL_STEP);
  }
  __global float* out = partial + ((long)get_group_id(0) * out_channels + o) * TAPS;
  for (int i = 0; i < outs; ++i)
    for (int t = 0; t < TAPS; ++t)
      out[i * TAPS + t] = dw[((i / CHANNEL_STEP * TAP_GROUPS + t / 6) * 6 + t % 6) * CHANNEL_STEP + i % CHANNEL_STEP];
}

// Grid: ceil(n / 1024).
CPU_KERNEL void stem_sum_partials(global const float* restrict partial, global STORAGE(DTYPE) * restrict w, int n,
                                  int parts) {
  int i = get_group_id(0) * 1024;
  const int end = MIN_OF(n, i + 1024);
  for (; i + 16 <= end; i += 16) {
    float16 sum = vload16(0, partial + i);
    for (int p = 1; p < parts; ++p) sum += vload16(0, partial + (long)p * n + i);
    STOREV(DTYPE, float32, 16, w, i, sum);
  }
  for (; i < end; ++i) {
    float sum = partial[i];
    for (int p = 1; p < parts; ++p) sum += partial[(long)p * n + i];
    STORE(DTYPE, float32, w, i, sum);
  }
}

// Grid: ceil(n / 1024).
CPU_KERNEL void stem_widen(global const STORAGE(DTYPE) * restrict w, global float* restrict wide, int n) {
  const int begin = get_group_id(0) * 1024, end = MIN_OF(n, begin + 1024);
  for (int i = begin; i < end; ++i) wide[i] = LOAD(DTYPE, float32, w, i);
}
