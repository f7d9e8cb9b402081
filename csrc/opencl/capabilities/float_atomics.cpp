#include "opencl/capabilities/float_atomics.h"

#include "base/warning.h"
#include "opencl/capabilities/probes.h"
#include "opencl/capabilities/selftest.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace ocl {

// Mirrors kernels_cl/selftest/atomic.cl: every work-item adds 1 to x[0], its number to x[1], and NaN to x[2].
bool adds_right(Device& device, FloatAtomics way) {
  constexpr int items = 1024, numbers = items * (items - 1) / 2;  // sums stay below 2^24: exact in any order
  float x[3] = {0.5f, 0, 1};
  const Defines defines = Defines().add("FLOAT_ATOMICS", static_cast<int64_t>(way));
  return run_selftest(device, "selftest/atomic.cl", "add_to_three", defines, Range(items), x, sizeof x) &&
         x[0] == items + 0.5f && x[1] == numbers && std::isnan(x[2]);
}

bool may_have_float_atomics(const Device& device) { return device.capabilities().float_atomic_add; }

bool may_have_ptx_atomics(const Device& device) {
  const Capabilities& c = device.capabilities();
  return c.is_gpu && std::any_of(c.extensions.begin(), c.extensions.end(),
                                 [](const std::string& name) { return name.starts_with("cl_nv_"); });
}

FloatAtomics float_atomics(const Device& device) {
  if (device.probes().passed(Probe::float_atomics)) return FloatAtomics::extension;
  static std::atomic<bool> warned{false};
  const Capabilities& c = device.capabilities();
  if (c.float_atomic_add && !warned.exchange(true))
    warn("the driver of " + c.name + " (" + c.platform_name +
         ") promises atomic additions of cl_ext_float_atomics, which do not give the right sums: kernels do without");
  return device.probes().passed(Probe::ptx_atomics) ? FloatAtomics::ptx : FloatAtomics::compare_and_swap;
}

const char* name_of(FloatAtomics way) {
  switch (way) {
    case FloatAtomics::extension: return "cl_ext_float_atomics";
    case FloatAtomics::ptx: return "ptx";
    case FloatAtomics::compare_and_swap: break;
  }
  return "compare and swap";
}

Defines& add_atomic_defines(Defines& defines, const Device& device, bool atomic) {
  defines.add("ATOMIC", atomic);
  if (atomic) defines.add("FLOAT_ATOMICS", static_cast<int64_t>(float_atomics(device)));
  return defines;
}

}  // namespace ocl
