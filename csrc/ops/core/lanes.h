// Host side of kernels_cl/common/lanes.clh: the defines and the compute type of kernels that work on floating types.
#pragma once

#include "ops/core/context.h"
#include "ops/core/type_error.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {

// Vector width for an element type: 16, or 8 for float64 (computes in double).
inline int lanes_of(DType type) { return type == DType::float64 ? 8 : 16; }
// Bytes of the compute type.
inline size_t acc_bytes(DType type) { return type == DType::float64 ? 8 : 4; }

// Defines with X_DTYPE and LANES.
inline Defines lane_defines(DType x) {
  Defines defines;
  dtype(defines, "X_DTYPE", x).add("LANES", lanes_of(x));
  return defines;
}

// Calls f with a zero of the host type that matches `acc` in the kernels: float or double.
template <class F>
void with_acc(DType type, F&& f) {
  if (type == DType::float64)
    f(double{});
  else
    f(float{});
}

// Errors: not_implemented(); Unsupported when the device lacks float64.
inline void require_floating(const Device& device, DType type, const char* op) {
  if (!is_floating(type)) not_implemented(op, type);
  require_dtype(device, type, op);
}

inline void require(bool condition, const char* message) {
  if (!condition) throw InvalidArgument(message);
}

// Work-items of an elementwise GPU kernel that loops: a multiple of `group`, at most 2^22.
inline Range gpu_range(int64_t elements, int64_t group = 256) {
  return Range(
      static_cast<size_t>(round_up(std::min<int64_t>(std::max<int64_t>(elements, 1), int64_t{1} << 22), group)));
}

// The group of a launch whose items are tasks, blocks of elements on CPU devices: one there, as a group stays on one
// thread; else the driver's choice.
inline Range task_group(const Device& device) { return device.cpu_style() ? Range(1) : Range(); }

}  // namespace ocl::ops
