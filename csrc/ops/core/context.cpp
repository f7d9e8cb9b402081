#include "ops/core/context.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {

void require_dtype(const Device& device, DType type, const char* op) {
  if ((type == DType::float64 || type == DType::complex128) && !device.capabilities().fp64)
    throw Unsupported(std::string(op) + ": the OpenCL device " + device.capabilities().name +
                      " has no double precision (needed for '" + info(type).aten +
                      "'); convert to float32, or run this part on the CPU");
}

int64_t cpu_tasks(const Device& device, int64_t elements, int64_t per_task) {
  // Enough for an even end; with more of them the processors' prefetching of long rows starts anew too often.
  constexpr int64_t most_per_unit = 32;
  const int64_t units = device.capabilities().compute_units;
  const int64_t tasks = std::max<int64_t>(1, ceil_div(elements, per_task));
  return tasks == 1 ? 1 : std::min(round_up(tasks, units), most_per_unit * units);
}

}  // namespace ocl::ops
