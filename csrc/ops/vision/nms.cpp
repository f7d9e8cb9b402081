#include "ops/vision/nms.h"

#include <cmath>
#include <limits>

namespace ocl::ops {
namespace {

// The largest T such that for every x of type T: x > result exactly when x > threshold.
template <class T>
T lower_bound_of(double threshold) {
  const T rounded = static_cast<T>(threshold);
  return static_cast<double>(rounded) > threshold ? std::nextafter(rounded, -std::numeric_limits<T>::infinity())
                                                  : rounded;
}

}  // namespace

void nms(Queue& queue, DType type, int64_t count, void* kept, void* kept_count, const void* boxes, const void* order,
         double threshold) {
  static KernelSite gather("vision/nms.cl", "nms_gather"), overlaps("vision/nms.cl", "nms_overlaps"),
      sweep("vision/nms.cl", "nms_sweep");
  Device& device = queue.device();
  require_dtype(device, type, "nms");
  const int group = device.cpu_style() ? 1 : 64;
  const DType accumulate = accumulate_type(type);
  const auto defines = [&] {
    Defines d;
    dtype(d, "D", type);
    dtype(d, "A", accumulate);
    return d.add("W", device.cpu_style() ? 16 : 1).add("GROUP", group);
  };
  const Variant variant = Variant().add(type);
  const int64_t words = ceil_div(count, int64_t{64}), stride = 64 * words;
  const int64_t zero = 0;
  const Workspace sorted(queue, 4 * stride * size_of(accumulate)), mask(queue, count * words * 8),
      removed(queue, words * 8);
  if (count > 0) queue.fill(removed.data(), &zero, sizeof(zero), words * 8);
  launch(queue, gather.get(device, variant, defines), Range(round_up(count, int64_t{64})), Range(64), sorted.data(),
         boxes, order, count, stride);
  Kernel& compare = overlaps.get(device, variant, defines);
  const Range global(round_up(words, int64_t{group}), count), local(group, 1);
  if (accumulate == DType::float64)
    launch(queue, compare, global, local, mask.data(), sorted.data(), count, stride, lower_bound_of<double>(threshold));
  else
    launch(queue, compare, global, local, mask.data(), sorted.data(), count, stride, lower_bound_of<float>(threshold));
  launch(queue, sweep.get(device, variant, defines), Range(group), Range(group), kept, kept_count, removed.data(),
         mask.data(), order, count);
}

}  // namespace ocl::ops
