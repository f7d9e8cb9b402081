// PyTorch's objects of Python. Their layout is PyTorch's, behind the head that Python's stable ABI fixes; so the one
// file that knows it is compiled for each minor version of torch, and for no version of Python.
#pragma once

#include "torch/python/api.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace ocl::python {

const at::Tensor& to_tensor(PyObject* object);     // TypeError for anything else
c10::ScalarType to_scalar_type(PyObject* object);  // of a torch.dtype; TypeError
Object to_python(const at::TensorBase& tensor);
Object to_python(const at::Generator& generator);

// A child process that was forked after the device was used gets PyTorch's error for it.
void register_fork_handler();

}  // namespace ocl::python
