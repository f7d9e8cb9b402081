// How a kernel that torch_ocl.inductor wrote is launched: what generated_kernel.cpp (one kernel) and
// generated_graph.cpp (a whole graph) share.
#pragma once

#include "torch/python/torch_objects.h"
#include "torch/runtime/extension.h"

#include <c10/util/SmallVector.h>

#include <cstring>
#include <string>
#include <vector>

namespace ocl::python {

// How work-items divide the work: `rows` results, each from `columns` elements (1 when nothing is reduced).
enum class Grid : int {
  tasks,          // CPU style: blocks of rows, one work-item each
  items,          // GPU style: one work-item for each row
  group_per_row,  // GPU style: one group for each row
};

struct Generated {
  std::string program, name, source;
  // One letter each: t a tensor, q a Python int as long, d a Python float as double; of a CPU tensor with one element:
  // F float, D double, Q long, I int.
  std::string kinds;
  Grid grid;
  int64_t alignment;                // of a task's first row
  std::vector<std::string> errors;  // what the kernel may report; it then takes the error buffer and a code for each
  std::vector<int32_t> codes;
  struct OnDevice {
    int index = 0;
    void* kernel = nullptr;
    int64_t units = 1, group = 1;  // compute units; the largest group, a power of two
  };
  std::vector<OnDevice> devices;

  OnDevice on(int device);  // begins to compile; called with Python's lock
};

// Of the function that generated_kernel made. TypeError for anything else.
Generated& generated_of(PyObject* function);

// The arguments of one launch; numbers are kept where the arguments point.
class Values {
 public:
  explicit Values(size_t count) { arguments_.reserve(count), numbers_.reserve(count); }
  void address(const void* data) { arguments_.push_back({extension::Argument::address, data, 0}); }
  template <class T>
  void number(T value) {
    numbers_.push_back(0);
    std::memcpy(&numbers_.back(), &value, sizeof value);
    arguments_.push_back({extension::Argument::value, &numbers_.back(), sizeof value});
  }
  // A tensor as a kernel's parameter of this kind; errors as Tensor::item's and check_memory's.
  void tensor(char kind, const at::Tensor& tensor);
  const extension::Argument* data() const { return arguments_.data(); }
  size_t size() const { return arguments_.size(); }

 private:
  c10::SmallVector<extension::Argument, 24> arguments_;
  c10::SmallVector<int64_t, 24> numbers_;  // never grows: addresses of its elements are taken
};

// Room for what launch_generated adds behind the kernel's own arguments.
constexpr size_t own_values = 4;
// `values`: the kernel's own arguments, with room for own_values and the codes. Called without Python's lock.
void launch_generated(const Generated& generated, const Generated::OnDevice& place, Values& values, int64_t rows,
                      int64_t columns);

}  // namespace ocl::python
