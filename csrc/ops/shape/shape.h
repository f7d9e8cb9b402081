// Operators that lay elements out anew: concatenation, triangles, ranges, windows (im2col), pooling of windows back
// (col2im, unfold_backward).
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// out = the inputs one behind the other in dimension `dim`; one dtype; sizes must fit (inputs with 0 elements are
// skipped).
void concatenate(Queue& queue, const TensorView& out, std::span<const TensorView> inputs, int dim);

// out[(i + shift) mod size] = self[i] in every listed dimension.
void roll(Queue& queue, const TensorView& out, const TensorView& self, std::span<const int64_t> shifts,
          std::span<const int> dims);

// out[..., i, j] = self[..., i, j] where j - i <= diagonal (lower) or j - i >= diagonal (upper), else 0. Works in
// place.
void triangle(Queue& queue, const TensorView& out, const TensorView& self, int64_t diagonal, bool upper);

// Progressions, contiguous out. Integers compute in int64, floating types in double where the device has it, otherwise
// float.
//   arange:   out[i] = start + i * step
//   linspace: start + i * step in the first half, end - (n - 1 - i) * step in the second, step = (end - start) / (n -
//   1) logspace: base to the power of linspace
struct Progression {
  double start = 0, step = 1, end = 0, base = 10;
  int64_t integer_start = 0, integer_step = 1;
};
enum class ProgressionKind { arange, linspace, logspace };
void progression(Queue& queue, const TensorView& out, ProgressionKind kind, const Progression& parameters);

// out = ones on the main diagonal of a matrix, zeros elsewhere; any strides.
void eye(Queue& queue, const TensorView& out);

// Sliding windows in two dimensions, NCHW contiguous.
struct Windows {
  std::array<int64_t, 2> kernel{1, 1}, dilation{1, 1}, padding{0, 0}, stride{1, 1};
  std::array<int64_t, 2> image{1, 1}, count{1, 1};  // sizes of the image, windows in each dimension
};
// columns[n, c * KH * KW + k, l] = image[n, c, position of tap k in window l], 0 outside. rows = N * C.
void im2col(Queue& queue, const TensorView& columns, const TensorView& image, const Windows& windows, int64_t rows);
// image[n, c, p] = sum of the columns' elements that lie on p.
void col2im(Queue& queue, const TensorView& image, const TensorView& columns, const Windows& windows, int64_t rows);

// Gradient of x.unfold(dim, size, step): grad_in[..., p, ...] = sum over windows w of grad[..., w, ..., p - w * step].
// grad_in is contiguous; grad has one more (last) dimension of `size` and any strides.
void unfold_backward(Queue& queue, const TensorView& grad_in, const TensorView& grad, int dim, int64_t size,
                     int64_t step);

// out[j] = i for cumulative[i - 1] <= j < cumulative[i]: index i repeated; int64 or int32, contiguous.
void repeat_indices(Queue& queue, const TensorView& out, const TensorView& cumulative);

// out[2, n]: row and column of each element of the lower or upper triangle of a rows x columns matrix, row by row.
void triangle_indices(Queue& queue, const TensorView& out, int64_t rows, int64_t columns, int64_t diagonal, bool upper);

}  // namespace ocl::ops
