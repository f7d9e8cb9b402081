// Rows of a quantised matrix (quantized/codes.clh) as numbers of DTYPE: w [rows, k] = rows row0 to row0 + rows - 1.
// Work-item = (BLOCKS blocks of 32 of a row, row).
#include "quantized/unpack.clh"

#define BLOCKS 64

TASK_KERNEL void quantized_unpack(global const uchar* codes, global const scale_t* scales,
                                  global const scale_t* offsets, global storage_t* w, QuantizedArguments p, long row0) {
  const long row = get_global_id(1), begin = (long)get_global_id(0) * BLOCKS * BLOCK;
  const long end = min(p.k, begin + BLOCKS * BLOCK);
  codes += (row0 + row) * p.pitch;
  scales += (row0 + row) * p.scale_row;
  offsets += (row0 + row) * p.offset_row;
  unpack_row(codes, scales, offsets, p, begin, end, w + row * p.k + begin);
}
