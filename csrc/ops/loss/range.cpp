#include "ops/loss/range.h"

#include "ops/core/lanes.h"

namespace ocl::ops {
namespace {

KernelSite site("loss/range.cl", "check_unit_range");

}  // namespace

void check_unit_range(Queue& queue, DType dtype, const void* x, int64_t n, const ErrorSite& error) {
  if (n == 0) return;
  Device& device = queue.device();
  require_floating(device, dtype, "check_unit_range");
  const bool cpu = device.cpu_style();
  launch(queue, site.get(device, Variant().add(dtype), [&] { return lane_defines(dtype); }),
         cpu ? Range(cpu_tasks(device, n, 4096)) : gpu_range(n), cpu ? Range(1) : Range(256), x, n,
         device_errors(device).data(), error.code());
}

}  // namespace ocl::ops
