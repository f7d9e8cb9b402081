// For operators written outside of torch_ocl, in C++ or as torch.ocl.compile_kernel: the device's OpenCL objects, and
// kernels from source. A plain table of functions, so that an extension needs this header and no symbol but
// torch_ocl_extension(), which libtorch_ocl.so exports and `import torch_ocl` (or linking the library) makes known.
// examples/cpp_extension shows an operator.
#pragma once

#include <CL/cl.h>

#include <array>
#include <cstddef>
#include <type_traits>

namespace ocl::extension {

// One argument of a kernel. address: device memory, for a parameter that is a pointer to global; value: `bytes` bytes
// at `data`; local: `bytes` of __local memory.
struct Argument {
  enum Kind : int { address, value, local };
  Kind kind;
  const void* data;
  size_t bytes;
};

// Work-items in up to three dimensions. A local range of no dimensions: the driver chooses.
struct Range {
  int dimensions;
  std::array<size_t, 3> size;
};

struct Buffer {
  cl_mem buffer;
  size_t offset;  // bytes
};

// Errors of every function: std::runtime_error or c10::Error, with a text for the user. Device -1: the
// current one.
struct Interface {
  int version;  // 1; grows when functions are added behind
  cl_context (*context)(int device);
  cl_device_id (*device_id)(int device);
  cl_command_queue (*queue)(int device);  // of the thread's current stream: enqueue without waiting
  void (*issued)(int device);             // to be called after a command was enqueued on queue()
  Buffer (*locate)(const void* address);  // of a tensor's data_ptr()
  // The kernel `name` of the OpenCL C text `source`, compiled once per device and text and kept on disk. It may include
  // "common/memory.clh". Slow: keep the handle, which stays valid.
  void* (*kernel)(int device, const char* name, const char* source);
  void (*launch)(void* kernel, const Range& global, const Range& local, const Argument* arguments, size_t count);
};

}  // namespace ocl::extension

extern "C" __attribute__((visibility("default"))) const ocl::extension::Interface* torch_ocl_extension();

namespace ocl::extension {

template <class T>
Argument argument(const T& value) {
  if constexpr (std::is_pointer_v<T>)
    return {Argument::address, value, 0};
  else if constexpr (std::is_same_v<T, Argument>)
    return value;
  else {
    static_assert(std::is_trivially_copyable_v<T>,
                  "pass numbers of exactly the kernel's type, device addresses or an Argument");
    return {Argument::value, &value, sizeof(T)};
  }
}

// launch(kernel, {1, {n}}, {}, x.data_ptr(), y.data_ptr(), int64_t{n}): on the current stream of the kernel's device.
template <class... Values>
void launch(void* kernel, const Range& global, const Range& local, const Values&... values) {
  const std::array<Argument, sizeof...(Values)> arguments{argument(values)...};
  torch_ocl_extension()->launch(kernel, global, local, arguments.data(), arguments.size());
}

}  // namespace ocl::extension
