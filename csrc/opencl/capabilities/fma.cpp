#include "opencl/capabilities/fma.h"

#include "opencl/capabilities/probes.h"
#include "opencl/capabilities/selftest.h"

namespace ocl {

// Elsewhere nobody has to be asked, which would cost a process at the first use.
bool may_lack_fma(const Device& device) { return device.capabilities().platform_name == "rusticl"; }

bool multiplies_and_adds(Device& device) {
  constexpr float a = 1.0f + 0x1p-12f;  // a * a takes 25 bits, one more than float32 has
  float x[1] = {a};
  return run_selftest(device, "selftest/fma.cl", "rest_of_the_square", Defines(), Range(1), x, sizeof x) &&
         x[0] == 0x1p-24f;
}

bool has_fma(const Device& device) {
  if (!device.capabilities().fma) return false;
  return !may_lack_fma(device) || device.probes().passed(Probe::fma);
}

}  // namespace ocl
