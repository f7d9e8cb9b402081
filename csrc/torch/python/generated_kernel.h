// Functions of torch_ocl._C for the modules that torch_ocl.inductor writes.
//
// A compiled graph of small operators is as fast as its launches, so a kernel is a function of C bound to what it
// launches: Python calls it without a tuple of arguments and looks nothing up.
#pragma once

#include "torch/python/api.h"

namespace ocl::python {

// generated_kernel(program, name, source, kinds, grid, alignment, errors) -> three functions: the kernel, called with
// its arguments, rows and columns; start(device), which begins to compile; finish(device), which waits until it is done
// and raises RuntimeError with the compiler's log.
PyObject* generated_kernel_function(PyObject*, PyObject* const* objects, Py_ssize_t count) noexcept;
// empty_strided(size, stride, dtype, device): torch.empty_strided without what that costs to call.
PyObject* empty_strided(PyObject*, PyObject* const* objects, Py_ssize_t count) noexcept;

}  // namespace ocl::python
