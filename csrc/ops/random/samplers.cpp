#include "ops/random/random.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ocl::ops {

namespace {

constexpr const char* sampler_names[] = {"poisson", "binomial", "gamma"};

Range items(const Device& device, int64_t n) {
  const int64_t limit = int64_t{4096} * device.capabilities().compute_units;
  return Range(std::min(n, limit));
}

void sample(Queue& queue, int sampler, const TensorView& a, const TensorView& b, const TensorView& y, Philox state) {
  const int64_t n = y.numel();
  if (n == 0) return;
  const char* name = sampler_names[sampler];
  if (!is_floating(y.dtype) || a.dtype != y.dtype || b.dtype != y.dtype || a.numel() != n || b.numel() != n)
    throw InvalidArgument(std::string(name) + ": parameters and result must be of one floating type and shape");
  require_dtype(queue.device(), y.dtype, name);
  static KernelSite site("random/samplers.cl", "sample");
  Kernel& kernel = site.get(queue.device(), Variant().add(sampler, 2).add(y.dtype), [&] {
    Defines defines;
    return dtype(defines, "X_DTYPE", y.dtype).add("SAMPLER", name);
  });
  launch(queue, kernel, items(queue.device(), n), Range(), a.data, b.data, y.data, n, state.seed, state.offset);
}

}  // namespace

void fill_poisson(Queue& queue, const TensorView& rate, const TensorView& y, Philox state) {
  sample(queue, 0, rate, rate, y, state);
}
void fill_binomial(Queue& queue, const TensorView& count, const TensorView& probability, const TensorView& y,
                   Philox state) {
  sample(queue, 1, count, probability, y, state);
}
void fill_standard_gamma(Queue& queue, const TensorView& alpha, const TensorView& y, Philox state) {
  sample(queue, 2, alpha, alpha, y, state);
}

void multinomial_with_replacement(Queue& queue, const TensorView& weights, const TensorView& samples, Philox state) {
  const int64_t rows = weights.size(0), categories = weights.size(1), count = samples.size(1);
  if (rows == 0 || count == 0) return;
  if (categories == 0 || samples.size(0) != rows || samples.dtype != DType::int64 || !is_floating(weights.dtype))
    throw InvalidArgument("multinomial: weights " + weights.shape_string() + " and samples " + samples.shape_string() +
                          " do not match");
  Device& device = queue.device();
  require_dtype(device, weights.dtype, "multinomial");
  const auto defines = [&] {
    Defines d;
    return dtype(d, "X_DTYPE", weights.dtype);
  };
  static KernelSite cumulate_site("random/samplers.cl", "cumulate"), draw_site("random/samplers.cl", "draw");
  Workspace sums(queue, static_cast<size_t>(rows * categories) * 8);
  const uint64_t variant = Variant().add(weights.dtype);
  launch(queue, cumulate_site.get(device, variant, defines), items(device, rows), Range(), weights.data, sums.data(),
         rows, categories);
  launch(queue, draw_site.get(device, variant, defines), items(device, rows * count), Range(), sums.data(),
         samples.data, rows, categories, count, state.seed, state.offset);
}

}  // namespace ocl::ops
