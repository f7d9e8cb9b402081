// Fourier transforms: complex to complex, real to complex, complex to real; torch.fft, stft and istft are made of them.
#include "ops/fft/fft.h"

#include "aten/common.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/real.h>

#include <cmath>

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
  for (const int64_t dim : dims) count *= static_cast<double>(sizes[at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()))]);
  return normalization == 1 ? 1.0 / std::sqrt(count) : 1.0 / count;
}

// Transform of a complex tensor along one dimension.
Tensor along(const Tensor& self, int64_t dim, bool inverse, double scale) {
  const Tensor x = self.transpose(dim, -1).contiguous().resolve_conj().resolve_neg();
  Tensor y = at::empty_like(x);
  const int64_t n = x.size(-1);
  ops::fft(queue_for(x), dtype_of(x.scalar_type()), x.data_ptr(), y.data_ptr(), n ? x.numel() / n : 0, n, inverse, scale);
  return y.transpose(dim, -1);
}

// Along several dimensions, the last one first.
Tensor along_all(Tensor x, IntArrayRef dims, bool inverse, double scale) {
  for (size_t i = dims.size(); i-- > 0; scale = 1.0) x = along(x, dims[i], inverse, scale);
  return x;
}

Tensor fft_c2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex());
  check_type(self);
  if (dim.empty()) return self.clone();
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return along_all(self, dim, !forward, scale_of(self.sizes(), dim, normalization));
}

Tensor fft_r2c(const Tensor& self, IntArrayRef dim, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point());
  check_type(self);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const int64_t last = dim.back();
  Tensor x = along(self.to(c10::toComplexType(self.scalar_type())), last, false, scale_of(self.sizes(), dim, normalization));
  if (onesided) x = x.narrow(last, 0, self.size(last) / 2 + 1);
  x = along_all(x, dim.slice(0, dim.size() - 1), false, 1.0);
  return x.is_non_overlapping_and_dense() ? x : x.clone();
}

// The input holds the first n / 2 + 1 elements of the last transformed dimension; the others are their conjugates.
Tensor fft_c2r(const Tensor& self, IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  TORCH_CHECK(self.is_complex());
  check_type(self);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const int64_t last = at::maybe_wrap_dim(dim.back(), self.dim()), half = last_dim_size / 2 + 1;
  at::DimVector sizes(self.sizes());
  sizes[last] = last_dim_size;
  const Tensor x = along_all(self, dim.slice(0, dim.size() - 1), true, 1.0);
  Tensor full = empty_like_options(sizes, self.options());
  full.narrow(last, 0, half).copy_(x.narrow(last, 0, half));
  if (half < last_dim_size) full.narrow(last, half, last_dim_size - half).copy_(x.narrow(last, 1, last_dim_size - half).flip({last}).conj());
  return at::real(along(full, last, true, scale_of(sizes, dim, normalization))).clone();
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
