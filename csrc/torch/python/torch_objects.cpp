#include "torch/python/torch_objects.h"

#include "base/error.h"
#include "torch/python/torch_layout.h"

#include <exception>
#include <new>

namespace ocl::python {

void set_python_error() noexcept {
  try {
    throw;
  } catch (const PythonError&) {
    return;  // Python has its error
  } catch (const InvalidArgument& wrong) {
    PyErr_SetString(PyExc_ValueError, wrong.what());
  } catch (const InvalidDevice& wrong) {
    PyErr_SetString(PyExc_IndexError, wrong.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
}

const at::Tensor& to_tensor(PyObject* object) {
  const PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type != THPVariableClass && type != ParameterClass) {
    const int is_tensor = PyObject_IsInstance(object, THPVariableClass);
    if (is_tensor < 0) throw PythonError();
    if (is_tensor == 0) raise_type_error("a tensor is expected");
  }
  return reinterpret_cast<TensorObject*>(object)->tensor;
}

c10::ScalarType to_scalar_type(PyObject* object) {
  if (Py_TYPE(object) != &THPDtypeType) raise_type_error("a torch.dtype is expected");
  return reinterpret_cast<DtypeObject*>(object)->type;
}

Object to_python(const at::TensorBase& tensor) { return Object(THPVariable_Wrap(tensor)); }
Object to_python(const at::Generator& generator) { return Object(THPGenerator_Wrap(generator)); }

void register_fork_handler() { torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1); }

}  // namespace ocl::python
