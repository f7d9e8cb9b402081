// torch_ocl._C.GeneratedKernel: a kernel that torch_ocl.inductor wrote, called with what the generated code has.
//
// A compiled graph of small operators is as fast as its launches, so this is a type in C rather than a function of
// pybind11: it is called without a tuple of arguments, and looks up nothing.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ocl::python {

void add_generated_kernel_type(pybind11::module_& module);  // and empty_strided, for the same modules

}  // namespace ocl::python
