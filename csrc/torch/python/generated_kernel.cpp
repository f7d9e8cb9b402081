#include "torch/python/generated_kernel.h"

#include "torch/python/exports.h"
#include "torch/runtime/extension.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace ocl::python {

namespace {

namespace py = pybind11;
using extension::Argument;

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
      const py::gil_scoped_release no_gil;
      made.kernel = generated_kernel(device, program.c_str(), name.c_str(), source);
    }
    const Capabilities& facts = capabilities(device);
    made.units = std::max<int64_t>(facts.compute_units, 1);
    while (2 * made.group <= std::min<int64_t>(group_size, static_cast<int64_t>(facts.max_work_group))) made.group *= 2;
    if (devices.size() <= i) devices.resize(i + 1);  // other threads ran meanwhile
    return devices[i] = made;
  }
};

struct Object {
  PyObject_HEAD vectorcallfunc call;
  Generated generated;
};

// The values of one launch; numbers are kept where the arguments point.
class Values {
 public:
  Values(size_t count) { arguments_.reserve(count), numbers_.reserve(count); }
  void address(const void* data) { arguments_.push_back({Argument::address, data, 0}); }
  template <class T>
  void number(T value) {
    numbers_.push_back(0);
    std::memcpy(&numbers_.back(), &value, sizeof value);
    arguments_.push_back({Argument::value, &numbers_.back(), sizeof value});
  }
  const std::vector<Argument>& arguments() const { return arguments_; }

 private:
  std::vector<Argument> arguments_;
  std::vector<int64_t> numbers_;
};

int64_t to_long(PyObject* object) {
  const int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw python_error();
  return value;
}

const at::Tensor& to_tensor(PyObject* object) {
  if (!THPVariable_Check(object)) throw py::type_error("a generated kernel takes a tensor here");
  return THPVariable_Unpack(object);
}

void add(Values& values, char kind, PyObject* object) {
  switch (kind) {
    case 'q': return values.number(to_long(object));
    case 'd': {
      const double value = PyFloat_AsDouble(object);
      if (value == -1.0 && PyErr_Occurred()) throw python_error();
      return values.number(value);
    }
    case 'F': return values.number(to_tensor(object).item().to<float>());
    case 'D': return values.number(to_tensor(object).item().to<double>());
    case 'Q': return values.number(to_tensor(object).item().to<int64_t>());
    case 'I': return values.number(to_tensor(object).item().to<int32_t>());
    default: return values.address(to_tensor(object).data_ptr());
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
  if (count != inputs + 2) throw py::type_error("a generated kernel was called with another number of arguments");
  const int64_t rows = to_long(objects[inputs]), columns = to_long(objects[inputs + 1]);
  if (rows == 0) return;
  int device = -1;
  Values values(inputs + generated.codes.size() + 4);
  for (size_t i = 0; i < inputs; ++i) {
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
  const py::gil_scoped_release no_gil;
  torch_ocl_extension()->launch(place.kernel, global, local, values.arguments().data(), values.arguments().size());
}

PyObject* call(PyObject* self, PyObject* const* objects, size_t flags, PyObject* names) {
  HANDLE_TH_ERRORS
  if (names && PyTuple_GET_SIZE(names)) throw py::type_error("a generated kernel takes no keyword arguments");
  launch(reinterpret_cast<Object*>(self)->generated, objects, static_cast<size_t>(PyVectorcall_NARGS(flags)));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// GeneratedKernel(program, name, source, kinds, grid, alignment, errors)
PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
  HANDLE_TH_ERRORS
  const auto list = py::reinterpret_borrow<py::tuple>(arguments);
  if (list.size() != 7) throw py::type_error("GeneratedKernel takes seven arguments");
  Generated made{.program = list[0].cast<std::string>(),
                 .name = list[1].cast<std::string>(),
                 .source = list[2].cast<std::string>(),
                 .kinds = list[3].cast<std::string>(),
                 .grid = static_cast<Grid>(list[4].cast<int>()),
                 .alignment = std::max<int64_t>(list[5].cast<int64_t>(), 1),
                 .errors = list[6].cast<std::vector<std::string>>(),
                 .codes = {},
                 .devices = {}};
  for (const std::string& error : made.errors) made.codes.push_back(device_error_code(error));
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) throw python_error();
  auto* object = reinterpret_cast<Object*>(self);
  object->call = call;
  new (&object->generated) Generated(std::move(made));
  return self;
  END_HANDLE_TH_ERRORS
}

void release(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<Object*>(self)->generated.~Generated();
  type->tp_free(self);
  Py_DECREF(type);
}

// start(device): begins to compile; finish(device): waits until it is done. Errors: RuntimeError with the log.
PyObject* start(PyObject* self, PyObject* device) {
  HANDLE_TH_ERRORS
  reinterpret_cast<Object*>(self)->generated.on(static_cast<int>(to_long(device)));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}
PyObject* finish(PyObject* self, PyObject* device) {
  HANDLE_TH_ERRORS
  void* kernel = reinterpret_cast<Object*>(self)->generated.on(static_cast<int>(to_long(device))).kernel;
  const py::gil_scoped_release no_gil;
  finish_generated_kernel(kernel);
  END_HANDLE_TH_ERRORS
  Py_RETURN_NONE;
}

// empty_strided(size, stride, dtype, device): torch.empty_strided without what that costs to call.
PyObject* empty_strided(PyObject*, PyObject* const* objects, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 4 || !PyTuple_Check(objects[0]) || !PyTuple_Check(objects[1]) || !THPDtype_Check(objects[2]))
    throw py::type_error("empty_strided takes two tuples, a dtype and the index of a device");
  auto numbers = [](PyObject* tuple) {
    c10::SmallVector<int64_t, 8> result;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) result.push_back(to_long(PyTuple_GET_ITEM(tuple, i)));
    return result;
  };
  const auto size = numbers(objects[0]), stride = numbers(objects[1]);
  const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(to_long(objects[3])));
  const auto options = at::TensorOptions(device).dtype(reinterpret_cast<THPDtype*>(objects[2])->scalar_type);
  at::Tensor result;
  {
    const py::gil_scoped_release no_gil;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = at::empty_strided(size, stride, options);
  }
  return THPVariable_Wrap(std::move(result));
  END_HANDLE_TH_ERRORS
}
PyMethodDef functions[] = {{"empty_strided", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(empty_strided)),
                            METH_FASTCALL, "torch.empty_strided of ocl tensors: size, stride, dtype, device index."},
                           {nullptr, nullptr, 0, nullptr}};

PyMethodDef methods[] = {{"start", start, METH_O, "Begins to compile for a device."},
                         {"finish", finish, METH_O, "Waits until it is compiled for a device."},
                         {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Object, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(release)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"torch_ocl._C.GeneratedKernel", sizeof(Object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                    slots};

}  // namespace

void add_generated_kernel_type(pybind11::module_& module) {
  const auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type) throw py::error_already_set();
  module.add_object("GeneratedKernel", type);
  if (PyModule_AddFunctions(module.ptr(), functions) < 0) throw py::error_already_set();
}

}  // namespace ocl::python
