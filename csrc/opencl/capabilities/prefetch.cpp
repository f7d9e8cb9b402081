#include "opencl/capabilities/prefetch.h"

#include "opencl/capabilities/selftest.h"

namespace ocl {

bool has_prefetch(const Device& device) {
  static auto& answers = *new MeasuredOnce<bool>;
  return answers.get(device, [](Device& measured) {
    if (!measured.cpu_style()) return false;
    float x[1] = {1};
    return run_selftest(measured, "selftest/prefetch.cpu.cl", "prefetch_and_add", Defines(), Range(1), x, sizeof x) &&
           x[0] == 2;
  });
}

Defines& add_prefetch_define(Defines& defines, const Device& device) {
  return defines.add("PREFETCH", has_prefetch(device));
}

}  // namespace ocl
