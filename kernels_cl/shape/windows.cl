// Sliding windows and sums over them (csrc/ops/shape/shape.h). D is the element type; sums of the half types in float32
// except col2im on CPU
// devices, which adds in memory. Fat: a work-item does `block` rows; GPU: a work-item per element of the output.
#include "params/shape.h"
#include "common/divide.clh"
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#define V VALUE(D)

// columns[row, k, l]: one element
static inline void im2col_element(__global STORAGE(D) * columns, __global const STORAGE(D) * image,
                                  const WindowShape* s, long row, long k, long l) {
  const long kh = k / s->kernel_w, kw = k - kh * s->kernel_w, oh = divide(l, s->windows_w), ow = l - oh * s->windows_w;
  const long y = oh * s->stride_h - s->padding_h + kh * s->dilation_h,
             x = ow * s->stride_w - s->padding_w + kw * s->dilation_w;
  const bool inside = y >= 0 && y < s->height && x >= 0 && x < s->width;
  const long taps = s->kernel_h * s->kernel_w, windows = s->windows_h * s->windows_w;
  if (inside)
    STORE(D, D, columns, (row * taps + k) * windows + l, LOAD(D, D, image, (row * s->height + y) * s->width + x));
  else
    STORE(D, D, columns, (row * taps + k) * windows + l, (V)(0));
}

// columns[row, k, :]
static inline void im2col_row(__global STORAGE(D) * columns, __global const STORAGE(D) * image, const WindowShape* s,
                              long row, long k) {
  const long kh = k / s->kernel_w, kw = k - kh * s->kernel_w, windows = s->windows_h * s->windows_w;
  columns += (row * s->kernel_h * s->kernel_w + k) * windows;
  const long x0 = kw * s->dilation_w - s->padding_w;
  for (long oh = 0; oh < s->windows_h; ++oh, columns += s->windows_w) {
    const long y = oh * s->stride_h - s->padding_h + kh * s->dilation_h;
    __global const STORAGE(D)* line = image + (row * s -> height + y) * s->width;
    const bool outside = y < 0 || y >= s->height;
    for (long ow = 0; ow < s->windows_w; ++ow) {
      const long x = x0 + ow * s->stride_w;
      if (outside || x < 0 || x >= s->width)
        STORE(D, D, columns, ow, (V)(0));
      else
        STORE(D, D, columns, ow, LOAD(D, D, line, x));
    }
  }
}

TASK_KERNEL void im2col(global STORAGE(D) * columns, global const STORAGE(D) * image, WindowShape shape, long block) {
  const long taps = shape.kernel_h * shape.kernel_w, item = get_global_id(0);
#if CPU_STYLE
  const long to = MIN_OF((item + 1) * block, shape.rows * taps);
  for (long i = item * block; i < to; ++i) im2col_row(columns, image, &shape, i / taps, i % taps);
#else
  const long windows = shape.windows_h * shape.windows_w, i = divide(item, windows);
  if (i < shape.rows * taps)
    im2col_element(columns, image, &shape, divide(i, taps), i - divide(i, taps) * taps, item - i * windows);
#endif
}

// CPU: a plane of the image is zeroed and the columns are added to it, tap by tap
static inline void col2im_plane(__global STORAGE(D) * image, __global const STORAGE(D) * columns,
                                const WindowShape* s) {
  for (long p = 0; p < s->height * s->width; ++p) STORE(D, D, image, p, (V)(0));
  for (long kh = 0; kh < s->kernel_h; ++kh)
    for (long kw = 0; kw < s->kernel_w; ++kw) {
      const long x0 = kw * s->dilation_w - s->padding_w;
      for (long oh = 0; oh < s->windows_h; ++oh, columns += s->windows_w) {
        const long y = oh * s->stride_h - s->padding_h + kh * s->dilation_h;
        if (y < 0 || y >= s->height) continue;
        __global STORAGE(D)* line = image + y * s -> width;
        for (long ow = 0; ow < s->windows_w; ++ow) {
          const long x = x0 + ow * s->stride_w;
          if (x >= 0 && x < s->width) {
            const V sum = LOAD(D, D, line, x) + LOAD(D, D, columns, ow);
            STORE(D, D, line, x, sum);
          }
        }
      }
    }
}

// one pixel: the sum over the taps that reach it
static inline void col2im_pixel(__global STORAGE(D) * image, __global const STORAGE(D) * columns, const WindowShape* s,
                                long row, long pixel) {
  const long y = divide(pixel, s->width), x = pixel - y * s->width, windows = s->windows_h * s->windows_w;
  V sum = (V)(0);
  for (long kh = 0; kh < s->kernel_h; ++kh) {
    const long h = y + s->padding_h - kh * s->dilation_h;
    if (h < 0 || h % s->stride_h || h / s->stride_h >= s->windows_h) continue;
    for (long kw = 0; kw < s->kernel_w; ++kw) {
      const long w = x + s->padding_w - kw * s->dilation_w;
      if (w < 0 || w % s->stride_w || w / s->stride_w >= s->windows_w) continue;
      const V value = LOAD(
          D, D, columns,
          ((row * s->kernel_h + kh) * s->kernel_w + kw) * windows + h / s->stride_h * s->windows_w + w / s->stride_w);
      sum += value;
    }
  }
  STORE(D, D, image, row * s->height * s->width + pixel, sum);
}

TASK_KERNEL void col2im(global STORAGE(D) * image, global const STORAGE(D) * columns, WindowShape shape, long block) {
  const long item = get_global_id(0), pixels = shape.height * shape.width;
#if CPU_STYLE
  const long to = MIN_OF((item + 1) * block, shape.rows);
  const long windows = shape.kernel_h * shape.kernel_w * shape.windows_h * shape.windows_w;
  for (long r = item * block; r < to; ++r) col2im_plane(image + r * pixels, columns + r * windows, &shape);
#else
  const long r = divide(item, pixels);
  if (r < shape.rows) col2im_pixel(image, columns, &shape, r, item - r * pixels);
#endif
}

// ---- unfold_backward: grad_in is contiguous [sizes], the unfolded dimension is `dim`
TASK_KERNEL void unfold_backward(global STORAGE(D) * out, global const STORAGE(D) * grad, UnfoldShape shape,
                                 long block) {
  SHARE(UnfoldShape, shape, shared);
  const long from = (long)get_global_id(0) * block, to = MIN_OF(from + block, shape.total);
  for (long i = from; i < to; ++i) {
    long rest = i, offset = 0, p = 0;
    for (int d = shape.dims - 1; d >= 0; --d) {
      const long next = divide(rest, shared->sizes[d]), coordinate = rest - next * shared->sizes[d];
      rest = next;
      if (d == shape.dim)
        p = coordinate;
      else
        offset += coordinate * shared->grad[d];
    }
    const long first = p < shape.size ? 0 : (p - shape.size) / shape.step + 1,
               last = MIN_OF(p / shape.step, shape.windows - 1);
    V sum = (V)(0);
    for (long w = first; w <= last; ++w) {
      const V value = LOAD(D, D, grad, offset + w * shared->grad[shape.dim] + (p - w * shape.step) * shape.last_stride);
      sum += value;
    }
    STORE(D, D, out, i, sum);
  }
}
