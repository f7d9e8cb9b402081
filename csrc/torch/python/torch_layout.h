// What torch_objects.cpp uses of PyTorch's Python library, declared here because PyTorch's own headers bring pybind11
// along, which needs more of Python than its stable ABI. torch_layout.cpp compares both.
#pragma once

#include "torch/python/api.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <exception>

extern PyObject *THPVariableClass, *ParameterClass;
extern PyTypeObject THPDtypeType;

PyObject* THPVariable_Wrap(const at::TensorBase& tensor);
PyObject* THPGenerator_Wrap(const at::Generator& generator);
namespace torch {
void translate_exception_to_python(const std::exception_ptr& error);
namespace utils {
void register_fork_handler_for_device_init(at::DeviceType type);
}
}  // namespace torch

namespace ocl::python {

// The beginnings of PyTorch's structs.
struct TensorObject {
  PyObject_HEAD at::Tensor tensor;
};
struct DtypeObject {
  PyObject_HEAD at::ScalarType type;
};

}  // namespace ocl::python
