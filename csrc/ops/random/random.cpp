#include "ops/core/type_error.h"
#include "ops/random/random.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace ocl::ops {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

uint64_t random_counters(int64_t numel) { return static_cast<uint64_t>(round_up(std::max<int64_t>(numel, 0), 16)); }

namespace {

// How a distribution is made from uniform or normal numbers z; p0 and p1 are what `parameters` makes of the caller's.
struct Row {
  Distribution distribution;
  int source;  // random/random.cl: 0 uniform [0, 1), 1 uniform (0, 1), 2 standard normal
  const char* transform;
};
constexpr Row rows[] = {
    {Distribution::uniform, 0,
     "(fma(z, (REALS)(p1), (REALS)(p0)) < (p2) ? fma(z, (REALS)(p1), (REALS)(p0)) : (REALS)(p0))"},
    {Distribution::normal, 2, "(fma((z), (REALS)(p1), (REALS)(p0)))"},
    {Distribution::log_normal, 2, "exp(fma((z), (REALS)(p1), (REALS)(p0)))"},
    {Distribution::exponential, 1, "(log(z) * (p0))"},
    {Distribution::cauchy, 1, "((p0) + (p1) * tan(((z) - (REAL)0.5) * (REAL)3.14159265358979323846))"},
    {Distribution::geometric, 1, "ceil(log(z) * (p0))"},
};

// The smallest number that would round to `end` or beyond in the type: uniform numbers from there on become the start.
double uniform_limit(DType type, double end) {
  if (!is_half(type)) return end;
  int exponent = 0;
  const double mantissa = std::frexp(end, &exponent);
  const int bits = type == DType::float16 ? 11 : 8;
  return end - std::ldexp(1.0, exponent - 1 - bits - (mantissa == 0.5 ? 1 : 0));
}

// What the kernel works with: the width of the interval and its limit, -1 / rate, 1 / log(1 - p).
std::array<double, 3> parameters(Distribution distribution, DType type, double p0, double p1) {
  switch (distribution) {
    case Distribution::uniform: return {p0, p1 - p0, uniform_limit(type, p1)};
    case Distribution::exponential: return {-1 / p0, 0, 0};
    case Distribution::geometric: return {1 / std::log1p(-p0), 0, 0};
    default: return {p0, p1, 0};
  }
}

struct Shape {
  int64_t counters;  // per CPU task
  Range global, local;
};

Shape shape(const Device& device, int64_t n, int words) {
  const int64_t groups = ceil_div(n, 16 * words);
  if (device.cpu_style()) {
    const int64_t tasks = std::min(groups, cpu_tasks(device, n));
    const int64_t per_task = ceil_div(groups, tasks);
    return {per_task * 16, Range(ceil_div(groups, per_task)), Range(1)};
  }
  const int64_t limit = int64_t{64} * 256 * device.capabilities().compute_units;
  return {0, Range(std::min(round_up(groups * 16, 256), limit)), Range(256)};
}

void require_floating(const TensorView& t, const char* op) {
  if (!is_floating(t.dtype)) not_implemented(op, t.dtype);
}

// Probability as a threshold on 32-bit words: keep when word < threshold, or always when `all`.
struct Threshold {
  uint32_t value;
  int32_t all;
};
Threshold threshold(double p) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgument("a probability must lie between 0 and 1, got " + std::to_string(p));
  const double scaled = std::ldexp(p, 32);
  if (scaled >= 4294967295.5) return {0xffffffffu, 1};
  return {static_cast<uint32_t>(std::llround(scaled)), 0};
}

}  // namespace

void fill_random(Queue& queue, Distribution distribution, const TensorView& y, double p0, double p1, Philox state) {
  const int64_t n = y.numel();
  if (n == 0) return;
  Device& device = queue.device();
  if (distribution != Distribution::geometric)
    require_floating(y, "fill_random");
  else if (is_complex(y.dtype))
    not_implemented("geometric", y.dtype);
  require_dtype(device, y.dtype, "random fill");
  const bool wide = y.dtype == DType::float64;
  const int words = wide ? 2 : 4;
  const Row& row =
      *std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.distribution == distribution; });
  static KernelSite site("random/random.cl", "fill");
  Kernel& kernel = site.get(device, Variant().add(static_cast<uint64_t>(distribution), 4).add(y.dtype), [&] {
    Defines defines;
    dtype(defines, "X_DTYPE", y.dtype);
    dtype(defines, "C_DTYPE", wide ? DType::float64 : DType::float32);
    defines.add("FILL", 1).add("WORDS", words).add("SOURCE", row.source).add("TRANSFORM(z, p0, p1, p2)", row.transform);
    // Half types draw as many bits as they hold: 11 and 8.
    if (is_half(y.dtype)) defines.add("UNIFORM_BITS", y.dtype == DType::float16 ? 11 : 8);
    return defines;
  });
  const auto p = parameters(distribution, y.dtype, p0, p1);
  const Shape s = shape(device, n, words);
  if (wide)
    launch(queue, kernel, s.global, s.local, y.data, n, s.counters, state.seed, state.offset, p[0], p[1], p[2]);
  else
    launch(queue, kernel, s.global, s.local, y.data, n, s.counters, state.seed, state.offset, static_cast<float>(p[0]),
           static_cast<float>(p[1]), static_cast<float>(p[2]));
}

void fill_random_integers(Queue& queue, const TensorView& y, int64_t from, uint64_t range, Philox state) {
  const int64_t n = y.numel();
  if (n == 0) return;
  Device& device = queue.device();
  require_dtype(device, y.dtype, "random_");
  const int words = range != 0 && range <= (uint64_t{1} << 32) ? 4 : 2;
  static KernelSite site("random/random.cl", "integers");
  Kernel& kernel = site.get(device, Variant().add(words, 3).add(y.dtype), [&] {
    Defines defines;
    return dtype(defines, "X_DTYPE", y.dtype).add("INTEGERS", 1).add("WORDS", words);
  });
  const Shape s = shape(device, n, words);
  launch(queue, kernel, s.global, s.local, y.data, n, s.counters, state.seed, state.offset, from, range);
}

void fill_bernoulli(Queue& queue, const TensorView& y, double p, Philox state) {
  const int64_t n = y.numel();
  if (n == 0) return;
  Device& device = queue.device();
  require_dtype(device, y.dtype, "bernoulli");
  static KernelSite site("random/random.cl", "bernoulli");
  Kernel& kernel = site.get(device, Variant().add(y.dtype), [&] {
    Defines defines;
    return dtype(defines, "X_DTYPE", y.dtype).add("BERNOULLI", 1);
  });
  const Threshold t = threshold(p);
  const Shape s = shape(device, n, 4);
  launch(queue, kernel, s.global, s.local, y.data, n, s.counters, state.seed, state.offset, t.value, t.all);
}

void fill_bernoulli(Queue& queue, const TensorView& y, const TensorView& p, Philox state) {
  const int64_t n = y.numel();
  if (n == 0) return;
  if (p.numel() != n)
    throw InvalidArgument("bernoulli: probabilities " + p.shape_string() + " for a result of " + y.shape_string());
  require_floating(p, "bernoulli");
  Device& device = queue.device();
  require_dtype(device, y.dtype, "bernoulli");
  require_dtype(device, p.dtype, "bernoulli");
  static KernelSite site("random/random.cl", "bernoulli_tensor");
  Kernel& kernel = site.get(device, Variant().add(y.dtype).add(p.dtype), [&] {
    Defines defines;
    dtype(defines, "P_DTYPE", p.dtype);
    return dtype(defines, "X_DTYPE", y.dtype).add("BERNOULLI_TENSOR", 1);
  });
  const Shape s = shape(device, n, 4);
  launch(queue, kernel, s.global, s.local, p.data, y.data, n, s.counters, state.seed, state.offset);
}

static Kernel& dropout_kernel(KernelSite& site, Device& device, DType type) {
  require_dtype(device, type, "dropout");
  return site.get(device, Variant().add(type), [&] {
    Defines defines;
    dtype(defines, "X_DTYPE", type);
    return dtype(defines, "C_DTYPE", compute_type(type)).add("DROPOUT", 1);
  });
}

void dropout(Queue& queue, const TensorView& x, const TensorView& y, const TensorView& mask, double p, Philox state) {
  const int64_t n = x.numel();
  if (n == 0) return;
  require_floating(x, "dropout");
  if (y.dtype != x.dtype || mask.dtype != DType::boolean || y.numel() != n || mask.numel() != n)
    throw InvalidArgument("dropout: result or mask do not match the input " + x.shape_string());
  static KernelSite site("random/random.cl", "dropout");
  Kernel& kernel = dropout_kernel(site, queue.device(), x.dtype);
  const Threshold t = threshold(1 - p);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  const Shape s = shape(queue.device(), n, 4);
  if (x.dtype == DType::float64)
    launch(queue, kernel, s.global, s.local, x.data, y.data, mask.data, n, s.counters, state.seed, state.offset,
           t.value, t.all, scale);
  else
    launch(queue, kernel, s.global, s.local, x.data, y.data, mask.data, n, s.counters, state.seed, state.offset,
           t.value, t.all, static_cast<float>(scale));
}

void dropout_backward(Queue& queue, const TensorView& dy, const TensorView& mask, const TensorView& dx, double scale) {
  const int64_t n = dy.numel();
  if (n == 0) return;
  require_floating(dy, "dropout_backward");
  if (dx.dtype != dy.dtype || mask.dtype != DType::boolean || dx.numel() != n || mask.numel() != n)
    throw InvalidArgument("dropout_backward: gradient or mask do not match " + dy.shape_string());
  static KernelSite site("random/random.cl", "dropout_backward");
  Kernel& kernel = dropout_kernel(site, queue.device(), dy.dtype);
  const Shape s = shape(queue.device(), n, 4);
  if (dy.dtype == DType::float64)
    launch(queue, kernel, s.global, s.local, dy.data, mask.data, dx.data, n, s.counters, scale);
  else
    launch(queue, kernel, s.global, s.local, dy.data, mask.data, dx.data, n, s.counters, static_cast<float>(scale));
}

// The upper 64 bits of the product.
static uint64_t high_product(uint64_t a, uint64_t b) {
#if defined(_MSC_VER)
  return __umulh(a, b);
#else
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
#endif
}

void random_permutation(int64_t* out, int64_t n, Philox state) {
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(state.seed), static_cast<uint32_t>(state.seed >> 32)};
  for (int64_t i = 0; i + 1 < n; ++i) {
    const uint64_t counter = state.offset + static_cast<uint64_t>(i);
    const auto w = philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, key);
    const uint64_t word = (static_cast<uint64_t>(w[0]) << 32) | w[1];
    const auto j = static_cast<int64_t>(high_product(word, static_cast<uint64_t>(n - i)));
    std::swap(out[i], out[i + j]);
  }
}

}  // namespace ocl::ops
