#include "opencl/capabilities/tensor_cores.h"

#include "base/environment.h"
#include "opencl/capabilities/probes.h"
#include "opencl/capabilities/selftest.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace ocl {
namespace {

constexpr int edge = 64, units = 16;

// Mirrors kernels_cl/selftest/tensor_cores.gpu.cl: [16][64] units of a, the same of b, then 64 x 64 sums.
struct Data {
  uint32_t a[units][edge], b[units][edge];
  float sum[edge][edge];
};

// Whole numbers that every one of the types holds exactly, so that all sums are exact too.
int number(int panel, int k, int odd) { return (panel * odd + k * 5) % 17 - 8; }

uint16_t bits_of(float value, bool brain) {
  if (brain) return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  if (value == 0) return 0;
  // float16: the exponent's bias is 15 instead of 127
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112 << 10)));
}

bool multiplies_right(Device& device, const char* dtype, int per_unit, bool exact, int layout,
                      bool warpgroups = false) {
  auto data = std::make_unique<Data>();
  const bool brain = dtype[0] == 'b';
  const auto fill = [&](uint32_t(&operand)[units][edge], int odd) {
    for (int k = 0; k < units; ++k)
      for (int x = 0; x < edge; ++x) {
        operand[k][x] = 0;
        for (int h = 0; h < per_unit; ++h) {
          const auto value = static_cast<float>(number(x, k * per_unit + h, odd));
          operand[k][x] |=
              per_unit == 1 ? std::bit_cast<uint32_t>(value) : static_cast<uint32_t>(bits_of(value, brain)) << (16 * h);
        }
      }
  };
  fill(data->a, 3);
  fill(data->b, 7);
  Defines defines;
  defines.add("DTYPE", dtype).add("EXACT", exact).add("LAYOUT", layout);
  add_tensor_core_defines(defines, warpgroups);
  if (!run_selftest(device, "selftest/tensor_cores.gpu.cl", "multiply_tile", defines, Range(256), data.get(),
                    sizeof *data, Range(256)))
    return false;
  for (int m = 0; m < edge; ++m)
    for (int n = 0; n < edge; ++n) {
      int expected = 0;
      for (int k = 0; k < units * per_unit; ++k) expected += number(m, k, 3) * number(n, k, 7);
      if (!(data->sum[m][n] == static_cast<float>(expected))) return false;
    }
  return true;
}

constexpr int along_k = 1, along_x = 2;  // layouts of kernels_cl/common/tensor_cores.clh

// cl_nv_device_attribute_query: 9.0, the only one with these instructions.
bool is_hopper(const Device& device) {
  constexpr cl_device_info major = 0x4000, minor = 0x4001;
  cl_uint version[2] = {0, 0};
  return clGetDeviceInfo(device.id(), major, sizeof(cl_uint), &version[0], nullptr) == CL_SUCCESS &&
         clGetDeviceInfo(device.id(), minor, sizeof(cl_uint), &version[1], nullptr) == CL_SUCCESS && version[0] == 9 &&
         version[1] == 0;
}

std::string setting() {
  static const std::string text = environment::word("TORCH_OCL_TENSOR_CORES", "1");
  return text;
}

}  // namespace

bool multiplies_on_tensor_cores(Device& device) {
  for (int layout = 0; layout < 3; ++layout)
    if (!multiplies_right(device, "float32", 1, true, layout) ||
        !multiplies_right(device, "bfloat16", 2, false, layout))
      return false;
  return multiplies_right(device, "float16", 2, false, 1);
}

bool multiplies_by_warpgroups(Device& device) {
  for (const char* half : {"bfloat16", "float16"})
    for (const int layout : {along_k, along_x})
      if (!multiplies_right(device, half, 2, false, layout, true)) return false;
  return multiplies_right(device, "float32", 1, false, along_k, true);
}

bool tensor_cores_emulated() { return setting().starts_with("emulate"); }

bool may_have_tensor_cores(const Device& device) {
  const Capabilities& c = device.capabilities();
  if (setting() == "0" || device.cpu_style() || c.max_work_group < 256 || c.local_memory < (48 << 10)) return false;
  const bool nvidia = c.is_gpu && std::any_of(c.extensions.begin(), c.extensions.end(),
                                              [](const std::string& name) { return name.starts_with("cl_nv_"); });
  return nvidia || tensor_cores_emulated();
}

bool may_have_warpgroups(const Device& device) {
  if (!may_have_tensor_cores(device) || setting() == "mma") return false;
  return tensor_cores_emulated() ? setting() == "emulate_warpgroups" : is_hopper(device);
}

bool has_tensor_cores(const Device& device) { return device.probes().passed(Probe::tensor_cores); }

bool has_warpgroups(const Device& device) {
  return has_tensor_cores(device) && device.probes().passed(Probe::warpgroups);
}

Defines& add_tensor_core_defines(Defines& defines, bool warpgroups) {
  if (warpgroups && !tensor_cores_emulated()) defines.add("PTX_TARGET", "sm_90a");
  return defines.add("TENSOR_CORES_EMULATED", tensor_cores_emulated()).add("WARPGROUPS", warpgroups);
}

}  // namespace ocl
