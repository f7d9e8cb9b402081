#include "ops/pool/fractional.h"

#include "ops/core/lanes.h"
#include "params/pool.h"

namespace ocl::ops {
namespace {

KernelSite site("pool/fractional.cl", "fractional_max_pool");

}  // namespace

void fractional_max_pool(Queue& queue, const FractionalPoolProblem& p, const void* x, const void* samples, void* y,
                         void* index) {
  Device& device = queue.device();
  require_floating(device, p.dtype, "fractional_max_pool");
  const int64_t elements = p.planes * p.output[0] * p.output[1] * p.output[2];
  if (elements == 0) return;
  params::FractionalPoolShape s{p.planes, {}, {}, {}, {}, p.axes, 0};
  for (int d = 0; d < 3; ++d)
    s.input[d] = p.input[d], s.output[d] = p.output[d], s.kernel_size[d] = p.kernel[d], s.sample[d] = p.sample[d];
  Kernel& kernel = site.get(device, Variant().add(p.dtype), [&] { return lane_defines(p.dtype); });
  const bool cpu = device.cpu_style();
  launch(queue, kernel, cpu ? Range(std::min(elements, cpu_tasks(device, elements, 1024))) : gpu_range(elements),
         Range(cpu ? 1 : 256), x, samples, y, index, s);
}

}  // namespace ocl::ops
