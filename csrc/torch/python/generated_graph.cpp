#include "torch/python/generated_graph.h"

#include "torch/python/generated_launch.h"
#include "torch/python/torch_objects.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ocl::python {

namespace {

using Numbers = c10::SmallVector<int64_t, 8>;

Numbers numbers_of(PyObject* sequence) {
  Numbers result;
  for_each(sequence, [&](PyObject* number) { result.push_back(to_long(number)); });
  return result;
}

struct Layout {
  Numbers size, stride;
};

struct Step {
  enum Kind { make, view, same, drop, call } kind = drop;
  size_t slot = 0, of = 0;
  Layout layout;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  // of a call
  Object function;  // keeps `generated`
  Generated* generated = nullptr;
  Generated::OnDevice place;
  struct Value {
    char kind;
    size_t slot;
    int64_t whole;
    double real;
  };
  std::vector<Value> arguments;
  int64_t rows = 0, columns = 1;
};

struct Graph {
  Object otherwise;
  int device = 0;
  size_t slots = 0;
  std::vector<std::optional<Layout>> inputs;
  std::vector<Step> steps;
  std::vector<int64_t> outputs;
  bool placed = false;  // every step has its place
};

using Tensors = c10::SmallVector<at::Tensor, 16>;

// As PyTorch's assert_size_stride: the stride of a dimension of one element may be anything.
bool fits(const at::Tensor& tensor, const Layout& layout) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  if (sizes.size() != layout.size.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != layout.size[i] || (sizes[i] > 1 && strides[i] != layout.stride[i])) return false;
  return true;
}

// A tensor over the memory of `base`, as Inductor's reinterpret_tensor.
at::Tensor view_of(const at::Tensor& base, const Step& step) {
  at::Tensor result =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(base.storage()), base.key_set(), base.dtype());
  result.unsafeGetTensorImpl()->set_storage_offset(base.storage_offset() + step.offset);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(step.layout.size, step.layout.stride);
  return result;
}

void launch(const Step& step, const Tensors& tensors) {
  if (step.rows == 0) return;
  Values values(step.arguments.size() + step.generated->codes.size() + own_values);
  for (const Step::Value& value : step.arguments) {
    if (value.kind == 'q')
      values.number(value.whole);
    else if (value.kind == 'd')
      values.number(value.real);
    else
      values.tensor(value.kind, tensors[value.slot]);
  }
  launch_generated(*step.generated, step.place, values, step.rows, step.columns);
}

// torch.empty_strided, past the dispatcher where it need not fill what it makes.
at::Tensor empty(const Step& step, c10::Device device) {
  const at::Context& settings = at::globalContext();
  if (settings.deterministicAlgorithms() && settings.deterministicFillUninitializedMemory())
    return at::empty_strided(step.layout.size, step.layout.stride, at::TensorOptions(device).dtype(step.dtype));
  return at::Tensor(at::detail::empty_strided_generic(step.layout.size, step.layout.stride,
                                                      c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), step.dtype));
}

void run_steps(const Graph& graph, Tensors& tensors) {
  const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(graph.device));
  const c10::OptionalDeviceGuard guard(device);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const Step& step : graph.steps) switch (step.kind) {
      case Step::make: tensors[step.slot] = empty(step, device); break;
      case Step::view: tensors[step.slot] = view_of(tensors[step.of], step); break;
      case Step::same: tensors[step.slot] = tensors[step.of]; break;
      case Step::drop: tensors[step.slot].reset(); break;
      case Step::call: launch(step, tensors); break;
    }
}

PyObject* outputs_of(const Graph& graph, const Tensors& tensors) {
  Object result(PyTuple_New(static_cast<Py_ssize_t>(graph.outputs.size())));
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const int64_t slot = graph.outputs[i];
    Object value =
        slot < 0 ? none() : to_python(static_cast<const at::TensorBase&>(tensors[static_cast<size_t>(slot)]));
    PyTuple_SetItem(result.get(), static_cast<Py_ssize_t>(i), value.give());
  }
  return result.give();
}

// Takes the inputs from the list; false when they are not what the graph was made for.
bool take_inputs(const Graph& graph, PyObject* list, Tensors& tensors) {
  if (!PyList_CheckExact(list) || static_cast<size_t>(PyList_Size(list)) != graph.inputs.size()) return false;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (!graph.inputs[i]) continue;
    const at::Tensor& tensor = to_tensor(PyList_GetItem(list, static_cast<Py_ssize_t>(i)));
    if (!fits(tensor, *graph.inputs[i])) return false;
    tensors[i] = tensor;
  }
  return true;
}

PyObject* run(Graph& graph, PyObject* list) {
  Tensors tensors(graph.slots);
  if (!take_inputs(graph, list, tensors)) return PyObject_CallFunctionObjArgs(graph.otherwise.get(), list, nullptr);
  if (!graph.placed) {
    for (Step& step : graph.steps)
      if (step.kind == Step::call) step.place = step.generated->on(graph.device);
    graph.placed = true;
  }
  if (PyList_SetSlice(list, 0, PyList_Size(list), nullptr) < 0) throw PythonError();  // inputs may go when they can
  {
    const ReleaseGil no_gil;
    run_steps(graph, tensors);
  }
  return outputs_of(graph, tensors);
}

// ---- from Python

size_t slot_of(const Graph& graph, PyObject* number) {
  const int64_t slot = to_long(number);
  if (slot < 0 || static_cast<size_t>(slot) >= graph.slots) raise_type_error("a graph has no such slot");
  return static_cast<size_t>(slot);
}

Step call_step(const Graph& graph, PyObject* row) {
  Step step;
  step.kind = Step::call;
  PyObject* function = PyTuple_GetItem(row, 1);
  step.generated = &generated_of(function);
  Py_INCREF(function);
  step.function = Object(function);
  const std::string& kinds = step.generated->kinds;
  for_each(PyTuple_GetItem(row, 2), [&](PyObject* argument) {
    if (step.arguments.size() == kinds.size()) raise_type_error("a generated kernel got too many arguments");
    const char kind = kinds[step.arguments.size()];
    const bool is_number = kind == 'q' || kind == 'd';
    step.arguments.push_back({kind, is_number ? 0 : slot_of(graph, argument), kind == 'q' ? to_long(argument) : 0,
                              kind == 'd' ? Argument<double>::of(argument) : 0.0});
  });
  if (step.arguments.size() != kinds.size()) raise_type_error("a generated kernel got too few arguments");
  step.rows = to_long(PyTuple_GetItem(row, 3));
  step.columns = to_long(PyTuple_GetItem(row, 4));
  return step;
}

Step step_of(const Graph& graph, PyObject* row) {
  const Py_ssize_t length = PyTuple_Check(row) ? PyTuple_Size(row) : 0;
  if (length < 2) raise_type_error("a step of a graph is a tuple");
  const std::string name = to_string(PyTuple_GetItem(row, 0));
  if (name == "call" && length == 5) return call_step(graph, row);
  Step step;
  step.slot = slot_of(graph, PyTuple_GetItem(row, 1));
  if (name == "new" && length == 5) {
    step.kind = Step::make;
    step.layout = {numbers_of(PyTuple_GetItem(row, 2)), numbers_of(PyTuple_GetItem(row, 3))};
    step.dtype = to_scalar_type(PyTuple_GetItem(row, 4));
  } else if (name == "view" && length == 6) {
    step.kind = Step::view;
    step.of = slot_of(graph, PyTuple_GetItem(row, 2));
    step.layout = {numbers_of(PyTuple_GetItem(row, 3)), numbers_of(PyTuple_GetItem(row, 4))};
    step.offset = to_long(PyTuple_GetItem(row, 5));
  } else if (name == "same" && length == 3) {
    step.kind = Step::same;
    step.of = slot_of(graph, PyTuple_GetItem(row, 2));
  } else if (name != "drop" || length != 2) {
    raise_type_error("a graph has no such step");
  }
  return step;
}

constexpr const char* capsule_name = "torch_ocl generated graph";

PyObject* call(PyObject* capsule, PyObject* list) noexcept {
  return guarded([&] {
    void* graph = PyCapsule_GetPointer(capsule, capsule_name);
    if (!graph) throw PythonError();
    return run(*static_cast<Graph*>(graph), list);
  });
}

PyMethodDef of_a_graph = {"generated_graph", call, METH_O, nullptr};

void delete_graph(PyObject* capsule) { delete static_cast<Graph*>(PyCapsule_GetPointer(capsule, capsule_name)); }

}  // namespace

PyObject* generated_graph_function(PyObject*, PyObject* const* objects, Py_ssize_t count) noexcept {
  return guarded([&] {
    if (count != 6) raise_type_error("generated_graph takes six arguments");
    auto graph = std::make_unique<Graph>();
    Py_INCREF(objects[0]);
    graph->otherwise = Object(objects[0]);
    graph->device = Argument<int>::of(objects[1]);
    graph->slots = static_cast<size_t>(to_long(objects[2]));
    for_each(objects[3], [&](PyObject* input) {
      std::optional<Layout> layout;
      if (input != Py_None) layout = {numbers_of(PyTuple_GetItem(input, 0)), numbers_of(PyTuple_GetItem(input, 1))};
      graph->inputs.push_back(std::move(layout));
    });
    if (graph->inputs.size() > graph->slots) raise_type_error("a graph has fewer slots than inputs");
    for_each(objects[4], [&](PyObject* row) { graph->steps.push_back(step_of(*graph, row)); });
    for_each(objects[5], [&](PyObject* slot) {
      graph->outputs.push_back(to_long(slot) < 0 ? -1 : static_cast<int64_t>(slot_of(*graph, slot)));
    });
    const Object capsule(PyCapsule_New(graph.get(), capsule_name, delete_graph));
    static_cast<void>(graph.release());  // the capsule's now
    return Object(PyCFunction_NewEx(&of_a_graph, capsule.get(), nullptr)).give();
  });
}

}  // namespace ocl::python
