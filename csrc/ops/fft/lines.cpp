#include "ops/fft/lines.h"
#include "params/fft.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace ocl::ops::fft_detail {

namespace {

using params::Lines;
using params::Side;

// One dtype's kernels on one queue.
class Transform {
 public:
  Transform(Queue& queue, DType dtype)
      : queue_(queue),
        real_(dtype == DType::complex128 ? DType::float64 : DType::float32),
        lanes_(real_ == DType::float64 || queue.device().capabilities().vector_floats < 16 ? 8 : 16),
        pair_(static_cast<int64_t>(size_of(dtype))) {}

  int64_t lanes() const { return lanes_; }
  Workspace complex_numbers(int64_t count) const { return Workspace(queue_, static_cast<size_t>(count * pair_)); }

  // Complex lines side by side, or rows.
  void run(const void* x, void* y, const FftShape& s, bool inverse, double scale) {
    const Side side = s.inner == 1 ? Side{0, 2 * s.n, 2} : Side{2 * s.n * s.inner, 2, 2 * s.inner};
    const bool rows = s.inner == 1;
    lines(FftKind::complex_to_complex, rows, rows, rows ? 1 : s.outer, rows ? s.outer : s.inner, x, side, y, side, s.n,
          inverse, 0, scale);
  }

  // Rows of real numbers from or to their spectra, which have `points` points.
  void run_real(FftKind kind, const void* x, void* y, int64_t rows, int64_t n, int64_t points, double scale) {
    const bool to_complex = kind == FftKind::real_to_complex;
    const Side reals{0, n, 2}, spectra{0, 2 * points, 2};
    lines(kind, true, true, 1, rows, x, to_complex ? reals : spectra, y, to_complex ? spectra : reals, n, !to_complex,
          0, scale, points);
  }

  // Rows as matrices of n1 x n2: columns, a turn of every element, rows whose results lie side by side.
  void run_in_two(const void* x, void* y, int64_t rows, int64_t n1, int64_t n2, bool inverse, double scale) {
    const int64_t n = n1 * n2;
    const Workspace between = complex_numbers(rows * n);
    const Side columns{2 * n, 2, 2 * n2};
    lines(FftKind::complex_to_complex, false, false, rows, n2, x, columns, between.data(), columns, n1, inverse, n,
          1.0);
    lines(FftKind::complex_to_complex, true, false, rows, n1, between.data(), {2 * n, 2 * n2, 2}, y, {2 * n, 2, 2 * n1},
          n2, inverse, 0, scale);
  }

  // Between the transforms of n / 2 complex numbers and the spectra of n real ones, of `points` points.
  void tangle(FftKind kind, const void* x, void* y, int64_t rows, int64_t n, int64_t points) {
    static KernelSite site("fft/lines.cpu.cl", "fft_tangle");
    const int64_t m = n / 2, per_row = ceil_div(m, int64_t{4096}), share = round_up(ceil_div(m, per_row), lanes_);
    launch(queue_, kernel(site, kind, true, true, 0), Range(static_cast<size_t>(rows * ceil_div(m, share))), Range(1),
           x, y, n, points, share, ceil_div(m, share));
  }

 private:
  Kernel& kernel(KernelSite& site, FftKind kind, bool x_rows, bool y_rows, uint64_t radices) {
    return site.get(
        queue_.device(),
        Variant().add(real_).add(static_cast<uint64_t>(kind), 2).add(x_rows, 1).add(y_rows, 1).add(radices, 9), [&] {
          Defines defines;
          dtype(defines, "REAL", real_);
          defines.add("KIND", static_cast<int>(kind)).add("X_ROWS", x_rows ? 1 : 0).add("Y_ROWS", y_rows ? 1 : 0);
          return defines.add("RADICES", static_cast<int64_t>(radices));
        });
  }

  void lines(FftKind kind, bool x_rows, bool y_rows, int64_t outer, int64_t count, const void* x, const Side& x_side,
             void* y, const Side& y_side, int64_t n, bool inverse, int64_t turns, double scale, int64_t points = 0) {
    static KernelSite site("fft/lines.cpu.cl", "fft_lines");
    const bool halved = kind != FftKind::complex_to_complex && n % 2 == 0;
    Lines p{};
    p.n = n, p.m = halved ? n / 2 : n, p.points = points, p.room = std::max(p.m + 1, points), p.lines = count,
    p.groups = outer * ceil_div(count, lanes_);
    p.inverse = inverse, p.turns = turns, p.x = x_side, p.y = y_side;
    const std::vector<int64_t> factors = factors_of(p.m, true);
    p.passes = static_cast<int64_t>(factors.size());
    std::copy(factors.begin(), factors.end(), p.radix);
    uint64_t radices = 0;
    for (const int64_t radix : factors) radices |= uint64_t{1} << (radix <= 8 ? radix : 0);
    // A task's scratch should stay in its cache: few tasks, each with many groups.
    const int64_t units = queue_.device().capabilities().compute_units;
    const int64_t wanted = std::min({p.groups, cpu_tasks(queue_.device(), p.groups * lanes_ * n, 8192), 4 * units});
    p.share = ceil_div(p.groups, wanted);
    const int64_t tasks = ceil_div(p.groups, p.share);
    p.scratch = 2 * ceil_div(n, lanes_) + 4 * p.room;
    const Workspace scratch = complex_numbers(tasks * p.scratch * lanes_ / 2);
    const auto with = [&](auto factor) {
      launch(queue_, kernel(site, kind, x_rows, y_rows, radices), Range(static_cast<size_t>(tasks)), Range(1), x, y,
             scratch.data(), p, factor);
    };
    real_ == DType::float64 ? with(scale) : with(static_cast<float>(scale));
  }

  Queue& queue_;
  DType real_;
  int64_t lanes_, pair_;
};

// n = n1 n2 with both long enough for whole vectors of lines, as square as that allows.
std::optional<std::pair<int64_t, int64_t>> split(int64_t n, int64_t lanes) {
  std::optional<std::pair<int64_t, int64_t>> best;
  double least = 0;
  for (int64_t a = 8; a <= n / 8 && a <= 8192; ++a) {
    const int64_t b = n / a;
    if (a * b != n || b > 8192) continue;
    const auto waste = [&](int64_t lines) {
      return static_cast<double>(round_up(lines, lanes)) / static_cast<double>(lines);
    };
    const double cost =
        waste(a) + waste(b) + 0.1 * std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
    if (!best || cost < least) best = {a, b}, least = cost;
  }
  return best;
}

}  // namespace

void lines(Queue& queue, FftKind kind, DType dtype, const void* x, void* y, const FftShape& s, bool inverse,
           double scale) {
  Transform transform(queue, dtype);
  const bool real = kind != FftKind::complex_to_complex;
  const int64_t m = real && s.n % 2 == 0 ? s.n / 2 : s.n, points = s.whole ? s.n : s.n / 2 + 1;
  // A row that leaves the cache, or rows too few for the lanes of a vector
  const bool long_or_few = s.inner == 1 && (m > 4096 || (m >= 256 && 4 * s.outer <= transform.lanes()));
  const auto pair = long_or_few && !(real && m == s.n) ? split(m, transform.lanes()) : std::nullopt;
  if (!pair)
    return real ? transform.run_real(kind, x, y, s.outer, s.n, points, scale) : transform.run(x, y, s, inverse, scale);
  const auto [n1, n2] = *pair;
  if (!real) return transform.run_in_two(x, y, s.outer, n1, n2, inverse, scale);
  const Workspace halves = transform.complex_numbers(s.outer * m);
  if (kind == FftKind::real_to_complex) {
    transform.run_in_two(x, halves.data(), s.outer, n1, n2, false, scale);
    transform.tangle(kind, halves.data(), y, s.outer, s.n, points);
  } else {
    transform.tangle(kind, x, halves.data(), s.outer, s.n, points);
    transform.run_in_two(halves.data(), y, s.outer, n1, n2, true, scale);
  }
}

}  // namespace ocl::ops::fft_detail
