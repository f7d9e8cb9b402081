// What this library throws on purpose. `catch (const ocl::Error&)` catches all of it; what else may come is the
// standard library's (std::bad_alloc) and mistakes inside this library (std::logic_error).
#pragma once

#include <stdexcept>

namespace ocl {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Shapes, element types, addresses or options that do not fit the call. Nothing was enqueued.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A device index that is not in [0, Device::count()).
class InvalidDevice : public Error {
 public:
  using Error::Error;
};

// The device lacks what the operator needs (float64, for example), or its driver cannot be used.
class Unsupported : public Error {
 public:
  using Error::Error;
};

// What a kernel found in its data (an index out of range, a singular matrix); thrown by a later call that waits.
class KernelError : public Error {
 public:
  using Error::Error;
};

}  // namespace ocl
