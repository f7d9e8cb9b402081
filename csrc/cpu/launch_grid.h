// Cuts a launch into pieces for the workers of the CPU executor. Each piece is enqueued as a launch of its own, whose
// global offset tells the kernel where in the whole launch it is.
#pragma once

#include "opencl/executor.h"

#include <CL/cl.h>

#include <array>
#include <cstddef>

namespace ocl {

class LaunchGrid {
 public:
  LaunchGrid(HostDriver driver, const std::array<size_t, 3>& groups, unsigned workers);

  // What is divided among the workers: the groups along one dimension, or along two where one has too few.
  size_t units() const { return units_; }
  const std::array<size_t, 3>& groups() const { return groups_; }
  // Whether the offset has room to say where a piece is; if not, there is only one piece.
  bool divisible() const { return units_ < most_units_; }

  struct Box {
    std::array<size_t, 3> begin, count;  // in groups
  };
  // Calls each(box), which returns an error code, for the boxes that units [begin, end) consist of, at most three, up
  // to the first error.
  template <class Each>
  cl_int each_box(size_t begin, size_t end, const Each& each) const {
    while (begin < end) {
      Box box{{0, 0, 0}, groups_};
      const size_t row = groups_[inner_], at = begin % row;
      size_t taken = end - begin;
      if (outer_ == inner_) {
        box.begin[inner_] = begin, box.count[inner_] = taken;
      } else {
        box.begin[outer_] = begin / row;
        if (at == 0 && taken >= row) {
          box.count[outer_] = taken / row;
          taken = taken / row * row;
        } else {
          taken = taken < row - at ? taken : row - at;
          box.begin[inner_] = at, box.count[inner_] = taken, box.count[outer_] = 1;
        }
      }
      if (const cl_int code = each(box); code != CL_SUCCESS) return code;
      begin += taken;
    }
    return CL_SUCCESS;
  }

  // The global offset of the launch of a box.
  std::array<size_t, 3> offset(const Box& box) const;

  // OpenCL C that gives get_group_id, get_num_groups, get_global_id, get_global_size and get_global_offset their values
  // of the whole launch.
  static const char* source(HostDriver driver);

 private:
  HostDriver driver_;
  std::array<size_t, 3> groups_;
  // Dimensions that are cut, the same where it is only one. Units of one group of the outer follow each other.
  unsigned outer_ = 0, inner_ = 0;
  size_t units_, most_units_;
};

}  // namespace ocl
