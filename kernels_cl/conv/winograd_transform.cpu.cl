// Winograd convolution, transforms into the P x P interpolation points. Lanes are 16 channels: every row of a
// channels-first image is
// transposed 16 x 16 in registers, so that the transforms need no shuffles and no lane is wasted at any image width;
// channels-last images
// are in that order already.
//   transform_input     x  [N, C, H, W]  -> V[point][C/16][tile][16],  V = B^T X B of the overlapping P x P tiles
//   transform_gradient  dy [N, C, H, W]  -> V[point][C/16][tile][16],  V = A dY A^T of the disjoint M x M tiles (weight
//   gradient)
// Images are samples, or slices of one sample of a volume: number first_image + n of `existing` ones, zero where there
// is no such one. Under a dilation every sample is dilation^2 images, of the pixels that are `dilation` rows and
// columns apart.
//   transform_weight    w  [O, C, R, R]  -> U[point][O/32][C][32],     U = G g G^T (conv/winograd_weight.clh)
// tile = (n * tiles_h + ty) * tiles_w + tx; C and O are rounded up to 16 and 32, the added channels are zero. Planes of
// V are
// C * tiles * 16 + 16 floats apart (an odd number of cache lines: no 4 KiB aliasing between the points of a tile).
// Grid of the first two: images * C/16 by groups of TILE_ROWS rows of tiles. The third: O/16 by C/16.
#include "conv/winograd_formulas.clh"
#include "conv/winograd_weight.clh"

#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define TILE_ROWS 4      // rows of tiles per task: input rows shared by two of them are read once
#define TILE_COLUMNS 32  // tiles side by side in local memory; wider images are swept in strips
#define PITCH \
  (TILE * TILE_COLUMNS + TAPS - 1 + 16)  // pixels of a row in local memory, 16 of them for whole-vector stores

// Pixels [x0, x0 + columns), pixel_stride apart, of one image row and up to 16 channels into d[column][16]; zeros
// outside [0, width) and for missing channels.
inline void load_row(__global const STORAGE(DTYPE) * x, long channel_stride, long pixel_stride, int channels, int x0,
                     int width, int columns, __local float* d) {
  const int first = MIN_OF(columns, MAX_OF(0, -x0)), last = MAX_OF(first, MIN_OF(columns, width - x0));
  for (int i = 0; i < first; ++i) vstore16((float16)0.0f, i, d);
  if (channel_stride == 1) {
    for (int i = first; i < last; ++i) {
      const float16 pixel = LOADV(DTYPE, float32, 16, x, (x0 + i) * pixel_stride);
      vstore16(channels < 16 ? (LANES < channels ? pixel : (float16)0.0f) : pixel, i, d);
    }
  } else if (pixel_stride != 1) {
    for (int i = first; i < last; ++i)
      for (int l = 0; l < 16; ++l)
        d[i * 16 + l] = l < channels ? LOAD(DTYPE, float32, x, l * channel_stride + (x0 + i) * pixel_stride) : 0.0f;
  } else
    for (int i = first; i < last; i += 16) {
      float16 rows[16];
#pragma unroll
      for (int l = 0; l < 16; ++l) {
        rows[l] = LOADV(DTYPE, float32, 16, x, MIN_OF(l, channels - 1) * channel_stride + x0 + i);
        if (l >= channels) rows[l] = (float16)0.0f;
      }
      TRANSPOSE16(float16, rows);
#pragma unroll
      for (int l = 0; l < 16; ++l) vstore16(rows[l], i + l, d);
    }
  for (int i = last; i < columns; ++i) vstore16((float16)0.0f, i, d);
}

// One row of `tiles` tiles whose `span` image rows lie in ring[(top + r) % span]: vertical transform into `columns`,
// once per image
// column, then the horizontal transform of every tile into v[point][tile][16].
inline void transform_row(const int span, __local const float* ring, int top, __local float* columns, int tiles,
                          __global float* v, long plane) {
  const int width = TILE * tiles + span - TILE;
  for (int x = 0; x < width; ++x) {
    float16 a[POINTS], b[POINTS];
#pragma unroll
    for (int r = 0; r < span; ++r) a[r] = vload16(((top + r) % span) * PITCH + x, ring);
    if (span == POINTS)
      input_to_points(a, b);
    else
      output_to_points(a, b);
#pragma unroll
    for (int r = 0; r < POINTS; ++r) vstore16(b[r], r * PITCH + x, columns);
  }
#pragma unroll
  for (int r = 0; r < POINTS; ++r)
    for (int t = 0; t < tiles; ++t) {
      float16 a[POINTS], b[POINTS];
#pragma unroll
      for (int c = 0; c < span; ++c) a[c] = vload16(r * PITCH + TILE * t + c, columns);
      if (span == POINTS)
        input_to_points(a, b);
      else
        output_to_points(a, b);
#pragma unroll
      for (int c = 0; c < POINTS; ++c) vstore16(b[c], t, v + (r * POINTS + c) * plane);
    }
}

// span: rows and columns of a tile in the image, P (overlapping) or M (disjoint). column, row: of the group.
inline void transform_image(const int span, int column, int row, __global const STORAGE(DTYPE) * x, __global float* v,
                            int images, int first_image, int existing, int channels, int full_height, int full_width,
                            int tiles_h, int tiles_w, int pad_h, int pad_w, int dilation, int channels_last,
                            long image_stride, long channel_stride, __local float* ring, __local float* columns) {
  const int image = column % images, block = column / images;
  const int number = first_image + image, exists = number >= 0 && number < existing;
  const int ty_begin = row * TILE_ROWS, ty_end = MIN_OF(tiles_h, ty_begin + TILE_ROWS);
  const long tiles = (long)images * tiles_h * tiles_w, plane = PLANE_PITCH((channels + 15) / 16 * 16 * tiles);
  const long pixel_stride = channels_last ? channels : 1;
  const int phases = dilation * dilation, sample = exists ? number / phases : 0, phase_y = number % phases / dilation,
            phase_x = number % dilation;
  const int height = (full_height - phase_y + dilation - 1) / dilation,
            width = (full_width - phase_x + dilation - 1) / dilation;
  const long row_stride = (long)full_width * dilation * pixel_stride;
  __global const STORAGE(DTYPE)* source = x + sample * image_stride + block * 16 * channel_stride +
                                          (exists ? ((long)phase_y * full_width + phase_x) * pixel_stride : 0);
  for (int tx = 0; tx < tiles_w; tx += TILE_COLUMNS) {
    const int strip = MIN_OF(TILE_COLUMNS, tiles_w - tx);
    for (int ty = ty_begin; ty < ty_end; ++ty) {
      for (int r = 0; r < span; ++r) {
        if (ty > ty_begin && r < span - TILE) continue;  // still there from the row of tiles above
        const int y = TILE * ty - pad_h + r, inside = exists && y >= 0 && y < height;
        load_row(source + (inside ? y : 0) * row_stride, channel_stride, pixel_stride * dilation,
                 MIN_OF(16, channels - block * 16), TILE * tx - pad_w, inside ? width : -(1 << 30),
                 TILE * strip + span - TILE, ring + ((TILE * ty + r) % span) * PITCH * 16);
      }
      transform_row(span, ring, TILE * ty, columns, strip,
                    v + (block * tiles + ((long)image * tiles_h + ty) * tiles_w + tx) * 16, plane);
    }
  }
}

CPU_KERNEL void transform_input(global const STORAGE(DTYPE) * restrict x, global float* restrict v, int images,
                                int first_image, int existing, int channels, int height, int width, int tiles_h,
                                int tiles_w, int pad_h, int pad_w, int dilation, int channels_last, long image_stride,
                                long channel_stride) {
  local float ring[POINTS * PITCH * 16];
  local float columns[POINTS * PITCH * 16];
  transform_image(POINTS, get_group_id(0), get_group_id(1), x, v, images, first_image, existing, channels, height,
                  width, tiles_h, tiles_w, pad_h, pad_w, dilation, channels_last, image_stride, channel_stride, ring,
                  columns);
}

CPU_KERNEL void transform_gradient(global const STORAGE(DTYPE) * restrict x, global float* restrict v, int images,
                                   int first_image, int channels, int height, int width, int tiles_h, int tiles_w,
                                   int dilation, int channels_last, long image_stride, long channel_stride) {
  local float ring[TILE * PITCH * 16];
  local float columns[POINTS * PITCH * 16];
  transform_image(TILE, get_group_id(0), get_group_id(1), x, v, images, first_image, first_image + images, channels,
                  height, width, tiles_h, tiles_w, 0, 0, dilation, channels_last, image_stride, channel_stride, ring,
                  columns);
}

CPU_KERNEL void transform_weight(global const STORAGE(DTYPE) * restrict w, global float* restrict u, int out_channels,
                                 int in_channels, int order) {
  local float staged[16 * FILTER_TAPS * 16];
  const int o = get_group_id(0) * 16, c = get_group_id(1) * 16, rows = (in_channels + 15) / 16 * 16;
  stage_weights(w, out_channels, in_channels, order, o, c, staged);
  __global float* block = u + ((long)(o / 32) * rows + c) * 32 + (o & 16);
  transform_staged(staged, block, PLANE_PITCH((long)(out_channels + 31) / 32 * rows * 32));
}
