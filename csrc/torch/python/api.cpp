#include "torch/python/api.h"

namespace ocl::python {

int64_t to_long(PyObject* object) {
  if (PyFloat_Check(object)) raise_type_error("an integer is expected, not a float");
  const Object index(PyNumber_Index(object));
  const int64_t value = PyLong_AsLongLong(index.get());
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

std::string to_string(PyObject* object) {
  if (!PyUnicode_Check(object)) raise_type_error("a str is expected");
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text) throw PythonError();
  return {text, static_cast<size_t>(size)};
}

bool Argument<bool>::of(PyObject* object) {
  const int value = PyObject_IsTrue(object);
  if (value < 0) throw PythonError();
  return value != 0;
}

double Argument<double>::of(PyObject* object) {
  const double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) throw PythonError();
  return value;
}

}  // namespace ocl::python
