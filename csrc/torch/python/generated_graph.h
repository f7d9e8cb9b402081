// A whole graph of torch_ocl.inductor as one call: checks of inputs, allocations and launches without Python between.
#pragma once

#include "torch/python/api.h"

namespace ocl::python {

// generated_graph(otherwise, device, slots, inputs, steps, outputs) -> a function of the list of a graph's inputs,
// which it empties. It returns the tuple of outputs; when an input is not what the graph was made for, what
// `otherwise`, the same graph in Python, returns for the list. Tensors lie in slots, the inputs in the first ones.
//   inputs    for each None (not checked) or (sizes, strides)
//   steps     ("new", slot, sizes, strides, dtype), ("view", slot, of, sizes, strides, offset), ("same", slot, of),
//             ("drop", slot), ("call", generated kernel, arguments, rows, columns); an argument is a number or a slot
//   outputs   slots; -1 stands for None
// Python runs a graph with other steps.
PyObject* generated_graph_function(PyObject*, PyObject* const* objects, Py_ssize_t count) noexcept;

}  // namespace ocl::python
