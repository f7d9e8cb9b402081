// Errors of the OpenCL API: the failed call and the code's name. `check` throws, `report` (for destructors) does not.
#pragma once

#include "base/error.h"

#include <CL/cl.h>

#include <string>

namespace ocl {

// A call of the OpenCL API that failed.
class DriverError : public Error {
 public:
  DriverError(cl_int code, const std::string& what) : Error(what), code_(code) {}
  cl_int code() const { return code_; }

 private:
  cl_int code_;
};

// A device allocation that the driver refused; the caching allocator turns it into its own report.
class OutOfMemory : public DriverError {
 public:
  using DriverError::DriverError;
};

// A program that did not compile. what() carries the build log and the path of the dumped source.
class BuildError : public DriverError {
 public:
  using DriverError::DriverError;
};

// Words of error texts that depend on the program around this library. The defaults are for C++ users; the PyTorch
// layer has its own.
struct ErrorWords {
  const char* allocated = "is allocated";
  const char* empty_cache = "CachingAllocator::empty_cache()";
  const char* list_devices = "clinfo";  // a command
  const char* forked =
      "OpenCL was used before this process was forked, and drivers do not work in the child process; use OpenCL in "
      "processes that are started anew";
};
ErrorWords& error_words();

// "CL_OUT_OF_RESOURCES" for -5, and so on.
const char* error_name(cl_int code);

[[noreturn]] void throw_error(cl_int code, const char* call);

inline void check(cl_int code, const char* call) {
  if (code != CL_SUCCESS) [[unlikely]]
    throw_error(code, call);
}

// For destructors and worker threads: writes one line to stderr instead of throwing.
void report(cl_int code, const char* call) noexcept;

}  // namespace ocl
