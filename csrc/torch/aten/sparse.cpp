// Sparse tensors: indices and values, which are dense tensors of the device. ATen computes most of their operators with
// other operators on these, whatever device they lie on, but registers that code only for the devices that it names.
// Here it is reached by way of its registration for the CPU. Operators whose code for the CPU reads memory through
// pointers have functions of their own (sparse_ops.cpp) or run on the CPU, counted like any other fallback.
#include "torch/aten/sparse.h"

#include "torch/aten/fallback.h"

#include <ATen/SparseTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <torch/library.h>

namespace ocl::aten {

using at::Tensor;

namespace {

// What ATen registers with one function for sparse tensors on the CPU and on CUDA. Names that a version of PyTorch does
// not have are never called.
constexpr const char* kCoordinates[] = {
    // parts, construction, conversion
    "_coalesced_", "_dimI", "_dimV", "_indices", "_nnz", "_values", "dense_dim", "indices", "is_coalesced",
    "sparse_dim", "values", "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "_to_dense",
    "_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csc", "_to_sparse_csr", "clone", "copy_",
    "copy_sparse_to_sparse_", "empty.memory_format", "empty_like", "resize_as_sparse_", "sparse_resize_",
    "sparse_resize_and_clear_", "zero_", "zeros.out",
    // shapes
    "_sparse_broadcast_to", "cat", "narrow_copy", "permute", "unsqueeze", "view_as_complex", "view_as_real",
    // reductions
    "any", "native_norm", "native_norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "sum",
    "sum.dim_IntList",
    // arithmetic and products
    "add.Tensor", "add_.Tensor", "div.Tensor", "div.Tensor_mode", "div.out", "div.out_mode", "div_.Tensor",
    "div_.Tensor_mode", "floor_divide", "floor_divide.out", "floor_divide_.Tensor", "mm", "mm.out", "mul.Tensor",
    "mul_.Tensor", "mv", "pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "sub.Tensor", "sub.out", "sub_.Tensor"};
constexpr const char* kCompressed[] = {"_nnz",
                                       "ccol_indices",
                                       "col_indices",
                                       "crow_indices",
                                       "dense_dim",
                                       "row_indices",
                                       "sparse_dim",
                                       "values",
                                       "_to_dense",
                                       "_to_sparse",
                                       "_to_sparse.sparse_dim",
                                       "clone",
                                       "copy_",
                                       "empty.memory_format",
                                       "empty_like",
                                       "resize_",
                                       "resize_as_sparse_",
                                       "zero_",
                                       "select.int",
                                       "select_copy.int",
                                       "sparse_mask",
                                       "sum",
                                       "sum.dim_IntList",
                                       "fill_.Scalar",
                                       "normal_",
                                       "add.Tensor",
                                       "add_.Tensor",
                                       "addmm",
                                       "mm",
                                       "mm.out",
                                       "mul.Scalar",
                                       "mul.Tensor",
                                       "mul_.Scalar",
                                       "mul_.Tensor",
                                       "_conj_physical",
                                       "angle",
                                       "angle.out"};
// Functions of one tensor that keep zero, each as NAME, NAME_ and NAME.out.
constexpr const char* kUnary[] = {"abs",        "asin",          "asinh",
                                  "atan",       "atanh",         "ceil",
                                  "deg2rad",    "erf",           "erfinv",
                                  "expm1",      "floor",         "frac",
                                  "log1p",      "neg",           "rad2deg",
                                  "relu",       "round",         "sgn",
                                  "sign",       "sin",           "sinh",
                                  "sqrt",       "tan",           "tanh",
                                  "trunc",      "isinf",         "isneginf",
                                  "isposinf",   "isnan",         "signbit",
                                  "nan_to_num", "conj_physical", "threshold_backward"};

template <c10::DispatchKey key>
void on_parts(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(key, *stack);
}

// ---- on the CPU

bool is_compressed(const Tensor& t) { return at::sparse_csr::is_sparse_compressed(t); }

// The argument as the CPU's kernels take it.
c10::IValue moved_to(const c10::IValue& value, at::Device device) {
  if (value.isTensor()) return sparse_to(value.toTensor(), device);
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : value.toTensorVector()) list.push_back(sparse_to(t, device));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const std::optional<Tensor>& t : value.toOptionalTensorVector())
      list.push_back(t ? std::optional(sparse_to(*t, device)) : t);
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == runtime::device_type) return device;
  return value;
}

// Gives a tensor of the device what the CPU left in its copy.
void take_back(const Tensor& original, const Tensor& changed) {
  if (!original.defined() || original.device().is_cpu()) return;
  if (original.layout() == at::kSparse) {
    auto* implementation = static_cast<at::SparseTensorImpl*>(original.unsafeGetTensorImpl());
    implementation->raw_resize_(changed.sparse_dim(), changed.dense_dim(), changed.sizes());
    implementation->set_indices_and_values_unsafe(changed._indices().to(original.device()),
                                                  changed._values().to(original.device()));
    implementation->set_coalesced(changed.is_coalesced());
  } else if (is_compressed(original)) {
    original.copy_(sparse_to(changed, original.device()));
  } else {
    if (original.sizes() != changed.sizes()) original.resize_(changed.sizes());
    original.copy_(changed);
  }
}

void take_back(const c10::IValue& original, const c10::IValue& changed) {
  if (original.isTensor()) return take_back(original.toTensor(), changed.toTensor());
  if (!original.isTensorList()) return;
  const auto before = original.toTensorVector(), after = changed.toTensorVector();
  for (size_t i = 0; i < before.size(); ++i) take_back(before[i], after[i]);
}

c10::optional<at::Device> device_among(const torch::jit::Stack& arguments) {
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == runtime::device_type)
      return value.toTensor().device();
    if (value.isTensorList())
      for (const Tensor& t : value.toTensorVector())
        if (t.defined() && t.device().type() == runtime::device_type) return t.device();
    if (value.isDevice() && value.toDevice().type() == runtime::device_type) return value.toDevice();
  }
  return {};
}

// The argument that the i-th result is, by the schema, or none.
std::optional<size_t> argument_of_result(const c10::FunctionSchema& schema, size_t i) {
  const c10::AliasInfo* result = schema.returns()[i].alias_info();
  if (!result || !result->isWrite()) return {};
  for (size_t k = 0; k < schema.arguments().size(); ++k) {
    const c10::AliasInfo* argument = schema.arguments()[k].alias_info();
    if (argument && argument->isWrite() && argument->beforeSets() == result->beforeSets()) return k;
  }
  return {};
}

}  // namespace

void elsewhere_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const char* why) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t first = stack->size() - schema.arguments().size();
  const torch::jit::Stack given(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  // The operators of c10d change their arguments without saying so in their schemas, and later.
  TORCH_CHECK_NOT_IMPLEMENTED(schema.name().rfind("c10d::", 0) != 0, schema.name(), ": tensors of this layout on ocl ",
                              "cannot be sent to other processes. Use .to_dense(), or .cpu() with Gloo.");
  const c10::optional<at::Device> device = device_among(given);
  count_fallback(c10::toString(op.operator_name()), why);
  const c10::OptionalDeviceGuard guard(device);
  torch::jit::Stack there;
  for (const c10::IValue& value : given) there.push_back(moved_to(value, at::kCPU));
  replace_generators(there, 0, device ? device->index() : runtime::current_device());
  const torch::jit::Stack arguments = there;
  op.callBoxed(there);
  for (size_t k = 0; k < arguments.size(); ++k) {
    const c10::AliasInfo* alias = schema.arguments()[k].alias_info();
    if (alias && alias->isWrite()) take_back(given[k], arguments[k]);
  }
  stack->resize(first);
  for (size_t i = 0; i < there.size(); ++i) {
    const std::optional<size_t> argument = argument_of_result(schema, i);
    stack->push_back(argument ? given[*argument] : device ? moved_to(there[i], *device) : there[i]);
  }
}

void sparse_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  elsewhere_on_cpu(op, stack, "has no OpenCL kernel for sparse tensors");
}

void nested_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  elsewhere_on_cpu(op, stack, "has no OpenCL kernel for nested tensors");
}

namespace {

template <c10::DispatchKey key>
void register_parts(torch::Library& m, at::ArrayRef<const char*> names) {
  const auto make = [] { return torch::CppFunction::makeFromBoxedFunction<&on_parts<key>>(); };
  for (const char* name : names) m.impl(name, make());
  for (const std::string name : kUnary) {
    m.impl(name.c_str(), make());
    m.impl((name + "_").c_str(), make());
    m.impl((name + (name == "threshold_backward" ? ".grad_input" : ".out")).c_str(), make());
  }
}

}  // namespace

Tensor sparse_to(const Tensor& t, at::Device device) {
  if (!t.defined() || t.device() == device) return t;
  const at::TensorOptions options = t.options().device(device);
  if (t.layout() == at::kSparse)
    return at::_sparse_coo_tensor_unsafe(t._indices().to(device), t._values().to(device), t.sizes(), options,
                                         t.is_coalesced());
  if (is_compressed(t)) {
    const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(t);
    return at::_sparse_compressed_tensor_unsafe(compressed.to(device), plain.to(device), t.values().to(device),
                                                t.sizes(), options);
  }
  return t.to(device);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { register_parts<c10::DispatchKey::SparseCPU>(m, kCoordinates); }
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) { register_parts<c10::DispatchKey::SparseCsrCPU>(m, kCompressed); }
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_on_cpu>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_on_cpu>());
}

}  // namespace ocl::aten
