// What a device can do, asked of the driver or measured; never guessed from the vendor id (PoCL reports Intel's on
// every CPU).
#pragma once

#include <CL/cl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ocl {

// The two kernel styles of the library (docs/design/kernels.md).
enum class KernelStyle {
  cpu,  // one work-item per task, vectors of 16, register tiles, no barriers: CPU runtimes
  gpu,  // work-groups of many work-items sharing local memory: GPUs
};

struct Capabilities {
  std::string name, vendor, driver_version, device_version, platform_name, platform_version, c_version;
  std::vector<std::string> extensions;
  bool is_gpu = false, is_cpu = false;
  bool fp64 = false, fp16 = false, sub_groups = false;
  bool float_atomic_add =
      false;  // the driver names cl_ext_float_atomics, fp32 add in global memory (measured: float_atomics.h)
  bool correctly_rounded_divide_sqrt = false;
  bool denormals = false;
  bool fma = true;              // false only by simulation; the device's own answer is has_fma() (fma.h)
  bool unified_memory = false;  // host pointers and kernels see the same bytes without mapping (start-up self-test)
  uint64_t global_memory = 0, max_allocation = 0, local_memory = 0;
  uint32_t compute_units = 1, base_alignment = 128;  // alignment in bytes
  uint32_t vector_floats = 1;  // floats in a register, as the driver says; TORCH_OCL_VECTOR_FLOATS overrides it
  size_t max_work_group = 1;

  bool has_extension(const char* extension) const;
};

}  // namespace ocl
