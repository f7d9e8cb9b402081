#include "ops/core/copy_bytes.h"

namespace ocl::ops {

static bool words(const void* address) { return reinterpret_cast<uintptr_t>(address) % sizeof(uint32_t) == 0; }

void copy_bytes(Queue& queue, void* y, const void* x, size_t bytes) {
  static KernelSite site("core/copy_bytes.cl", "copy_words");
  // Below this the driver's copy takes no longer than waking a second thread.
  constexpr size_t few = size_t{512} << 10;
  Device& device = queue.device();
  if (!device.cpu_style() || device.executor() || bytes < few || bytes % sizeof(uint32_t) || !words(x) || !words(y))
    return queue.copy(y, x, bytes);
  const auto count = static_cast<int64_t>(bytes / sizeof(uint32_t));
  const int64_t tasks = cpu_tasks(device, count), share = round_up(ceil_div(count, tasks), 16);
  launch(queue, site.get(device), Range(static_cast<size_t>(ceil_div(count, share))), Range(1), x, y, count, share);
}

}  // namespace ocl::ops
