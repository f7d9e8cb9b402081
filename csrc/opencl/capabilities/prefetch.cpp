#include "opencl/capabilities/prefetch.h"

#include "opencl/capabilities/probes.h"
#include "opencl/capabilities/selftest.h"

namespace ocl {

bool may_have_prefetch(const Device& device) { return device.cpu_style(); }

bool prefetches(Device& device) {
  float x[1] = {1};
  return run_selftest(device, "selftest/prefetch.cpu.cl", "prefetch_and_add", Defines(), Range(1), x, sizeof x) &&
         x[0] == 2;
}

bool has_prefetch(const Device& device) { return device.probes().passed(Probe::prefetch); }

Defines& add_prefetch_define(Defines& defines, const Device& device) {
  return defines.add("PREFETCH", has_prefetch(device));
}

}  // namespace ocl
