// What every operator includes: queue, launch, workspaces, tensor views, and the small vocabulary that kernels share.
#pragma once

#include "opencl/memory/caching_allocator.h"
#include "opencl/launch.h"
#include "ops/core/tensor_view.h"

namespace ocl::ops {

// Adds `#define NAME <suffix>` where suffix is the dtype's name in common/types.clh: dtype(d, "X_DTYPE",
// DType::float32).
inline Defines& dtype(Defines& defines, const char* name, DType type) { return defines.add(name, name_of(type)); }

// Packs small fields into a KernelSite variant: Variant().add(value, bits)...
class Variant {
 public:
  Variant& add(uint64_t value, int bits) {
    value_ = (value_ << bits) | (value & ((uint64_t{1} << bits) - 1));
    return *this;
  }
  Variant& add(DType type) { return add(static_cast<uint64_t>(type), 5); }
  operator uint64_t() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// Throws Unsupported naming operator, dtype and device when the device lacks the type (float64 or complex128
// without fp64).
void require_dtype(const Device& device, DType type, const char* op);

// Tasks for CPU kernels: at least `per_task` elements each; a multiple of the compute units when there is enough work,
// but not many times as many.
int64_t cpu_tasks(const Device& device, int64_t elements, int64_t per_task = 16384);

}  // namespace ocl::ops
