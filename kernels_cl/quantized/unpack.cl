// Rows of a quantised matrix (quantized/codes.clh) as numbers of DTYPE: w [rows, k] = rows row0 to row0 + rows - 1.
// Work-item = (BLOCKS blocks of 32 of a row, row).
#include "quantized/codes.clh"

#define BLOCKS 64

// w[at ..] = v, as far as `end`.
inline void store_first(float16 v, __global storage_t* w, long at, long end) {
  if (at + 16 <= end) {
    STOREV(DTYPE, float32, 16, w, at, v);
  } else {
    float lane[16];
    vstore16(v, 0, lane);
    for (int j = 0; j < end - at; j++) STORE(DTYPE, float32, w, at + j, lane[j]);
  }
}

TASK_CALLABLE(quantized_unpack,
              (BUFFER(const uchar, codes), BUFFER(const scale_t, scales), BUFFER(const scale_t, offsets),
               BUFFER(storage_t, w), PLAIN(quantized_arguments, p), PLAIN(long, row0))) {
  OPEN(const uchar, codes);
  OPEN(const scale_t, scales);
  OPEN(const scale_t, offsets);
  OPEN(storage_t, w);
  const long row = get_global_id(1), begin = (long)get_global_id(0) * BLOCKS * BLOCK;
  const long end = min(p.k, begin + BLOCKS * BLOCK);
  codes += (row0 + row) * p.pitch;
  scales += (row0 + row) * p.scale_row;
  offsets += (row0 + row) * p.offset_row;
  w += row * p.k;
#if UNIT != BLOCK
  for (long k = begin; k < end; k += UNIT) {
    __global const uchar* unit = codes + k / UNIT * UNIT_BYTES;
    const unit_factors factors = read_factors(unit);
    const float16 scale = (float16)unit_scale(unit);
#if Q4_K
    float offsets_of[8];
    vstore8(unit_offsets(unit), 0, offsets_of);
#endif
#pragma unroll
    for (int b = 0; b < UNIT / BLOCK; b++) {
      short16 codes_of[2];
      read_scaled(unit, b, factors, codes_of, codes_of + 1);
      for (int i = 0; i < 2; i++) {
        const float16 code = convert_float16(convert_int16(codes_of[i]));
#if Q4_K
        store_first(fma(code, scale, (float16)offsets_of[b]), w, k + b * BLOCK + 16 * i, end);
#else
        store_first(code * scale, w, k + b * BLOCK + 16 * i, end);
#endif
      }
    }
  }
#else
  for (long k = begin; k < end;) {
    const long g = k / p.group, stop = min(end, (g + 1) * p.group);
#if HAS_BLOCKS
    const float16 scale = (float16)unit_scale(codes + g * UNIT_BYTES);
#else
    const float16 scale = (float16)LOAD_SCALE(scales, g * p.scale_group);
#endif
    const float16 offset = (float16)(OFFSET ? LOAD_SCALE(offsets, g * p.offset_group) : 0.0f);
    for (; k < stop; k += BLOCK) {
      float16 values[2];
      read_block(codes + k / BLOCK * UNIT_BYTES, values, values + 1);
      for (int i = 0; i < 2; i++) {
        const float16 code = BIASED ? values[i] - BIAS : values[i];
        store_first(OFFSET ? fma(code, scale, offset) : code * scale, w, k + 16 * i, end);
      }
    }
  }
#endif
}
