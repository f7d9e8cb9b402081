#include "ops/fft/fft.h"

#include <utility>
#include <vector>

namespace ocl::ops {

namespace {

// Radices whose product is n, small ones first; {1} for n = 1.
std::vector<int64_t> factors_of(int64_t n) {
  std::vector<int64_t> factors;
  for (const int64_t radix : {4, 2, 3, 5, 7})
    for (; n % radix == 0; n /= radix) factors.push_back(radix);
  for (int64_t p = 11; p * p <= n; p += 2)
    for (; n % p == 0; n /= p) factors.push_back(p);
  if (n > 1 || factors.empty()) factors.push_back(n);
  return factors;
}

// The kernels' argument (Pass in kernels_cl/fft.cl).
struct Pass {
  int64_t n, done, radix, total, share, inverse;
};

}  // namespace

void fft(Queue& queue, DType dtype, const void* x, void* y, int64_t batch, int64_t n, bool inverse, double scale) {
  static KernelSite twiddle_site("fft.cl", "fft_twiddles"), known_site("fft.cl", "fft_pass"), any_site("fft.cl", "fft_pass_any");
  if (batch == 0 || n == 0) return;
  Device& device = queue.device();
  require_dtype(device, dtype, "fft");
  const DType real = dtype == DType::complex128 ? DType::float64 : DType::float32;
  const auto kernel = [&](KernelSite& site, int64_t radix) -> Kernel& {
    return site.get(device, Variant().add(dtype).add(static_cast<uint64_t>(radix), 4), [&] {
      Defines defines;
      ocl::ops::dtype(defines, "COMPLEX", dtype);
      ocl::ops::dtype(defines, "REAL", real);
      return defines.add("RADIX", radix);
    });
  };
  const std::vector<int64_t> factors = factors_of(n);
  const size_t bytes = static_cast<size_t>(n) * size_of(dtype);
  Workspace twiddles(queue, bytes), other(queue, factors.size() > 1 ? bytes * static_cast<size_t>(batch) : 1);
  launch(queue, kernel(twiddle_site, 2), Range(static_cast<size_t>(n)), Range(), twiddles.data(), n);

  const void* from = x;
  void* to = factors.size() % 2 ? y : other.data();
  Pass pass{.n = n, .done = 1, .radix = 1, .total = 0, .share = 1, .inverse = inverse};
  for (size_t i = 0; i < factors.size(); ++i) {
    pass.radix = factors[i];
    const bool known = pass.radix > 1 && pass.radix <= 7;
    pass.total = known ? batch * (n / pass.radix) : batch * n;
    pass.share = device.fat() ? round_up(ceil_div(pass.total, fat_tasks(device, pass.total, 1024)), 4) : 1;
    const double factor = i + 1 == factors.size() ? scale : 1.0;
    const auto run = [&](auto s) {
      launch(queue, kernel(known ? known_site : any_site, known ? pass.radix : 2),
             Range(static_cast<size_t>(ceil_div(pass.total, pass.share))), device.fat() ? Range(1) : Range(), from, to, twiddles.data(), pass, s);
    };
    real == DType::float64 ? run(factor) : run(static_cast<float>(factor));
    pass.done *= pass.radix;
    from = to;
    to = to == y ? other.data() : y;
  }
}

}  // namespace ocl::ops
