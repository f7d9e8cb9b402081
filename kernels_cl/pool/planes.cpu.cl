// Pooling of channels-first tensors, CPU kernels. Forward: a task is a range of output rows, lanes are neighbouring
// outputs of a row;
// windows of fixed size only. Backward: a task owns whole planes, clears them and scatters. Sums are kept in the tensor
// itself, those of
// half types in a plane of float32 that the task uses again and again.
// Defines besides pool/pool.clh: STRIDE_W (1, 2: known; 0: any), KERNEL_W (0: any), HALF (X is a half type).
#include "pool/pool.clh"

#if LANES == 16
#define EVEN_LANES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#else
#define EVEN_LANES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#endif
#define TAPS_W (KERNEL_W ? KERNEL_W : s.kernel_size[2])

// Elements at, at + stride, ... of a row of `extent` elements; lanes outside the row hold anything.
static inline accv load_row(__global const X* row, int at, int stride, int extent) {
#if STRIDE_W == 1
  return LOADXV(X_DTYPE, row, at);
#elif STRIDE_W == 2
  return EVEN_LANES(LOADXV(X_DTYPE, row, at), LOADXV(X_DTYPE, row, at + LANES));
#else
  acc lane[LANES];
  for (int k = 0; k < LANES; ++k) lane[k] = LOADX(X_DTYPE, row, MAX_OF(0, MIN_OF(at + k * stride, extent - 1)));
  return VLOADX(0, lane);
#endif
}

#if !ADAPTIVE
// LANES outputs o.. of the row with windows wd, wh: vectors of value and (maximum) index.
static inline accv row_windows(__global const X* in, PoolShape s, Window wd, Window wh, int o, maskv* index) {
  const int stride = STRIDE_W ? STRIDE_W : s.stride[2], step = s.dilation[2], extent = s.in[2],
            start = o * stride - s.padding[2];
  const maskv starts = (LANE_IDS + (mask_element)o) * (mask_element)stride - (mask_element)s.padding[2];
#if POOL_MAX
  accv best = (accv)-INFINITY;
  maskv first = starts;
  if (start < 0)
    for (int k = 0; k < TAPS_W; ++k) first += (first < (maskv)0) & (maskv)step;
  maskv at = first + (mask_element)((wd.first * s.in[1] + wh.first) * extent);
#else
  accv sum = (accv)0;
#endif
  for (int d = 0; d < wd.count; ++d)
    for (int h = 0; h < wh.count; ++h) {
      const int row = ((wd.first + d * wd.step) * s.in[1] + wh.first + h * wh.step) * extent;
#if KERNEL_W
#pragma unroll
#endif
      for (int k = 0; k < TAPS_W; ++k) {
        const int x0 = start + k * step;
        const maskv position = starts + (mask_element)(k * step);
        if (x0 >= extent || x0 + (LANES - 1) * stride < 0) continue;
        const accv v = load_row(in + row, x0, stride, extent);
        const maskv inside = (position >= (maskv)0) & (position < (maskv)extent);
#if POOL_MAX
        const maskv better = ((v > best) | (v != v)) & inside;
        best = better ? v : best;
        at = better ? position + (mask_element)row : at;
#else
        sum += inside ? v : (accv)0;
#endif
      }
    }
#if POOL_MAX
  *index = at;
  return best;
#else
  if (s.divisor) return sum / (acc)s.divisor;
  const maskv ends = starts + (mask_element)s.kernel_size[2], limit = (maskv)(extent + s.padding[2]);
  const maskv padded = (ends < limit ? ends : limit) - starts;
  const maskv inner = (ends < (maskv)extent ? ends : (maskv)extent) - (starts > (maskv)0 ? starts : (maskv)0);
  return sum / CONVERT_ACCV((s.count_include_pad ? padded : inner) * (mask_element)(wd.size * wh.size));
#endif
}

CPU_KERNEL void planes_forward(global const X* restrict x, global X* restrict y, global long* restrict index,
                               PoolShape s) {
  const long plane_rows = (long)s.out[0] * s.out[1], rows = s.batch * s.channels * plane_rows;
  const long begin = rows * get_group_id(0) / get_num_groups(0), end = rows * (get_group_id(0) + 1) / get_num_groups(0);
  const int width = s.out[2];
  for (long r = begin; r < end; ++r) {
    const long plane = r / plane_rows;
    const int row = r % plane_rows;
    const Window wd = window_of(&s, 0, row / s.out[1]), wh = window_of(&s, 1, row % s.out[1]);
    __global const X* in = x + plane * s.in_plane;
    for (int i = 0; i < width; i += LANES) {
      const int o = MAX_OF(0, MIN_OF(i, width - LANES));
      maskv at = (maskv)0;
      const accv v = row_windows(in, s, wd, wh, o, &at);
      if (width >= LANES) {
        STOREXV(X_DTYPE, y, r * width + o, v);
#if POOL_MAX
        CAT(vstore, LANES)(CAT(convert_long, LANES)(at), 0, index + r * width + o);
#endif
      } else {
        STORE_FIRST(X_DTYPE, y, r * width, v, width);
#if POOL_MAX
        long lane[LANES];
        CAT(vstore, LANES)(CAT(convert_long, LANES)(at), 0, lane);
        for (int k = 0; k < width; ++k) index[r * width + k] = lane[k];
#endif
      }
    }
  }
}
#endif

// Adds v to n neighbouring elements.
static inline void add_run(__global acc* p, int n, acc v) {
  int i = 0;
  for (; i + LANES <= n; i += LANES) VSTOREX(VLOADX(0, p + i) + v, 0, p + i);
  for (; i < n; ++i) p[i] += v;
}

static inline void clear(__global acc* p, long n) {
  long i = 0;
  for (; i + LANES <= n; i += LANES) VSTOREX((accv)0, 0, p + i);
  for (; i < n; ++i) p[i] = 0;
}

CPU_KERNEL void planes_backward(global const X* restrict g, global const long* restrict index, global X* restrict dx,
                                global acc* scratch, PoolShape s) {
  const long planes = s.batch * s.channels, begin = planes * get_group_id(0) / get_num_groups(0);
  const long end = planes * (get_group_id(0) + 1) / get_num_groups(0);
#if HALF
  __global acc* out = scratch + get_group_id(0) * s.in_plane;
#else
  __global acc* out = dx + begin * s.in_plane;
  clear(out, (end - begin) * s.in_plane);
#endif
  for (long plane = begin; plane < end; ++plane) {
    __global const X* in = g + plane * s.out_plane;
#if HALF
    clear(out, s.in_plane);
#endif
#if POOL_MAX
    __global const long* at = index + plane * s.out_plane;
    for (long i = 0; i < s.out_plane; ++i)
      if ((ulong)at[i] < (ulong)s.in_plane) out[at[i]] += LOADX(X_DTYPE, in, i);
#else
    for (int d = 0; d < s.out[0]; ++d)
      for (int h = 0; h < s.out[1]; ++h) {
        const Window wd = window_of(&s, 0, d), wh = window_of(&s, 1, h);
        for (int w = 0; w < s.out[2]; ++w) {
          const Window ww = window_of(&s, 2, w);
          const acc v =
              LOADX(X_DTYPE, in, ((long)d * s.out[1] + h) * s.out[2] + w) / divisor_of(&s, wd.size * wh.size * ww.size);
          for (int a = 0; a < wd.count; ++a)
            for (int b = 0; b < wh.count; ++b)
              add_run(out + ((long)(wd.first + a) * s.in[1] + wh.first + b) * s.in[2] + ww.first, ww.count, v);
        }
      }
#endif
#if HALF
    __global X* to = dx + plane * s.in_plane;
    long i = 0;
    for (; i + LANES <= s.in_plane; i += LANES) STOREXV(X_DTYPE, to, i, VLOADX(0, out + i));
    for (; i < s.in_plane; ++i) STOREX(X_DTYPE, to, i, out[i]);
#else
    out += s.in_plane;
#endif
  }
}
