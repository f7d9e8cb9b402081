// Concatenation, triangles and sliding windows.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum { concatenate_slots = 8 };  // tensors of a launch

// Piece t covers columns [start[t], start[t] + length[t]) of rows of `width` columns; its rows lie pitches[t] apart.
typedef struct {
  int64_t total, width, first, pitch, block;
  int64_t start[concatenate_slots], length[concatenate_slots], pitches[concatenate_slots];
} ConcatenateShape;
PARAMS_LAYOUT(ConcatenateShape, 232);

typedef struct {
  int32_t dims, upper;
  int64_t rows, columns, total_rows, diagonal;  // total_rows: over the batch
  int64_t out_row, out_column, in_row, in_column;
  int64_t sizes[14], out[14], in[14];  // batch dimensions
} TriangleShape;
PARAMS_LAYOUT(TriangleShape, 408);

typedef struct {
  int64_t kernel_h, kernel_w, dilation_h, dilation_w, padding_h, padding_w, stride_h, stride_w;
  int64_t height, width, windows_h, windows_w, rows;
} WindowShape;
PARAMS_LAYOUT(WindowShape, 104);

typedef struct {
  int32_t dims, dim;
  int64_t size, step, windows, last_stride, total;
  int64_t sizes[16], grad[16];  // of grad_in; strides of grad (grad[dim]: between windows)
} UnfoldShape;
PARAMS_LAYOUT(UnfoldShape, 304);

PARAMS_END
