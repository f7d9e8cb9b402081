#include "ops/search/search.h"

#include "ops/core/lanes.h"
#include "params/search.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {

namespace {

using params::SearchShape;

Kernel& kernel(KernelSite& site, Device& device, DType in, DType out) {
  return site.get(device, Variant().add(in).add(out), [&] {
    Defines defines;
    dtype(defines, "IN", in);
    dtype(defines, "OUT", out);
    return defines;
  });
}

void check(const Device& device, const TensorView& a, const TensorView& b) {
  require_dtype(device, a.dtype, "searchsorted");
  if (a.dtype != b.dtype || is_complex(a.dtype))
    throw InvalidArgument("searchsorted needs two tensors of one real type");
}

int64_t per_item(const Device& device, int64_t total) {
  return device.cpu_style() ? ceil_div(total, cpu_tasks(device, total, 1024)) : 1;
}

}  // namespace

void search_sorted(Queue& queue, const TensorView& boundaries, const TensorView& values, const TensorView& sorter,
                   bool right, const TensorView& result) {
  static KernelSite site("search/search.cl", "search_sorted");
  Device& device = queue.device();
  check(device, boundaries, values);
  const int64_t total = values.numel();
  if (total == 0) return;
  const int64_t n = values.dims ? std::max<int64_t>(values.size(-1), 1) : 1;
  const SearchShape shape{total, n, boundaries.size(-1),    boundaries.dims == 1, sorter.data != nullptr,
                          right, 0, per_item(device, total)};
  launch(queue, kernel(site, device, values.dtype, result.dtype), Range(ceil_div(total, shape.per_item)),
         task_group(device), boundaries.data, values.data, sorter.data, result.data, shape);
}

void is_in_sorted(Queue& queue, const TensorView& elements, const TensorView& sorted, bool invert,
                  const TensorView& result) {
  static KernelSite site("search/search.cl", "is_in_sorted");
  Device& device = queue.device();
  check(device, elements, sorted);
  const int64_t total = elements.numel();
  if (total == 0) return;
  const SearchShape shape{total, total, sorted.numel(), 1, 0, 0, invert, per_item(device, total)};
  launch(queue, kernel(site, device, elements.dtype, result.dtype), Range(ceil_div(total, shape.per_item)),
         task_group(device), sorted.data, elements.data, result.data, shape);
}

}  // namespace ocl::ops
