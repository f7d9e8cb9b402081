// 1x1 convolutions of channels-last images with packed weights, float32, for inference.
//   scaled_pointwise  y[pixel, result] = activation(bias + sum x[pixel, source] scale[image, source] w) + residual
//   squeeze_excite    scale = gate(excite act(squeeze mean + bias) + bias) of one image
// Weights are packed as in csrc/ops/conv/separable.h: [panel of 32 results][source][32]; excite: [hidden][channel].
// A panel is scaled in local memory, once for a task's pixels. Grids: (ranges of pixels of all images, parts of the
// panels); images.
#include "conv/activation.clh"
#include "common/register_tile.clh"
#include "common/style_lanes.clh"

#ifndef SCALED
#define SCALED 0
#endif
#define WIDE separable_lanes

#define ROW_AT(p, r) (p)[row[r]]
#define PANEL_AT(p, y) vload16(y, p)

#if SCALED
#define WEIGHTS local const float*
#else
#define WEIGHTS global const float* restrict
#endif

inline void multiply_panel(__global const float* restrict x, const ScaledPointwise* s, int count, WEIGHTS weights,
                           __global const float* restrict bias, int o, int added, __global const float* residual,
                           __global float* restrict y) {
  const int vectors = s->results - o > 16 ? 2 : 1;
  const float16 low = vload16(0, bias + o), high = vload16(1, bias + o);
  for (int i = 0; i < count; i += 8) {
    long row[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) row[r] = (long)MIN_OF(i + r, count - 1) * s->sources;
    float16 c[8][2];
#pragma unroll
    for (int r = 0; r < 8; ++r) c[r][0] = low, c[r][1] = high;
    REGISTER_TILE(float16, float16, c, s->sources, vectors, x, 1, ROW_AT, weights, WIDE, PANEL_AT, FUSED_MULTIPLY_ADD)
    float16* all = c[0];
    ACTIVATE(all, 16, s->activation)
    for (int r = 0; r < 8 && i + r < count; ++r) {
      const long at = (long)(i + r) * s->results + o;
      float16 a = c[r][0], b = c[r][1];
      if (added) a += vload16(0, residual + at), b += vload16(1, residual + at);
      PUT_LANES(float32, float32, y, at, at - o + s->results, a);
      PUT_LANES(float32, float32, y, at + 16, at - o + s->results, b);
    }
  }
}

CPU_KERNEL void scaled_pointwise(global const float* restrict x, global const float* restrict weights,
                                 global const float* restrict bias, global const float* restrict scale,
                                 global const float* restrict residual, global float* restrict y,
                                 const ScaledPointwise s, local float* restrict panel_scaled) {
  const int n = get_group_id(0) / s.ranges, first = get_group_id(0) % s.ranges * s.range;
  const int count = MIN_OF(s.range, s.pixels - first), all_panels = (s.results + WIDE - 1) / WIDE;
  const long pixel = (long)n * s.pixels + first;
  const int end = MIN_OF(all_panels, (int)(get_group_id(1) + 1) * s.panels);
  for (int panel = get_group_id(1) * s.panels; panel < end; ++panel) {
    global const float* from = weights + (long)panel * s.sources * WIDE;
#if SCALED
    for (int k = 0; k < s.sources; ++k) {
      const float16 factor = scale[(long)n * s.sources + k];
      vstore16(vload16(2 * k, from) * factor, 2 * k, panel_scaled);
      vstore16(vload16(2 * k + 1, from) * factor, 2 * k + 1, panel_scaled);
    }
    local const float* used = panel_scaled;
#else
    global const float* used = from;
#endif
    multiply_panel(x + pixel * s.sources, &s, count, used, bias, panel * WIDE, HAS(residual),
                   residual + pixel * s.results, y + pixel * s.results);
  }
}

#if !SCALED
inline float lane_sum(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
}

// mean and hidden are filled up with zeros to whole vectors.
CPU_KERNEL void squeeze_excite(global const float* restrict sums, global const float* restrict squeeze,
                               global const float* restrict squeeze_bias, global const float* restrict excite,
                               global const float* restrict excite_bias, global float* restrict scale,
                               const SqueezeExcite s, local float* restrict mean, local float* restrict hidden) {
  sums += (long)get_group_id(0) * s.bands * s.channels;
  for (int c = 0; c < s.channels; c += 16) {
    float16 sum = (float16)0;
    for (int b = 0; b < s.bands; ++b) sum += vload16(0, sums + (long)b * s.channels + c);
    vstore16(sum * s.factor, 0, mean + c);
  }
  for (int c = s.channels; c % 16; ++c) mean[c] = 0;
  for (int h = 0; h < s.hidden; h += 16) {
    float lanes[16];
    for (int l = 0; l < 16; ++l) {
      lanes[l] = 0;
      if (h + l >= s.hidden) continue;
      global const float* w = squeeze + (long)(h + l) * s.channels;
      float16 a = (float16)0, b = (float16)0;
      int c = 0;
      for (; c + 32 <= s.channels; c += 32) {
        a = fma(vload16(0, w + c), vload16(0, mean + c), a);
        b = fma(vload16(1, w + c), vload16(1, mean + c), b);
      }
      float tail = 0;
      for (; c < s.channels; ++c) tail = fma(w[c], mean[c], tail);
      lanes[l] = lane_sum(a + b) + tail + squeeze_bias[h + l];
    }
    float16 v[1] = {vload16(0, lanes)};
    ACTIVATE(v, 1, s.activation)
    vstore16(v[0], 0, hidden + h);
  }
  for (int c = 0; c < s.channels; c += 32) {
    float16 v[2] = {vload16(0, excite_bias + c), vload16(1, excite_bias + c)};
    for (int h = 0; h < s.hidden; ++h) {
      v[0] = fma((float16)hidden[h], vload16(0, excite + (long)h * s.channels + c), v[0]);
      v[1] = fma((float16)hidden[h], vload16(1, excite + (long)h * s.channels + c), v[1]);
    }
    ACTIVATE(v, 2, s.gate)
    PUT_LANES(float32, float32, scale, (long)get_group_id(0) * s.channels + c, (long)(get_group_id(0) + 1) * s.channels,
              v[0]);
    PUT_LANES(float32, float32, scale, (long)get_group_id(0) * s.channels + c + 16,
              (long)(get_group_id(0) + 1) * s.channels, v[1]);
  }
}
#endif
