// The operators that are one row of a table and nothing else.
//
// A row of the elementwise table names the operator of PyTorch that it is and how its result's type follows from the
// inputs (ElementwiseRow::Operator). That says all that a registration needs, so nothing is written here for a row:
// this file registers the out=, the new-tensor and, where PyTorch has it, the in-place form of every such row.
//
// Rows that are no operator of PyTorch are reached by name: torch.ops.ocl.elementwise and torch.ops.ocl.reduce.
#include "torch/aten/elementwise.h"
#include "torch/aten/reduce.h"
#include "ops/reduce/table.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/op_registration.h>
#include <ATen/ops/result_type.h>

namespace ocl::aten {
namespace {

using at::Tensor;
using ops::ElementwiseRow;
using Kind = ElementwiseRow::Operator;

// What ATen's meta functions of such operators do: promotion, shape and overlap checks.
struct Iterator : at::TensorIteratorBase {
  void meta(const ElementwiseRow& row, const Tensor& self) {
    if (row.kind == Kind::same)
      build_borrowing_unary_op(maybe_get_output(), self);
    else
      build_borrowing_unary_float_op(maybe_get_output(), self);
    check(row);
  }
  void meta(const ElementwiseRow& row, const Tensor& self, const Tensor& other) {
    if (row.kind == Kind::same)
      build_borrowing_binary_op(maybe_get_output(), self, other);
    else
      build_borrowing_binary_float_op(maybe_get_output(), self, other);
    check(row);
  }

 private:
  void check(const ElementwiseRow& row) {
    if (row.kind == Kind::wide_floating && at::isReducedFloatingType(common_dtype()))
      not_implemented_for(row.name, common_dtype());
  }
};

template <class... Inputs>
Tensor& into(const ElementwiseRow& row, Tensor& out, const Inputs&... inputs) {
  Out<Iterator, 1> kernel(out);
  kernel.meta(row, inputs...);
  run(row, kernel);
  return out;
}

template <class... Inputs>
Tensor fresh(const ElementwiseRow& row, const Inputs&... inputs) {
  New<Iterator> kernel;
  kernel.meta(row, inputs...);
  run(row, kernel);
  return std::move(kernel.result);
}

// Registrations last as long as the process.
std::vector<c10::RegistrationHandleRAII>& registrations() {
  static auto& handles = *new std::vector<c10::RegistrationHandleRAII>;
  return handles;
}

// Registers the function for the operator where PyTorch has one of that name.
template <class Function>
void add(const std::string& name, const char* overload, Function function) {
  auto& dispatcher = c10::Dispatcher::singleton();
  c10::OperatorName operator_name("aten::" + name, overload);
  if (!dispatcher.findSchema(operator_name)) return;
  using Type = typename c10::guts::infer_function_traits_t<Function>::func_type;
  registrations().push_back(dispatcher.registerImpl(
      std::move(operator_name), c10::DispatchKey::PrivateUse1, c10::KernelFunction::makeFromUnboxedLambda(function),
      c10::impl::CppSignature::make<Type>(), nullptr, "a row of csrc/ops/elementwise/table.cpp"));
}

void add(const ElementwiseRow& row) {
  TORCH_INTERNAL_ASSERT(c10::Dispatcher::singleton().findSchema({std::string("aten::") + row.aten, "out"}), row.name,
                        ": PyTorch has no operator ", row.aten, ".out");
  const ElementwiseRow* const r = &row;
  const std::string name = row.aten, in_place = name + "_";
  if (row.inputs == 1) {
    add(name, "out", [r](const Tensor& self, Tensor& out) -> Tensor& { return into(*r, out, self); });
    add(name, "", [r](const Tensor& self) { return fresh(*r, self); });
    add(in_place, "", [r](Tensor& self) -> Tensor& { return into(*r, self, self); });
    return;
  }
  TORCH_INTERNAL_ASSERT(row.inputs == 2, row.name, ": operators of the table have one or two inputs");
  add(name, "out",
      [r](const Tensor& self, const Tensor& other, Tensor& out) -> Tensor& { return into(*r, out, self, other); });
  add(name, "", [r](const Tensor& self, const Tensor& other) { return fresh(*r, self, other); });
  add(in_place, "", [r](Tensor& self, const Tensor& other) -> Tensor& { return into(*r, self, self, other); });
}

[[maybe_unused]] const bool registered = [] {
  for (const ElementwiseRow& row : ops::elementwise_table())
    if (row.kind != Kind::none) add(row);
  return true;
}();

// torch.ops.ocl.elementwise(row, inputs, scalars=[]): the row of that name on broadcast inputs. The result has the type
// that PyTorch promotes the inputs to.
Tensor elementwise(c10::string_view name, at::TensorList inputs, at::ArrayRef<double> scalars) {
  const ElementwiseRow& row = ops::elementwise_row(std::string(name).c_str());
  TORCH_CHECK_VALUE(static_cast<int>(inputs.size()) == row.inputs && row.inputs > 0, "ocl::elementwise: ", name,
                    " takes ", row.inputs, " tensors, but got ", inputs.size());
  TORCH_CHECK_VALUE(scalars.size() <= ops::ElementwiseCall::max_scalars, "ocl::elementwise: at most ",
                    ops::ElementwiseCall::max_scalars, " scalars, but got ", scalars.size());
  at::TensorIteratorConfig config;
  config.add_owned_output(Tensor());
  for (const Tensor& input : inputs) config.add_owned_const_input(input);
  auto iterator = config.promote_inputs_to_common_dtype(true).cast_common_dtype_to_outputs(false).build();
  std::vector<ops::ElementwiseScalar> values;
  for (double scalar : scalars) values.push_back(scalar);
  run(row, iterator, values);
  return iterator.output();
}

// torch.ops.ocl.reduce(row, self, dim=None, keepdim=False, parameter=0): the row of that name. The result has self's
// type.
Tensor reduce(c10::string_view name, const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, double parameter) {
  const ops::ReduceRow& row = ops::reduce_row(std::string(name).c_str());
  TORCH_CHECK_VALUE(!row.indexed && !row.centered, "ocl::reduce: ", name,
                    " has two results or two passes: use PyTorch's operator");
  const ops::DimMask dims = mask_of(self, dim);
  const Tensor out = new_output(self, dims, keepdim, self.scalar_type());
  if (out.numel() == 0) return out;
  const c10::OptionalDeviceGuard guard(self.device());
  ops::reduce(queue_for(self), row, view(self), dims, view(out), parameter);
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("elementwise(str row, Tensor[] inputs, float[] scalars=[]) -> Tensor");
  m.def("reduce(str row, Tensor self, int[]? dim=None, bool keepdim=False, float parameter=0) -> Tensor");
}
TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) {
  m.impl("elementwise", elementwise);
  m.impl("reduce", reduce);
}

}  // namespace ocl::aten
