// What planners ask of a device, as numbers, so that tests plan for devices which they do not have.
#pragma once

#include "ops/core/dtype.h"

#include <cstddef>
#include <cstdint>

namespace ocl {
class Device;
}

namespace ocl::ops {

struct PlanTarget {
  PlanTarget() = default;  // a small CPU
  explicit PlanTarget(const Device& device);

  bool cpu_style = true, is_gpu = false;
  int64_t compute_units = 1;
  int64_t vector_floats = 8;                                            // in a register
  uint64_t local_memory = 1 << 20, max_allocation = uint64_t{1} << 30;  // bytes
  int64_t max_work_group = 4096;

  // Measured on the device at the first question (opencl/capabilities); false without a device.
  bool tensor_cores() const;
  bool few_registers() const;           // a work-item has about 100 of 32 bits: Intel's GPUs
  bool bfloat16_pairs() const;          // kernels multiply pairs of bfloat16
  bool prefers_bfloat16_pairs() const;  // and are quicker for it
  // nullptr, or the reason why an algorithm's program cannot be had (ops/core/build_failures.h).
  const char* unbuilt(const void* algorithm, DType dtype) const;

 private:
  const Device* device_ = nullptr;
};

}  // namespace ocl::ops
