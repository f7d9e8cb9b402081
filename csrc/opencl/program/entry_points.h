// Kernels are written as plain functions of OpenCL C; this writes the forms in which they are entered.
//   kernel void scale(global const float* restrict x, global float* y, float a) { y[...] = a * x[...]; }
// becomes
//   kernel void scale(__global const float *x_buffer, ulong x_offset, __global float *y_buffer, ulong y_offset, float
//   a) { __global const float* restrict x = ...; __global float* y = ...; y[...] = a * x[...]; }
// because a tensor is a buffer and a byte offset in it (csrc/opencl/launch.h passes both for every pointer). In the
// body HAS(x) (kernels_cl/common/memory.clh) tells whether the launch was given a tensor.
//
// Kernels begin with `kernel`, `__kernel` or a macro whose name ends with _KERNEL and which stands for it with
// attributes. Those marked CPU_KERNEL or TASK_KERNEL become functions where the device's kernels are called
// (Device::calls_kernels); how is the affair of the executor (function_head).
//
// A parameter is a tensor (pointer to global), local memory, or a plain value. A list may have preprocessor lines in
// it, and may be, or contain, macros without parameters that stand for lists, the first definition of which counts.
#pragma once

#include "opencl/executor.h"

#include <string>
#include <string_view>
#include <vector>

namespace ocl {

struct KernelParameter {
  enum class Kind { tensor, local, plain, comma, directive };  // the last two: what stands between parameters

  Kind kind;
  std::string text;        // as it is written
  std::string type, name;  // tensors, local memory: the type of an element, with const
  bool restricted = false;

  // As a parameter of the kernel that the driver enqueues.
  std::string declaration() const;
};

struct KernelDeclaration {
  std::string name;
  std::vector<KernelParameter> list;

  // print(parameter) of every parameter; between them the list's preprocessor lines and, if asked for, its commas.
  template <class Print>
  std::string each(bool commas, Print&& print) const {
    std::string text;
    for (const KernelParameter& parameter : list) {
      if (parameter.kind == KernelParameter::Kind::directive)
        text.append("\n").append(parameter.text).append("\n");
      else if (parameter.kind != KernelParameter::Kind::comma)
        text += print(parameter);
      else if (commas)
        text += ", ";
    }
    return text;
  }
};

// How kernels that become functions are found: not at all, they are enqueued; by a second kernel that tells the
// address, with an instruction or from a block; or they are symbols of a library, which is compiled ahead of time
// (ahead.h).
enum class FunctionForm { none, instruction, block, symbol };
FunctionForm function_form(HostDriver driver);

struct EntryPoints {
  std::string source;
  bool functions = false;  // whether kernels were made functions
};

EntryPoints write_entry_points(std::string_view source, FunctionForm functions);
// `functions`: the driver whose kernels are called; none: all are enqueued.
EntryPoints write_entry_points(std::string_view source, HostDriver functions);

// Defined in csrc/cpu: what stands in place of a kernel that is called, up to its body. In the body a tensor x is
// x_buffer and x_offset, and local memory x is CALLABLE_MEMORY(type, x_bytes), which Executor::function_source defines.
std::string function_head(FunctionForm form, const KernelDeclaration& kernel);

}  // namespace ocl
