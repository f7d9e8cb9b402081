#include "opencl/memory/host_memory.h"

#include "base/processors.h"
#include "opencl/device.h"

namespace ocl {

// 0: unknown, or not the host's memory.
static uint64_t available_to(const Device& device) {
  const Capabilities& c = device.capabilities();
  return c.unified_memory || c.is_cpu ? processors::memory().available : 0;
}

std::optional<uint64_t> host_available(const Device& device) {
  const uint64_t available = available_to(device), promised = available ? unwritten_bytes(device) : 0;
  if (available == 0) return std::nullopt;
  return available > promised ? available - promised : 0;
}

bool host_has(const Device& device, uint64_t bytes, uint64_t reserved) {
  const uint64_t available = available_to(device);
  if (available == 0 || bytes + reserved <= available) return true;
  return bytes <= available && bytes + unwritten_bytes(device) <= available;
}

}  // namespace ocl
