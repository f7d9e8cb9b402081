// Errors that kernels find while they run, such as an index out of range. A kernel never reads or writes outside its
// tensors: it skips the element and leaves the first error in a small buffer of the device, which the host looks at
// when it synchronises.
#pragma once

#include "opencl/queue.h"

#include <atomic>
#include <cstdint>

namespace ocl::ops {

// Names what a kernel reports; one static object per operator. The code travels to the kernel. For Kind::message the
// name is the whole text.
class ErrorSite {
 public:
  enum class Kind { index_out_of_range, source_too_small, message };
  explicit ErrorSite(const char* op, Kind kind = Kind::index_out_of_range);
  int32_t code() const { return code_; }

 private:
  int32_t code_;
};

// The buffer of one device: {int code, int unused, long value, long bound}, all zero when nothing happened.
class ErrorFlag {
 public:
  explicit ErrorFlag(Device& device);
  // Argument `global int* error` of a kernel; marks the buffer as to be looked at.
  int32_t* data();
  // Throws when a kernel reported something, and clears it. The queue must have finished.
  void check(Queue& queue);

 private:
  int32_t* data_;
  bool host_visible_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> in_graphs_{false};  // kernels of graphs have it, which do not ask before every replay
};

ErrorFlag& device_errors(Device& device);

// To be called after the queue was synchronised (synchronize, item(), copies to the host). Costs nothing while no
// kernel that can report ran. Errors: KernelError, "index out of range in index_select: index 7 is out of bounds
// for dimension with size 5".
void check_device_errors(Queue& queue);

}  // namespace ocl::ops
