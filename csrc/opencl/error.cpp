#include "opencl/error.h"

#include <cstdio>

namespace ocl {

ErrorWords& error_words() {
  static ErrorWords words;
  return words;
}

const char* error_name(cl_int code) {
  switch (code) {
    // clang-format off: macros that end without a semicolon
#define NAME(c) \
  case c: return #c;
    NAME(CL_SUCCESS)
    NAME(CL_DEVICE_NOT_FOUND)
    NAME(CL_DEVICE_NOT_AVAILABLE)
    NAME(CL_COMPILER_NOT_AVAILABLE)
    NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    NAME(CL_OUT_OF_RESOURCES)
    NAME(CL_OUT_OF_HOST_MEMORY)
    NAME(CL_PROFILING_INFO_NOT_AVAILABLE)
    NAME(CL_MEM_COPY_OVERLAP)
    NAME(CL_BUILD_PROGRAM_FAILURE)
    NAME(CL_MAP_FAILURE)
    NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
    NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    NAME(CL_INVALID_VALUE)
    NAME(CL_INVALID_DEVICE_TYPE)
    NAME(CL_INVALID_PLATFORM)
    NAME(CL_INVALID_DEVICE)
    NAME(CL_INVALID_CONTEXT)
    NAME(CL_INVALID_QUEUE_PROPERTIES)
    NAME(CL_INVALID_COMMAND_QUEUE)
    NAME(CL_INVALID_HOST_PTR)
    NAME(CL_INVALID_MEM_OBJECT)
    NAME(CL_INVALID_BINARY)
    NAME(CL_INVALID_BUILD_OPTIONS)
    NAME(CL_INVALID_PROGRAM)
    NAME(CL_INVALID_PROGRAM_EXECUTABLE)
    NAME(CL_INVALID_KERNEL_NAME)
    NAME(CL_INVALID_KERNEL_DEFINITION)
    NAME(CL_INVALID_KERNEL)
    NAME(CL_INVALID_ARG_INDEX)
    NAME(CL_INVALID_ARG_VALUE)
    NAME(CL_INVALID_ARG_SIZE)
    NAME(CL_INVALID_KERNEL_ARGS)
    NAME(CL_INVALID_WORK_DIMENSION)
    NAME(CL_INVALID_WORK_GROUP_SIZE)
    NAME(CL_INVALID_WORK_ITEM_SIZE)
    NAME(CL_INVALID_GLOBAL_OFFSET)
    NAME(CL_INVALID_EVENT_WAIT_LIST)
    NAME(CL_INVALID_EVENT)
    NAME(CL_INVALID_OPERATION)
    NAME(CL_INVALID_BUFFER_SIZE)
    NAME(CL_INVALID_GLOBAL_WORK_SIZE)
#undef NAME
    // clang-format on
    case -1001: return "CL_PLATFORM_NOT_FOUND_KHR";
    case -9999: return "CL_NV_ILLEGAL_MEMORY_ACCESS";
    default: return "unknown OpenCL error";
  }
}

static std::string message(cl_int code, const char* call) {
  return std::string(call) + " failed: " + error_name(code) + " (" + std::to_string(code) + ")";
}

void throw_error(cl_int code, const char* call) {
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE) throw OutOfMemory(code, message(code, call));
  throw DriverError(code, message(code, call));
}

void report(cl_int code, const char* call) noexcept {
  if (code != CL_SUCCESS) std::fprintf(stderr, "torch_ocl: %s failed: %s (%d)\n", call, error_name(code), code);
}

}  // namespace ocl
