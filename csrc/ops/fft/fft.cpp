#include "ops/fft/fft.h"

#include "ops/fft/lines.h"
#include "params/fft.h"

#include <utility>

namespace ocl::ops {

namespace fft_detail {

std::vector<int64_t> factors_of(int64_t n, bool eights) {
  std::vector<int64_t> factors;
  for (; eights && n % 8 == 0 && n != 16; n /= 8) factors.push_back(8);
  for (const int64_t radix : {4, 2, 3, 5, 7})
    for (; n % radix == 0; n /= radix) factors.push_back(radix);
  for (int64_t p = 11; p * p <= n; p += 2)
    for (; n % p == 0; n /= p) factors.push_back(p);
  if (n > 1) factors.push_back(n);
  return factors;
}

}  // namespace fft_detail

namespace {

using params::Pass;

// A launch for every pass.
void passes(Queue& queue, DType dtype, const void* x, void* y, int64_t batch, int64_t n, bool inverse, double scale) {
  static KernelSite twiddle_site("fft/fft.cl", "fft_twiddles"), known_site("fft/fft.cl", "fft_pass"),
      any_site("fft/fft.cl", "fft_pass_any");
  Device& device = queue.device();
  const DType real = dtype == DType::complex128 ? DType::float64 : DType::float32;
  const auto kernel = [&](KernelSite& site, int64_t radix) -> Kernel& {
    return site.get(device, Variant().add(dtype).add(static_cast<uint64_t>(radix), 4), [&] {
      Defines defines;
      ocl::ops::dtype(defines, "COMPLEX", dtype);
      ocl::ops::dtype(defines, "REAL", real);
      return defines.add("RADIX", radix);
    });
  };
  std::vector<int64_t> factors = fft_detail::factors_of(n, false);
  if (factors.empty()) factors.push_back(1);
  const size_t bytes = static_cast<size_t>(n) * size_of(dtype);
  Workspace twiddles(queue, bytes), other(queue, factors.size() > 1 ? bytes * static_cast<size_t>(batch) : 1);
  launch(queue, kernel(twiddle_site, 2), Range(static_cast<size_t>(n)), Range(), twiddles.data(), n);

  const void* from = x;
  void* to = factors.size() % 2 ? y : other.data();
  Pass pass{.n = n, .done = 1, .radix = 1, .total = 0, .inverse = inverse};
  for (size_t i = 0; i < factors.size(); ++i) {
    pass.radix = factors[i];
    const bool known = pass.radix > 1 && pass.radix <= 7;
    pass.total = known ? batch * (n / pass.radix) : batch * n;
    const double factor = i + 1 == factors.size() ? scale : 1.0;
    const auto run = [&](auto s) {
      launch(queue, kernel(known ? known_site : any_site, known ? pass.radix : 2),
             Range(static_cast<size_t>(pass.total)), Range(), from, to, twiddles.data(), pass, s);
    };
    real == DType::float64 ? run(factor) : run(static_cast<float>(factor));
    pass.done *= pass.radix;
    from = to;
    to = to == y ? other.data() : y;
  }
}

}  // namespace

// Beyond 2^28 points the angles of the CPU kernels leave 32 bits.
bool fft_takes_any_kind(const Device& device, int64_t n) { return device.cpu_style() && n <= int64_t{1} << 28; }

void fft(Queue& queue, FftKind kind, DType dtype, const void* x, void* y, const FftShape& shape, bool inverse,
         double scale) {
  if (shape.outer == 0 || shape.n == 0 || shape.inner == 0) return;
  require_dtype(queue.device(), dtype, "fft");
  if (fft_takes_any_kind(queue.device(), shape.n))
    return fft_detail::lines(queue, kind, dtype, x, y, shape, inverse, scale);
  if (kind != FftKind::complex_to_complex || shape.inner != 1)
    throw InvalidArgument("fft: this device takes complex rows only");
  passes(queue, dtype, x, y, shape.outer, shape.n, inverse, scale);
}

}  // namespace ocl::ops
