// Compiled, but part of no library: PyTorch's headers say what torch_layout.h declares, or this does not compile.
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/device_lazy_init.h>

#define Py_LIMITED_API 0x030A0000  // api.h must not choose: Python.h is here already, whole
#include "torch/python/torch_layout.h"

#include <cstddef>

using ocl::python::DtypeObject;
using ocl::python::TensorObject;

static_assert(offsetof(TensorObject, tensor) == offsetof(THPVariable, cdata));
static_assert(std::is_same_v<decltype(TensorObject::tensor), decltype(THPVariable::cdata)>);
static_assert(offsetof(DtypeObject, type) == offsetof(THPDtype, scalar_type));
static_assert(std::is_same_v<decltype(DtypeObject::type), decltype(THPDtype::scalar_type)>);
