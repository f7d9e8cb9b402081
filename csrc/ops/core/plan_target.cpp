#include "ops/core/plan_target.h"

#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/tensor_cores.h"
#include "opencl/device.h"
#include "ops/core/build_failures.h"

namespace ocl::ops {

PlanTarget::PlanTarget(const Device& device)
    : cpu_style(device.cpu_style()),
      is_gpu(device.capabilities().is_gpu),
      compute_units(device.capabilities().compute_units),
      vector_floats(device.capabilities().vector_floats),
      local_memory(device.capabilities().local_memory),
      max_allocation(device.capabilities().max_allocation),
      max_work_group(static_cast<int64_t>(device.capabilities().max_work_group)),
      device_(&device) {}

bool PlanTarget::tensor_cores() const { return device_ && has_tensor_cores(*device_); }
// The 128 registers of 32 bytes belong to a hardware thread, which runs 8 work-items or more.
bool PlanTarget::few_registers() const {
  return is_gpu && device_ && device_->capabilities().has_extension("cl_intel_required_subgroup_size");
}
bool PlanTarget::bfloat16_pairs() const { return device_ && has_bfloat16_pairs(*device_); }
bool PlanTarget::prefers_bfloat16_pairs() const { return device_ && ocl::prefers_bfloat16_pairs(*device_); }
const char* PlanTarget::unbuilt(const void* algorithm, DType dtype) const {
  return device_ ? build_failures::reason(algorithm, dtype, *device_) : nullptr;
}

}  // namespace ocl::ops
