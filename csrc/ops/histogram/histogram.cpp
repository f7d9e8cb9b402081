#include "ops/histogram/histogram.h"

#include "ops/core/lanes.h"
#include "ops/reduce/reduce.h"

#include <algorithm>

namespace ocl::ops {

namespace {

void count(Queue& queue, const TensorView& x, const TensorView& weights, bool by_value, double low, double high,
           const TensorView& counts) {
  static KernelSite site("histogram/histogram.cl", "histogram");
  Device& device = queue.device();
  const bool weighted = weights.data != nullptr;
  const DType type = weighted ? weights.dtype : DType::int32;
  for (DType needed : {x.dtype, type}) require_dtype(device, needed, "histogram");
  const int64_t n = x.numel(), bins = counts.numel(), units = device.capabilities().compute_units;
  if (bins == 0) return;

  // Private histograms for every task; at most 64 MiB of them.
  int64_t tasks = std::clamp<int64_t>(ceil_div(n, 16384), 1, 4 * units);
  if (!device.cpu_style()) tasks = weighted ? std::min<int64_t>(ceil_div(n, 1024), 1024) : ceil_div(n, 16);
  const bool shared = !device.cpu_style() && !weighted;
  const int64_t limit = std::max<int64_t>(1, (int64_t{1} << 24) / bins);
  const int64_t copies = std::max<int64_t>(
      1, shared ? std::min<int64_t>(limit, 32) : tasks = std::min(std::max<int64_t>(tasks, 1), limit));
  const int64_t chunk = std::max<int64_t>(1, ceil_div(n, std::max<int64_t>(tasks, 1)));
  Workspace partial(queue, copies * bins * size_of(type));
  const int32_t zero = 0;
  queue.fill(partial.data(), &zero, sizeof zero, copies * bins * size_of(type));

  const bool wide = x.dtype == DType::float64, whole = is_integral(x.dtype);
  Kernel& kernel = site.get(device, Variant().add(x.dtype).add(type).add(weighted, 1).add(by_value, 1), [&] {
    Defines defines;
    dtype(defines, "IN", x.dtype);
    dtype(defines, "COUNT", type);
    dtype(defines, "PARAM", whole ? DType::int64 : wide ? DType::float64 : DType::float32);
    return defines.add("WEIGHTED", weighted).add("BY_VALUE", by_value);
  });
  const size_t items = ceil_div(n, chunk);
  const auto run = [&](auto from, auto to) {
    launch(queue, kernel, Range(items), task_group(device), x.data, weights.data, partial.data(), n, bins, chunk,
           copies, from, to);
  };
  if (whole)
    run(static_cast<int64_t>(low), static_cast<int64_t>(high));
  else
    wide ? run(low, high) : run(static_cast<float>(low), static_cast<float>(high));
  reduce(queue, Reduction::sum, TensorView::contiguous(partial.data(), type, {copies, bins}), 1,
         TensorView::contiguous(counts.data, counts.dtype, {bins}));
}

}  // namespace

void histogram(Queue& queue, const TensorView& x, double low, double high, const TensorView& counts) {
  count(queue, x, {}, false, low, high, counts);
}

void bin_count(Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& counts) {
  count(queue, x, weights, true, 0, 0, counts);
}

}  // namespace ocl::ops
