#include "torch/python/generated_kernel.h"

#include "torch/python/exports.h"
#include "torch/python/torch_objects.h"
#include "torch/runtime/extension.h"
#include "torch/runtime/memory_check.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace ocl::python {

namespace {

using Value = extension::Argument;

// How work-items divide the work: `rows` results, each from `columns` elements (1 when nothing is reduced).
enum class Grid : int {
  tasks,          // CPU style: blocks of rows, one work-item each
  items,          // GPU style: one work-item for each row
  group_per_row,  // GPU style: one group for each row
};

// Elements for which another task is worth its start, and those of a task where there are many.
constexpr int64_t least_elements = 4096, block_elements = 8192;
constexpr int64_t tasks_per_unit = 4, group_size = 256;

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
    void* kernel = nullptr;
    int64_t units = 1, group = 1;  // compute units; the largest group, a power of two
  };
  std::vector<OnDevice> devices;

  OnDevice on(int device) {
    const size_t i = static_cast<size_t>(device);
    if (i < devices.size() && devices[i].kernel) return devices[i];
    OnDevice made;
    {
      const ReleaseGil no_gil;
      made.kernel = generated_kernel(device, program.c_str(), name.c_str(), source);
    }
    const Capabilities& facts = capabilities(device);
    made.units = std::max<int64_t>(facts.compute_units, 1);
    while (2 * made.group <= std::min<int64_t>(group_size, static_cast<int64_t>(facts.max_work_group))) made.group *= 2;
    if (devices.size() <= i) devices.resize(i + 1);  // other threads ran meanwhile
    return devices[i] = made;
  }
};

// The values of one launch; numbers are kept where the arguments point.
class Values {
 public:
  Values(size_t count) { arguments_.reserve(count), numbers_.reserve(count); }
  void address(const void* data) { arguments_.push_back({Value::address, data, 0}); }
  template <class T>
  void number(T value) {
    numbers_.push_back(0);
    std::memcpy(&numbers_.back(), &value, sizeof value);
    arguments_.push_back({Value::value, &numbers_.back(), sizeof value});
  }
  const std::vector<Value>& arguments() const { return arguments_; }

 private:
  std::vector<Value> arguments_;
  std::vector<int64_t> numbers_;
};

void add(Values& values, char kind, PyObject* object) {
  switch (kind) {
    case 'q': return values.number(to_long(object));
    case 'd': return values.number(Argument<double>::of(object));
    case 'F': return values.number(to_tensor(object).item().to<float>());
    case 'D': return values.number(to_tensor(object).item().to<double>());
    case 'Q': return values.number(to_tensor(object).item().to<int64_t>());
    case 'I': return values.number(to_tensor(object).item().to<int32_t>());
    default: {
      const at::Tensor& tensor = to_tensor(object);
      runtime::check_memory(tensor);
      return values.address(tensor.data_ptr());
    }
  }
}

// Rows of a task: enough elements to be worth it, and enough tasks for all compute units.
int64_t block_of(int64_t rows, int64_t columns, int64_t alignment, int64_t units) {
  const int64_t elements = rows * std::max<int64_t>(columns, 1);
  const int64_t tasks = std::clamp<int64_t>(elements / least_elements, 1, tasks_per_unit * units);
  const int64_t most = std::max<int64_t>(block_elements / std::max<int64_t>(columns, 1), 1);
  const int64_t block = std::min(most, (rows + tasks - 1) / tasks);
  return elements <= 2 * least_elements ? rows : (block + alignment - 1) / alignment * alignment;
}

// Work-items that reduce a row together.
int64_t group_for(int64_t columns, int64_t largest) {
  int64_t size = 1;
  while (size < columns && size < largest) size *= 2;
  return size;
}

void launch(Generated& generated, PyObject* const* objects, size_t count) {
  const size_t inputs = generated.kinds.size();
  if (count != inputs + 2) raise_type_error("a generated kernel was called with another number of arguments");
  const int64_t rows = to_long(objects[inputs]), columns = to_long(objects[inputs + 1]);
  if (rows == 0) return;
  int device = -1;
  Values values(inputs + generated.codes.size() + 4);
  for (size_t i = 0; i < inputs; ++i) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): an index, which PyTorch keeps in eight bits
    if (device < 0 && generated.kinds[i] == 't') device = to_tensor(objects[i]).device().index();
    add(values, generated.kinds[i], objects[i]);
  }
  if (device < 0) device = current_device();
  const Generated::OnDevice place = generated.on(device);
  if (!generated.codes.empty()) values.address(device_error_buffer(device));
  for (const int32_t code : generated.codes) values.number(code);
  values.number(rows);
  values.number(columns);
  extension::Range global{1, {static_cast<size_t>(rows), 1, 1}}, local{0, {1, 1, 1}};
  if (generated.grid == Grid::tasks) {
    const int64_t block = block_of(rows, columns, generated.alignment, place.units);
    values.number(block);
    global.size[0] = static_cast<size_t>((rows + block - 1) / block);
    local.dimensions = 1;
  } else if (generated.grid == Grid::group_per_row) {
    local = {1, {static_cast<size_t>(group_for(columns, place.group)), 1, 1}};
    global.size[0] *= local.size[0];
  } else {  // left to themselves, drivers divide a prime number of rows into groups of one
    local = {1, {static_cast<size_t>(group_for(rows, place.group)), 1, 1}};
    global.size[0] = (global.size[0] + local.size[0] - 1) / local.size[0] * local.size[0];
  }
  const ReleaseGil no_gil;
  torch_ocl_extension()->launch(place.kernel, global, local, values.arguments().data(), values.arguments().size());
}

constexpr const char* capsule_name = "torch_ocl generated kernel";

Generated& generated_in(PyObject* capsule) {
  void* pointer = PyCapsule_GetPointer(capsule, capsule_name);
  if (!pointer) throw PythonError();
  return *static_cast<Generated*>(pointer);
}

PyObject* call(PyObject* capsule, PyObject* const* objects, Py_ssize_t count) noexcept {
  return guarded([&] {
    launch(generated_in(capsule), objects, static_cast<size_t>(count));
    return none().give();
  });
}

PyObject* start(PyObject* capsule, PyObject* device) noexcept {
  return guarded([&] {
    generated_in(capsule).on(Argument<int>::of(device));
    return none().give();
  });
}

PyObject* finish(PyObject* capsule, PyObject* device) noexcept {
  return guarded([&] {
    void* kernel = generated_in(capsule).on(Argument<int>::of(device)).kernel;
    {
      const ReleaseGil no_gil;
      finish_generated_kernel(kernel);
    }
    return none().give();
  });
}

PyMethodDef of_a_kernel[] = {
    method("generated_kernel", call),
    {"start", start, METH_O, nullptr},
    {"finish", finish, METH_O, nullptr},
};

void delete_generated(PyObject* capsule) {
  delete static_cast<Generated*>(PyCapsule_GetPointer(capsule, capsule_name));
}

c10::SmallVector<int64_t, 8> numbers(PyObject* tuple) {
  if (!PyTuple_Check(tuple)) raise_type_error("a tuple is expected");
  c10::SmallVector<int64_t, 8> result;
  const Py_ssize_t count = PyTuple_Size(tuple);
  for (Py_ssize_t i = 0; i < count; ++i) result.push_back(to_long(PyTuple_GetItem(tuple, i)));
  return result;
}

}  // namespace

PyObject* generated_kernel_function(PyObject*, PyObject* const* objects, Py_ssize_t count) noexcept {
  return guarded([&] {
    if (count != 7) raise_type_error("generated_kernel takes seven arguments");
    auto made = std::make_unique<Generated>(Generated{.program = to_string(objects[0]),
                                                      .name = to_string(objects[1]),
                                                      .source = to_string(objects[2]),
                                                      .kinds = to_string(objects[3]),
                                                      .grid = static_cast<Grid>(to_long(objects[4])),
                                                      .alignment = std::max<int64_t>(to_long(objects[5]), 1),
                                                      .errors = Argument<std::vector<std::string>>::of(objects[6]),
                                                      .codes = {},
                                                      .devices = {}});
    for (const std::string& error : made->errors) made->codes.push_back(device_error_code(error));
    const Object capsule(PyCapsule_New(made.get(), capsule_name, delete_generated));
    static_cast<void>(made.release());  // NOLINT(bugprone-unused-return-value): the capsule's now
    Object functions(PyTuple_New(3));
    for (Py_ssize_t i = 0; i < 3; ++i)
      PyTuple_SetItem(functions.get(), i, Object(PyCFunction_NewEx(&of_a_kernel[i], capsule.get(), nullptr)).give());
    return functions.give();
  });
}

PyObject* empty_strided(PyObject*, PyObject* const* objects, Py_ssize_t count) noexcept {
  return guarded([&] {
    if (count != 4) raise_type_error("empty_strided takes two tuples, a dtype and the index of a device");
    const auto size = numbers(objects[0]), stride = numbers(objects[1]);
    const c10::Device device(c10::DeviceType::PrivateUse1, Argument<c10::DeviceIndex>::of(objects[3]));
    const auto options = at::TensorOptions(device).dtype(to_scalar_type(objects[2]));
    at::Tensor result;
    {
      const ReleaseGil no_gil;
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      result = at::empty_strided(size, stride, options);
    }
    return to_python(result).give();
  });
}

}  // namespace ocl::python
