// y = x W^T + bias for few rows of x, W quantised (quantized/codes.clh), for CPU runtimes: codes are read once, in
// order. Lanes run along k.
//   quantized_products  task = `columns` columns of y, all rows of x (at most MAX_ROWS)
// A part of k at a time, x is copied to local memory. There it becomes 16-bit integers where its type is 16 bits wide:
// each segment of at most SEGMENT elements has a scale of its own, so its elements are off by at most 2^-16 (NF4:
// 2^-15) of the largest of them, which is less than the type's own rounding of the result. Float32, float8 codes, and x
// that is not finite are multiplied as float32.
// A segment lies in one group, so it has one scale and one offset of a row of weights. The offsets' part of the result
// is their product with the segments' sums of x. Units of 256 weights are segments whose blocks of 32 have offsets.
#include "quantized/words.clh"
#include "common/horizontal_sum.clh"

#define MAX_ROWS quantized_rows
#define MAX_COLUMNS quantized_columns
#define ROWS 4        // of x, multiplied together
#define COPIED 16384  // elements of x in local memory
#define SEGMENTS (COPIED / BLOCK)
#define AHEAD 2048  // bytes between what is multiplied and what is prefetched
#define HAS_WORDS (!SINGLE && !FLOAT8)
#define HAS_OFFSETS (OFFSET || BIASED || Q4_K)

// A part of k as local memory holds it: rows of x `pitch` apart in x, `segments` apart in factors and totals.
typedef struct {
  __local const float* x;        // or short
  __local const float* factors;  // integers only: of each segment
  int pitch, steps, segment, segments;
} part_of_x;

#define COUNT_OF(steps, size) (((steps) + (size) - 1) / (size))

// Scales (or offsets) of the segments, from element k0 of a row on.
inline void copy_scales(__global const scale_t* p, long stride, long k0, long group, int segment, int segments,
                        __local float* to) {
  p += k0 / group * stride;
  if (segment == group && stride == 1) {
    for (int s = 0; s < segments; s += 16) *(__local float16*)(to + s) = LOADV(SCALE_DTYPE, float32, 16, p, s);
    return;
  }
  const long first = k0 / group * group - k0;
  for (int s = 0; s < segments; s++) to[s] = LOAD_SCALE(p, (s * segment - first) / group * stride);
}

#if HAS_BLOCKS
// The scales of `count` units.
inline void copy_unit_scales(__global const uchar* codes, int count, __local float* to) {
  for (int s = 0; s < count; s += 16) {
    ushort bits[16] = {0};
    for (int i = 0; i < min(16, count - s); i++)
      bits[i] = *(__global const ushort*)(codes + (s + i) * UNIT_BYTES + SCALE_AT);
    *(__local float16*)(to + s) = half_to_float16(vload16(0, bits));
  }
}
#endif

// sums[q] = the products of a row of codes and `rows` rows of x, as float32.
inline __attribute__((always_inline)) void dot_floats(const int rows, __global const uchar* codes, const part_of_x x,
                                                      __local const float* scales, float* sums) {
  float16 sum[ROWS][2];
#pragma unroll
  for (int q = 0; q < rows; q++) sum[q][0] = sum[q][1] = (float16)0;
  for (int k = 0, s = 0; k < x.steps; s++) {
    const float16 scale = (float16)scales[s];
    const int end = min(x.steps, k + x.segment);
    for (; k < end; k += UNIT) {
#if UNIT != BLOCK
      const unit_factors factors = read_factors(codes);
#endif
#pragma unroll
      for (int i = 0; i < UNIT / BLOCK; i++) {
        float16 a, b;
        if (i % 2 == 0) PREFETCH_FIRST(codes + AHEAD + 32 * i);
#if UNIT == BLOCK
        read_block(codes, &a, &b);
#else
        short16 first, second;
        read_scaled(codes, i, factors, &first, &second);
        a = convert_float16(convert_int16(first));
        b = convert_float16(convert_int16(second));
#endif
        a *= scale;
        b *= scale;
#pragma unroll
        for (int q = 0; q < rows; q++) {
          __local const float16* y = (__local const float16*)(x.x + q * x.pitch + k + i * BLOCK);
          sum[q][0] = fma(y[0], a, sum[q][0]);
          sum[q][1] = fma(y[1], b, sum[q][1]);
        }
      }
      codes += UNIT_BYTES;
    }
  }
#pragma unroll
  for (int q = 0; q < rows; q++) sums[q] = horizontal_sum(sum[q][0] + sum[q][1]);
}

#if HAS_WORDS
#include "quantized/one_row.clh"

// sums[q] = the products of a row of codes and ROWS rows of x as integers.
inline void dot_words(__global const uchar* codes, const part_of_x x, __local const float* scales, float* sums) {
  __local const short* words = (__local const short*)x.x;
  float8 total[ROWS];
#pragma unroll
  for (int q = 0; q < ROWS; q++) total[q] = (float8)0;
  for (int k = 0, s = 0; k < x.steps; s++) {
    const int end = min(x.steps, k + x.segment);
    int8 sum[ROWS];
#pragma unroll
    for (int q = 0; q < ROWS; q++) sum[q] = (int8)0;
    for (; k < end; k += UNIT) {
#if UNIT != BLOCK
      const unit_factors factors = read_factors(codes);
#endif
#pragma unroll
      for (int i = 0; i < UNIT / BLOCK; i++) {
        short16 a, b;
        if (i % 2 == 0) PREFETCH_FIRST(codes + AHEAD + 32 * i);
#if UNIT == BLOCK
        read_words(codes, &a, &b);
#else
        read_scaled(codes, i, factors, &a, &b);
#endif
#pragma unroll
        for (int q = 0; q < ROWS; q++) {
          __local const short16* y = (__local const short16*)(words + q * x.pitch + k + i * BLOCK);
          ADD_WORDS(sum[q], y[0], a);
          ADD_WORDS(sum[q], y[1], b);
        }
      }
      codes += UNIT_BYTES;
    }
#pragma unroll
    for (int q = 0; q < ROWS; q++)
      total[q] = fma(convert_float8(sum[q]), (float8)(scales[s] * x.factors[q * x.segments + s]), total[q]);
  }
#pragma unroll
  for (int q = 0; q < ROWS; q++) sums[q] = sum_of(total[q]);
}

// A segment as integers: their factor, 0 for zeros and NaN where an element is not finite. *total: the sum of what the
// integers stand for.
inline float round_segment(__local const float* x, int count, __local short* to, __local float* total) {
  float16 most = (float16)0, sum = (float16)0;
  for (int k = 0; k < count; k += 16) {
    const float16 v = fabs(*(__local const float16*)(x + k));
    most = v > most ? v : most;
    sum += v * 0.0f;  // NaN where an element is not finite
  }
  float lane[16] __attribute__((aligned(64)));
  *(float16*)lane = most;
  float largest = 0;
  for (int i = 0; i < 16; i++) largest = max(largest, lane[i]);
  const float scale = largest > 0x1p-100f ? LARGEST / largest : 0.0f;
  float16 integers = (float16)0;
  for (int k = 0; k < count; k += 16) {
    // The sum with 1.5 * 2^23 rounds to an integer, which the lower bits hold.
    const float16 v = fma(*(__local const float16*)(x + k), (float16)scale, (float16)12582912.0f);
    *(__local short16*)(to + k) = convert_short16(as_int16(v) - 0x4b400000);
    integers += v - 12582912.0f;
  }
  *total = horizontal_sum(integers) * (largest / LARGEST);
  return horizontal_sum(sum) == 0 ? largest / (LARGEST * WORD_SCALE) : NAN;
}
#endif

#if Q4_K && HAS_WORDS
// The sums of the blocks of a segment that was rounded.
inline void sum_words(__local const short* words, int count, float factor, __local float* totals) {
  for (int k = 0; k < count; k += BLOCK) {
    const int16 sum = convert_int16(vload16(0, words + k)) + convert_int16(vload16(0, words + k + 16));
    *totals++ = horizontal_sum(convert_float16(sum)) * factor;
  }
}
#endif

inline void sum_segments(__local const float* x, int steps, int segment, __local float* totals) {
  for (int k = 0; k < steps; totals++) {
    float16 sum = (float16)0;
    const int end = min(steps, k + segment);
    for (; k < end; k += 16) sum += *(__local const float16*)(x + k);
    *totals = horizontal_sum(sum);
  }
}

CPU_KERNEL void quantized_products(global const storage_t* x, global const uchar* codes, global const scale_t* scales,
                                   global const scale_t* offsets, global const storage_t* bias, global storage_t* y,
                                   QuantizedArguments p) {
  local float copy[COPIED];
  local short words[COPIED];
  local float factors[SEGMENTS + 16];
  local float row_factors[SEGMENTS + 16];
  local float totals[SEGMENTS + 16];
  local float row_scales[SEGMENTS + 16];
  local float row_offsets[SEGMENTS + 16];
  local float sums[MAX_ROWS * MAX_COLUMNS];
  const int m = p.m;
  const long n0 = (long)get_group_id(0) * p.columns;
  const int columns = min((long)p.columns, p.n - n0);
  const int segment = p.group >= p.k || p.group % SEGMENT == 0 ? SEGMENT : p.group < SEGMENT ? p.group : BLOCK;
  const int summed = Q4_K ? BLOCK : segment;  // elements of x whose sum is multiplied by an offset
  const int padded = m == 1 ? 1 : (m + ROWS - 1) / ROWS * ROWS;
  const int room = (m == 1 ? COPIED / 2 : COPIED / padded) / SEGMENT * SEGMENT;
  const int depth = room / segment * segment;  // of a part of k
  for (int i = 0; i < padded * columns; i++) sums[i] = 0;
  for (long k0 = 0; k0 < p.k; k0 += depth) {
    const int steps = min((long)depth, p.k - k0), whole = COUNT_OF(steps, BLOCK) * BLOCK;
    part_of_x part = {copy, factors, whole, whole, segment, COUNT_OF(whole, segment)};
    const int offset_count = COUNT_OF(whole, summed);
    int finite = HAS_WORDS;
    for (int q = 0; q < padded; q++) {
      __local float* row = copy + q * whole;
      for (int k = 0; k < whole; k += 16)
        *(__local float16*)(row + k) =
            k < steps ? load_first(x + min(q, m - 1) * p.x_row + k0 + k, steps - k) : (float16)0;
      for (int s = 0; s < part.segments; s++) {
        const int begin = s * segment, count = min(segment, whole - begin);
#if HAS_WORDS
        __local float* total = totals + q * offset_count + begin / summed;
        const float factor = round_segment(row + begin, count, words + q * whole + begin, total);
#if Q4_K
        sum_words(words + q * whole + begin, count, factor, total);
#endif
        factors[q * part.segments + s] = factor;
        finite &= factor == factor;
#endif
      }
    }
#if HAS_OFFSETS
    if (!finite)
      for (int q = 0; q < padded; q++) sum_segments(copy + q * whole, whole, summed, totals + q * offset_count);
#endif
    for (int n = 0; n < columns; n++) {
      __global const uchar* c = codes + (n0 + n) * p.pitch + k0 / UNIT * UNIT_BYTES;
      // A single row of integers reads what blocks hold beside the codes.
      const int with_scales = HAS_BLOCKS && m == 1 && finite;
      if (!with_scales) {
#if HAS_BLOCKS
        copy_unit_scales(c, part.segments, row_scales);
#else
        copy_scales(scales + (n0 + n) * p.scale_row, p.scale_group, k0, p.group, segment, part.segments, row_scales);
#endif
#if OFFSET
        copy_scales(offsets + (n0 + n) * p.offset_row, p.offset_group, k0, p.group, segment, part.segments,
                    row_offsets);
#endif
#if Q4_K
        for (int s = 0; s < part.segments; s++)
          *(__local float8*)(row_offsets + 8 * s) = unit_offsets(c + s * UNIT_BYTES);
#elif BIASED
        for (int s = 0; s < part.segments; s += 16) {
          const float16 bias_of_codes = *(__local const float16*)(row_scales + s) * BIAS;
          *(__local float16*)(row_offsets + s) =
              (OFFSET ? *(__local const float16*)(row_offsets + s) : (float16)0) - bias_of_codes;
        }
#endif
      }
      for (int q = 0; q < padded; q += ROWS) {
        float result[ROWS];
        part_of_x rows = part;
        rows.factors += q * part.segments;
#if HAS_WORDS
        if (finite) {
          rows.x = (__local const float*)(words + q * whole);
          if (m == 1) {
            if (!HAS_BLOCKS)
              for (int s = 0; s < part.segments; s += 16)
                *(__local float16*)(row_factors + s) =
                    *(__local const float16*)(row_scales + s) * *(__local const float16*)(factors + s);
            result[0] =
                dot_row(c, (__local const short16*)words, whole, segment, HAS_BLOCKS ? factors : row_factors, totals);
          } else {
            dot_words(c, rows, row_scales, result);
          }
        } else
#endif
        {
          rows.x = copy + q * whole;
          if (m == 1)
            dot_floats(1, c, rows, row_scales, result);
          else
            dot_floats(ROWS, c, rows, row_scales, result);
        }
        for (int i = 0; i < min(ROWS, m - q); i++) {
#if HAS_OFFSETS
          float16 sum = (float16)0;
          for (int s = 0; s < (with_scales ? 0 : offset_count); s += 16) {
            const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + s;
            const float16 v = vload16(0, totals + (q + i) * offset_count + s);
            sum = lane < offset_count ? fma(v, *(__local const float16*)(row_offsets + s), sum) : sum;
          }
          result[i] += horizontal_sum(sum);
#endif
          sums[(q + i) * columns + n] += result[i];
        }
      }
    }
  }
  for (int q = 0; q < m; q++)
    for (int n = 0; n < columns; n++) {
      float v = sums[q * columns + n];
      if (p.has_bias) v += LOAD(DTYPE, float32, bias, n0 + n);
      STORE(DTYPE, float32, y, q * p.n + n0 + n, v);
    }
}
