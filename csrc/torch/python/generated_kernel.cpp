#include "torch/python/generated_kernel.h"

#include "torch/python/exports.h"
#include "torch/python/generated_launch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace ocl::python {

namespace {

void launch(Generated& generated, PyObject* const* objects, size_t count) {
  const size_t inputs = generated.kinds.size();
  if (count != inputs + 2) raise_type_error("a generated kernel was called with another number of arguments");
  const int64_t rows = to_long(objects[inputs]), columns = to_long(objects[inputs + 1]);
  if (rows == 0) return;
  int device = -1;
  Values values(inputs + generated.codes.size() + own_values);
  for (size_t i = 0; i < inputs; ++i) {
    const char kind = generated.kinds[i];
    if (kind == 'q')
      values.number(to_long(objects[i]));
    else if (kind == 'd')
      values.number(Argument<double>::of(objects[i]));
    else {
      const at::Tensor& tensor = to_tensor(objects[i]);
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): an index, which PyTorch keeps in eight bits
      if (device < 0 && kind == 't') device = tensor.device().index();
      values.tensor(kind, tensor);
    }
  }
  const Generated::OnDevice place = generated.on(device < 0 ? current_device() : device);
  const ReleaseGil no_gil;
  launch_generated(generated, place, values, rows, columns);
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

Generated& generated_of(PyObject* function) {
  PyObject* capsule = PyCFunction_CheckExact(function) ? PyCFunction_GetSelf(function) : nullptr;
  if (!capsule || !PyCapsule_IsValid(capsule, capsule_name)) raise_type_error("a generated kernel is expected");
  return generated_in(capsule);
}

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
