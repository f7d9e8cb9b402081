// y = x W^T + bias for few rows of x, W quantised (quantized/codes.clh), for GPUs: a group of ITEMS work-items computes
// one column of y for ROWS rows of x. Every work-item takes four neighbouring bytes of codes at a time.
// Grid: (columns of y times ITEMS, rows of x in blocks of ROWS).
#include "quantized/codes.clh"

#define ITEMS 64
#define ROWS 4

#if !HAS_BLOCKS
// The value of one code.
inline float value_of(uint code, __constant const float* table) {
#if INT8
  return (float)as_char((uchar)code);
#elif FLOAT8
  return as_float((code & 0x80) << 24 | (code & 0x7f) << 20) * 0x1p120f;
#else
  return table[code & 15];
#endif
}

__constant float code_values[16] = {TABLE};
#endif

kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void quantized_products(
    global const storage_t* x, global const uchar* codes, global const scale_t* scales, global const scale_t* offsets,
    global const storage_t* bias, global storage_t* y, QuantizedArguments p) {
  __local float partial[ROWS][ITEMS];
  const long n = get_group_id(0), q0 = (long)get_group_id(1) * ROWS;
  const int item = get_local_id(0), rows = min((long)ROWS, p.m - q0);
  codes += n * p.pitch;
  scales += n * p.scale_row;
  offsets += n * p.offset_row;
  x += q0 * p.x_row;
  float sum[ROWS];
  for (int q = 0; q < ROWS; q++) sum[q] = 0;
#if HAS_BLOCKS
  for (long k = 4 * item; k < p.k; k += 4 * ITEMS) {
    const float4 four = read_four(codes, k);
    const float w[4] = {four.x, four.y, four.z, four.w};
    for (int i = 0; i < 4; i++)
      for (int q = 0; q < rows; q++) sum[q] = fma(LOAD(DTYPE, float32, x, q * p.x_row + k + i), w[i], sum[q]);
  }
#else
  for (long byte = 4 * item; byte < p.pitch; byte += 4 * ITEMS) {
    const uchar4 four = vload4(0, codes + byte);
    const uchar bytes[4] = {four.x, four.y, four.z, four.w};
    const long block = byte / UNIT_BYTES * BLOCK, at = block + byte % UNIT_BYTES;
    if (block >= p.k) break;
    const long g = block / p.group;
    const float scale = LOAD_SCALE(scales, g * p.scale_group);
    const float offset = OFFSET ? LOAD_SCALE(offsets, g * p.offset_group) : 0.0f;
    for (int part = 0; part < BLOCK / UNIT_BYTES; part++)
      for (int i = 0; i < 4; i++) {
        const long k = at + 16 * part + i;
        if (k >= p.k) break;
        const float w = fma(value_of((uint)bytes[i] >> 4 * part, code_values), scale, offset);
        for (int q = 0; q < rows; q++) sum[q] = fma(LOAD(DTYPE, float32, x, q * p.x_row + k), w, sum[q]);
      }
  }
#endif
  for (int q = 0; q < ROWS; q++) partial[q][item] = sum[q];
  for (int step = ITEMS / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step)
      for (int q = 0; q < ROWS; q++) partial[q][item] += partial[q][item + step];
  }
  if (item < rows) {
    float v = partial[item][0];
    if (p.has_bias) v += LOAD(DTYPE, float32, bias, n);
    STORE(DTYPE, float32, y, (q0 + item) * p.n + n, v);
  }
}
