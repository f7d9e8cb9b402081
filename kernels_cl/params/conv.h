// Convolutions. Triples are D, H, W. Channels of shapes are those of one conv group where nothing else is said.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum {
  rows_panel = 32,           // conv/rows: results of a panel of weights,
  rows_source_block = 16,    // and source channels that a packing task reads
  direct_pairs = 1024,       // conv/direct: (channel, tap) of a block of channels, at most
  depthwise_image = 16384,   // floats of the local image
  depthwise_pixels = 1024,   // small images: pixels with the border,
  depthwise_results = 1024,  // and of the result, at most
  most_phase_taps = 49       // taps of convolutions whose images are split into phases, at most
};

typedef struct {
  int64_t x_stride[5], y_stride[5];  // elements: N C D H W
  int32_t input[3], output[3], kernel_size[3], stride[3], padding[3], dilation[3];
  int32_t batch, groups, in_per_group, out_per_group;
} ConvShape;
PARAMS_LAYOUT(ConvShape, 168);

// A convolution as a gather (csrc/ops/conv/gather.h); x is channels first.
typedef struct {
  int64_t x_image, x_plane;  // elements between images and between channels of x
  int32_t batch, in_channels, out_channels;
  int32_t input[3], output[3], kernel_size[3], stride[3], padding[3], dilation[3];
  int32_t unused;
} GatherShape;
PARAMS_LAYOUT(GatherShape, 104);

typedef struct {
  int64_t group, out, in;  // strides of w in elements: conv group, result channel, source channel
  int32_t base, tap[3];    // element of tap (a, b, c): base + a tap[0] + b tap[1] + c tap[2]
} WeightMap;
PARAMS_LAYOUT(WeightMap, 40);

// Where the pixels of the grid lie in the result: first + q * step in planes of `size`.
typedef struct {
  int32_t size[3], first[3], step[3];
} Target;
PARAMS_LAYOUT(Target, 36);

// Results are cut off at these (csrc/ops/conv/conv.h); infinite: no bound.
typedef struct {
  float low, high;
} Limits;
PARAMS_LAYOUT(Limits, 8);

typedef struct {
  int64_t x_image, x_plane, y_image, y_plane;  // elements
  int32_t batch, channels, results;            // channels of one group
  int32_t in_h, in_w, out_h, out_w, taps_h, taps_w, stride_h, pad_h, pad_w, dilation_h, dilation_w;
  int32_t band, bands;           // rows of the result in a piece, pieces of an image
  int32_t images;                // at once: conv_direct_weight
  int32_t pitch, rows, frame;    // columns, rows and floats of a frame
  int32_t begin[2], columns[2];  // of the phases of columns: what a frame has of x, [begin, begin + columns)
} Direct;
PARAMS_LAYOUT(Direct, 128);

// Grid: the pixels computed; pixel q of it is first + q * step of y's image.
typedef struct {
  int64_t x_pixel, y_pixel;         // elements from one pixel to the next: the channels of all groups
  int32_t batch, sources, results;  // channels of one group
  int32_t input[3], grid[3], taps[3], stride[3], padding[3], dilation[3];
  int32_t image[3], first[3], step[3];
} RowsShape;
PARAMS_LAYOUT(RowsShape, 136);

// ---- depthwise

typedef struct {
  int32_t batch, channels;
  int32_t in_h, in_w, out_h, out_w;  // x and y of this sweep
  int32_t pad_h, pad_w;
  int32_t pitch, band;  // columns of the local image, its border included; output rows per band, or rows of the image
} Sweep;
PARAMS_LAYOUT(Sweep, 40);

// Source and result of the sweep; padding is that of the forward pass.
typedef struct {
  int32_t batch, channels, in_h, in_w, out_h, out_w, pad_h, pad_w, dilation_h, dilation_w;
} ChannelSweep;
PARAMS_LAYOUT(ChannelSweep, 40);

typedef struct {
  int32_t batch, channels, in_h, in_w, out_h, out_w, kh, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
} Depthwise;
PARAMS_LAYOUT(Depthwise, 52);

// ---- few channels

typedef struct {
  int32_t height, width, out_height, out_width, pad_h, pad_w;
  int32_t band;   // output rows per task
  int32_t pitch;  // positions per output row
  int32_t plane;  // floats per phase plane
  int32_t line;   // floats of the row buffer
  // Vectors of 16 pixels per output row of the forward pass, or 0: vectors run on over the ends of rows.
  int32_t row_chunks;
} StemGeometry;
PARAMS_LAYOUT(StemGeometry, 44);

typedef struct {
  int32_t height, width, out_height, out_width, pad_h, pad_w;
  int32_t first_a, last_a, first_b;  // a and b of the first and last rows, and of the first column, of dx
  int32_t band;                      // rows a of a task
  int32_t columns;                   // columns b in whole register tiles
  int32_t pitch, plane;              // floats of a packed row and of a channel's rows
} StemBackwardGeometry;
PARAMS_LAYOUT(StemBackwardGeometry, 52);

// ---- strided backward-data
// Offsets in floats: of the next panel of 16 positions, of the next output channel, of the views 01, 10 and 11.
typedef struct {
  int64_t panel, channel;
  int32_t view01, view10, view11, unused;
} Layout;
PARAMS_LAYOUT(Layout, 32);

PARAMS_END
