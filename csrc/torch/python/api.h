// Functions of C++ as functions of Python, by Python's stable ABI alone: one binary serves CPython 3.10 and all that
// follow. What needs PyTorch's own Python objects is in torch_objects.h.
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ocl::python {

// Python's error is set already.
struct PythonError {};

// Sets Python's error from the exception that is being handled: PyTorch's types for its own, ValueError for
// InvalidArgument, IndexError for InvalidDevice, MemoryError, else RuntimeError. (torch_objects.cpp)
void set_python_error() noexcept;

[[noreturn]] inline void raise_type_error(const char* message) {
  PyErr_SetString(PyExc_TypeError, message);
  throw PythonError();
}

// A reference that is released at the end of the scope.
class Object {
 public:
  Object() = default;
  // Takes over what a function of Python returned; throws PythonError for null.
  explicit Object(PyObject* reference) : reference_(reference) {
    if (!reference) throw PythonError();
  }
  Object(Object&& other) noexcept : reference_(std::exchange(other.reference_, nullptr)) {}
  Object& operator=(Object&& other) noexcept { return std::swap(reference_, other.reference_), *this; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { Py_XDECREF(reference_); }
  PyObject* get() const { return reference_; }
  PyObject* give() { return std::exchange(reference_, nullptr); }

 private:
  PyObject* reference_ = nullptr;
};

inline Object none() {
  Py_INCREF(Py_None);
  return Object(Py_None);
}

class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ~ReleaseGil() { PyEval_RestoreThread(state_); }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* state_;
};

// ---- values of C++ to Python

inline Object to_python(Object value) { return value; }
inline Object to_python(bool value) { return Object(PyBool_FromLong(value)); }
inline Object to_python(double value) { return Object(PyFloat_FromDouble(value)); }
inline Object to_python(float value) { return Object(PyFloat_FromDouble(static_cast<double>(value))); }
// Texts of drivers are not always UTF-8.
inline Object to_python(const std::string& text) {
  return Object(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}
inline Object to_python(const char* text) { return to_python(std::string(text)); }
template <std::signed_integral T>
Object to_python(T value) {
  return Object(PyLong_FromLongLong(value));
}
template <std::unsigned_integral T>
Object to_python(T value) {
  return Object(PyLong_FromUnsignedLongLong(value));
}
template <class T, size_t n>
Object to_python(const std::array<T, n>& values);
template <class T>
Object to_python(const std::vector<T>& values);
template <class A, class B>
Object to_python(const std::pair<A, B>& value);

template <class T>
Object list_of(T&& values) {
  Object list(PyList_New(static_cast<Py_ssize_t>(values.size())));
  Py_ssize_t i = 0;
  for (auto& value : values) PyList_SetItem(list.get(), i++, to_python(std::move(value)).give());
  return list;
}
template <class T, size_t n>
Object to_python(const std::array<T, n>& values) {
  return list_of(values);
}
template <class T>
Object to_python(const std::vector<T>& values) {
  return list_of(values);
}
template <class A, class B>
Object to_python(const std::pair<A, B>& value) {
  Object tuple(PyTuple_New(2));
  PyTuple_SetItem(tuple.get(), 0, to_python(value.first).give());
  PyTuple_SetItem(tuple.get(), 1, to_python(value.second).give());
  return tuple;
}

// A dict that is filled row by row.
class Dict {
 public:
  Dict() : dict_(PyDict_New()) {}
  template <class T>
  void set(const std::string& name, T&& value) {
    const Object object = to_python(std::forward<T>(value));
    if (PyDict_SetItemString(dict_.get(), name.c_str(), object.get()) < 0) throw PythonError();
  }
  Object take() { return std::move(dict_); }

 private:
  Object dict_;
};

template <class T>
Object to_python(const std::map<std::string, T>& values) {
  Dict dict;
  for (const auto& [name, value] : values) dict.set(name, value);
  return dict.take();
}

// ---- values of Python to C++; throw PythonError with TypeError or OverflowError set

int64_t to_long(PyObject* object);
std::string to_string(PyObject* object);

template <class T>
struct Argument;
template <std::integral T>
struct Argument<T> {
  static T of(PyObject* object) {
    const int64_t value = to_long(object);
    if constexpr (sizeof(T) < sizeof(int64_t))
      if (!std::in_range<T>(value)) {
        PyErr_SetString(PyExc_OverflowError, "the number is out of range");
        throw PythonError();
      }
    return static_cast<T>(value);
  }
};
template <>
struct Argument<bool> {
  static bool of(PyObject* object);
};
template <>
struct Argument<double> {
  static double of(PyObject* object);
};
template <>
struct Argument<std::string> {
  static std::string of(PyObject* object) { return to_string(object); }
};
template <>
struct Argument<PyObject*> {
  static PyObject* of(PyObject* object) { return object; }
};

// Any sequence: `use` is called with each element.
template <class F>
void for_each(PyObject* sequence, F use) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) throw PythonError();
  for (Py_ssize_t i = 0; i < count; ++i) use(Object(PySequence_GetItem(sequence, i)).get());
}
template <class T>
struct Argument<std::vector<T>> {
  static std::vector<T> of(PyObject* object) {
    std::vector<T> result;
    for_each(object, [&](PyObject* element) { result.push_back(Argument<T>::of(element)); });
    return result;
  }
};

// ---- functions

// Calls `body`, which returns a reference, as Python calls a function of C.
template <class F>
PyObject* guarded(F body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <class R, class... A>
inline constexpr bool is_pure = !(std::is_same_v<std::decay_t<A>, PyObject*> || ...) && !std::is_same_v<R, Object>;

template <auto f, class R, class... A, size_t... i>
PyObject* call_with(PyObject* const* objects, std::index_sequence<i...>) {
  std::tuple<std::decay_t<A>...> values{Argument<std::decay_t<A>>::of(objects[i])...};
  // Functions that touch no object of Python let other threads run.
  auto run = [&]() -> decltype(auto) {
    if constexpr (is_pure<R, A...>) {
      const ReleaseGil no_gil;
      return std::apply(f, values);
    } else {
      return std::apply(f, values);
    }
  };
  if constexpr (std::is_void_v<R>) {
    run();
    return none().give();
  } else {
    return to_python(run()).give();
  }
}

template <auto f>
struct Function;
template <class R, class... A, R (*f)(A...)>
struct Function<f> {
  static PyObject* call(PyObject*, PyObject* const* objects, Py_ssize_t count) noexcept {
    return guarded([&] {
      if (count != static_cast<Py_ssize_t>(sizeof...(A)))
        raise_type_error("a function was called with another number of arguments");
      return call_with<f, R, A...>(objects, std::index_sequence_for<A...>());
    });
  }
};

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
inline PyMethodDef method(const char* name, FastCall function) {
  // NOLINTNEXTLINE(bugprone-casting-through-void): METH_FASTCALL tells Python which type it has.
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL, nullptr};
}
template <auto f>
PyMethodDef method(const char* name) {
  return method(name, Function<f>::call);
}

}  // namespace ocl::python
