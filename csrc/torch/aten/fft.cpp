// Fourier transforms: complex to complex, real to complex, complex to real; torch.fft, stft and istft are made of them.
#include "ops/fft/fft.h"

#include "torch/aten/common.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_permuted.h>
#include <ATen/ops/real.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ocl::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

void check_type(const Tensor& self) {
  const at::ScalarType type = c10::toRealValueType(self.scalar_type());
  TORCH_CHECK(type == at::kFloat || type == at::kDouble, "Unsupported dtype ", self.scalar_type());
}

// Of ATen's fft_norm_mode: none, by the root of the number of elements, by that number.
double scale_of(IntArrayRef sizes, IntArrayRef dims, int64_t normalization) {
  if (normalization == 0) return 1.0;
  double count = 1;
  for (const int64_t dim : dims)
    count *= static_cast<double>(sizes[at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()))]);
  return normalization == 1 ? 1.0 / std::sqrt(count) : 1.0 / count;
}

// Dimensions by decreasing stride, the transformed ones last: the layout of results on every other device.
// `last_innermost`: the last of them is the innermost.
at::DimVector layout_order(const Tensor& self, IntArrayRef dims, bool last_innermost = false) {
  at::DimVector order(self.dim());
  std::iota(order.begin(), order.end(), 0);
  const auto transformed = [&](int64_t d) {
    return std::any_of(dims.begin(), dims.end(), [&](int64_t t) { return at::maybe_wrap_dim(t, self.dim()) == d; });
  };
  const int64_t last = at::maybe_wrap_dim(dims.back(), self.dim());
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (transformed(a) != transformed(b)) return transformed(b);
    if (last_innermost && (a == last || b == last)) return b == last && a != last;
    return self.stride(a) > self.stride(b);
  });
  return order;
}

at::DimVector inverse_of(const at::DimVector& order) {
  at::DimVector inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

Tensor contiguous_bits(const Tensor& self) { return self.contiguous().resolve_conj().resolve_neg(); }

void run(ops::FftKind kind, const Tensor& x, const Tensor& y, const ops::FftShape& shape, bool inverse, double scale) {
  const Tensor& complex = x.is_complex() ? x : y;
  ops::fft(queue_for(x), kind, dtype_of(complex.scalar_type()), address(x), address(y), shape, inverse, scale);
}

// Transform of a complex tensor along several dimensions; the last pass runs along the innermost one. Other dimensions
// are transformed where they lie when the device takes that and enough lines lie side by side to fill its vectors.
Tensor transform(const Tensor& self, IntArrayRef dims, bool inverse, double scale) {
  constexpr int64_t enough = 8;
  const at::DimVector order = layout_order(self, dims);
  Tensor x = self.permute(order);
  int64_t inner = c10::multiply_integers(x.sizes().slice(x.dim() - static_cast<int64_t>(dims.size())));
  for (int64_t d = x.dim() - static_cast<int64_t>(dims.size()); d < x.dim(); ++d, scale = 1.0) {
    const int64_t n = x.size(d), total = x.numel();
    inner = n ? inner / n : 1;
    const bool side_by_side = inner >= enough && ops::fft_takes_any_kind(queue_for(self).device(), n);
    const Tensor lines = contiguous_bits(side_by_side ? x : x.transpose(d, -1));
    const Tensor result = at::empty_like(lines);
    const ops::FftShape shape{
        .outer = total ? total / n / (side_by_side ? inner : 1) : 0, .n = n, .inner = side_by_side ? inner : 1};
    run(ops::FftKind::complex_to_complex, lines, result, shape, inverse, scale);
    x = side_by_side ? result : result.transpose(d, -1);
  }
  return x.permute(inverse_of(order));
}

// The transform of real numbers along one dimension, its first half only unless `whole`, or the reverse where `size` >
// 0 elements have such a half.
Tensor transform_real(const Tensor& self, int64_t dim, int64_t size, double scale, bool whole = false) {
  const at::DimVector order = layout_order(self, dim);
  const Tensor rows = contiguous_bits(self.permute(order));
  const bool to_real = size > 0;
  const int64_t n = to_real ? size : rows.size(-1);
  at::DimVector sizes(rows.sizes());
  sizes.back() = to_real || whole ? n : n / 2 + 1;
  const at::ScalarType type =
      to_real ? c10::toRealValueType(self.scalar_type()) : c10::toComplexType(self.scalar_type());
  const Tensor result = at::empty(sizes, self.options().dtype(type));
  const int64_t count = result.numel() ? result.numel() / sizes.back() : 0;
  run(to_real ? ops::FftKind::complex_to_real : ops::FftKind::real_to_complex, rows, result,
      {.outer = count, .n = n, .whole = whole}, to_real, scale);
  return result.permute(inverse_of(order));
}

Tensor fft_c2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex());
  check_type(self);
  if (dim.empty()) return self.clone();
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return transform(self, dim, !forward, scale_of(self.sizes(), dim, normalization));
}

Tensor fft_r2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point());
  check_type(self);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const int64_t last = dim.back();
  const double scale = scale_of(self.sizes(), dim, normalization);
  Tensor x;
  if (ops::fft_takes_any_kind(queue_for(self).device(), self.size(last))) {
    x = transform_real(self, last, 0, scale, !onesided);
  } else {
    x = transform(self.to(c10::toComplexType(self.scalar_type())), last, false, scale);
    if (onesided) x = x.narrow(last, 0, self.size(last) / 2 + 1);
    if (onesided && dim.size() == 1) x = x.clone();
  }
  if (dim.size() == 1) return x;
  // Laid out as if all dimensions had been transformed at once, the halved one innermost.
  const at::DimVector order = layout_order(self, dim, true);
  return transform(x, dim.slice(0, dim.size() - 1), false, 1.0).permute(order).contiguous().permute(inverse_of(order));
}

// The input holds the first n / 2 + 1 elements of the last transformed dimension; the others are their conjugates.
Tensor fft_c2r(const Tensor& self, IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  TORCH_CHECK(self.is_complex());
  check_type(self);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const int64_t last = at::maybe_wrap_dim(dim.back(), self.dim()), half = last_dim_size / 2 + 1;
  at::DimVector sizes(self.sizes());
  sizes[last] = last_dim_size;
  const Tensor x = dim.size() > 1 ? transform(self, dim.slice(0, dim.size() - 1), true, 1.0) : self;
  const double scale = scale_of(sizes, dim, normalization);
  if (ops::fft_takes_any_kind(queue_for(self).device(), last_dim_size))
    return transform_real(x.narrow(last, 0, half), last, last_dim_size, scale);
  Tensor full = at::empty_permuted(sizes, layout_order(x, last), self.options());
  full.narrow(last, 0, half).copy_(x.narrow(last, 0, half));
  if (half < last_dim_size)
    full.narrow(last, half, last_dim_size - half).copy_(x.narrow(last, 1, last_dim_size - half).flip({last}).conj());
  return at::real(transform(full, last, true, scale)).clone();
}

Tensor& store(const Tensor& result, Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}
Tensor& fft_c2c_out(const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward, Tensor& out) {
  return store(fft_c2c(self, dim, normalization, forward), out);
}
Tensor& fft_r2c_out(const Tensor& self, IntArrayRef dim, int64_t normalization, bool onesided, Tensor& out) {
  return store(fft_r2c(self, dim, normalization, onesided), out);
}
Tensor& fft_c2r_out(const Tensor& self, IntArrayRef dim, int64_t normalization, int64_t last_dim_size, Tensor& out) {
  return store(fft_c2r(self, dim, normalization, last_dim_size), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fft_c2c", fft_c2c);
  m.impl("_fft_c2c.out", fft_c2c_out);
  m.impl("_fft_r2c", fft_r2c);
  m.impl("_fft_r2c.out", fft_r2c_out);
  m.impl("_fft_c2r", fft_c2r);
  m.impl("_fft_c2r.out", fft_c2r_out);
}

}  // namespace ocl::aten
