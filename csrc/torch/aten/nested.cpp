// Nested tensors. Those of strided layout are a buffer and a table of sizes in host memory; ATen computes most of
// their operators with other operators on the buffer, on whatever device that lies, but registers this code only for
// the devices that it names. Here the same code is reached by way of its registration for the CPU. Left out are
// operators whose code for the CPU reads the buffer through a pointer: layer norms are done here on the buffer, others
// (sum) run on the CPU, counted like any other fallback.
// Those of jagged layout are written in Python on dense tensors; they need the two conversions to and from padding.
#include "torch/aten/common.h"
#include "torch/aten/sparse.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_jagged_to_padded_dense_forward_ops.h>
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_padded_dense_to_jagged_forward_ops.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/searchsorted.h>

namespace ocl::aten {

namespace {

using at::Tensor;

// What ATen registers with one function for nested tensors on the CPU and on GPUs, and the code for the CPU that
// consists of operators on the buffer. Names that a version of PyTorch does not have are never called.
constexpr const char* kOnBuffers[] = {
    // the tables in host memory; the first is asked where nothing may be thrown, when a gradient is prepared
    "_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets", "is_same_size",
    // views
    "alias", "chunk", "detach", "narrow", "select.int", "split_with_sizes", "squeeze", "squeeze.dim", "squeeze.dims",
    "transpose.int", "unbind.int", "unsqueeze", "values", "view", "_nested_select_backward",
    // copies and new tensors
    "_to_copy", "cat", "clone", "copy_", "empty_like", "fill_.Scalar", "fill_.Tensor", "normal_", "ones_like", "zero_",
    "to_padded_tensor", "_nested_from_padded_and_nested_example",
    // elementwise
    "abs", "abs_", "add.Tensor", "add_.Tensor", "cos", "div.Scalar", "div.Tensor", "eq.Scalar", "eq.Tensor", "gelu",
    "gelu_", "gelu_backward", "ge.Scalar", "gt.Scalar", "isinf", "isnan", "isneginf", "isposinf", "logical_not",
    "logical_not_", "masked_fill.Scalar", "mul.Scalar", "mul.Tensor", "mul_.Scalar", "mul_.Tensor", "native_dropout",
    "native_dropout_backward", "neg", "neg_", "relu", "relu_", "sgn", "sgn_", "silu", "silu_", "silu_backward", "sin",
    "sqrt", "sub.Tensor", "tanh", "tanh_", "threshold_backward", "where.self", "where.self_out",
    // reductions and products
    "_safe_softmax", "_softmax", "_softmax_backward_data", "all.dim", "bmm", "embedding", "linear", "linear_backward",
    "matmul", "matmul.out", "matmul_backward"};

void on_buffers(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::NestedTensorCPU, *stack);
}

// What ATen registers with one function for dense tensors on the CPU and on GPUs.
void on_dense_tensors(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::CPU, *stack);
}

// Where row `position` of sequence `b` lies among all rows, and whether it has one: [batch, length] each.
struct Rows {
  Tensor index, exists;
  Rows(const Tensor& offsets, int64_t length)
      : index(offsets.slice(0, 0, -1).unsqueeze(1) + at::arange(length, offsets.options())),
        exists(index < offsets.slice(0, 1).unsqueeze(1)) {}
};

// [rows, ...] with offsets [batch + 1] to [batch, length, ...]; longer sequences are cut off.
Tensor jagged_to_padded(const Tensor& values, at::TensorList offsets, at::IntArrayRef lengths, double padding) {
  TORCH_CHECK_NOT_IMPLEMENTED(offsets.size() == 1 && lengths.size() == 1,
                              "_jagged_to_padded_dense_forward: only one ragged dimension is supported on ocl devices");
  const Rows rows(offsets[0], lengths[0]);
  if (values.size(0) == 0) {
    std::vector<int64_t> sizes{rows.index.size(0), rows.index.size(1)};
    sizes.insert(sizes.end(), values.sizes().begin() + 1, values.sizes().end());
    return values.new_full(sizes, padding);
  }
  const std::optional<Tensor> index[] = {rows.index.clamp_max(values.size(0) - 1)};
  const Tensor gathered = at::index(values, c10::List<std::optional<Tensor>>(at::ArrayRef(index)));
  Tensor mask = rows.exists;
  while (mask.dim() < gathered.dim()) mask = mask.unsqueeze(-1);
  return gathered.masked_fill_(mask.logical_not_(), padding);
}

// [batch, length, ...] to [rows, ...], rows being the last offset: asked of the device where the caller does not say
// it.
Tensor padded_to_jagged(const Tensor& padded, at::TensorList offsets, std::optional<int64_t> total) {
  TORCH_CHECK_NOT_IMPLEMENTED(offsets.size() == 1,
                              "_padded_dense_to_jagged_forward: only one ragged dimension is supported on ocl devices");
  const Tensor& begins = offsets[0];
  const int64_t rows = total ? *total : begins.select(0, -1).item<int64_t>();
  const Tensor row = at::arange(rows, begins.options());
  const Tensor sequence = at::searchsorted(begins, row, /*out_int32=*/false, /*right=*/true) - 1;
  const std::optional<Tensor> first[] = {sequence};
  const Tensor position = row - at::index(begins, c10::List<std::optional<Tensor>>(at::ArrayRef(first)));
  const std::optional<Tensor> index[] = {sequence, position};
  return at::index(padded, c10::List<std::optional<Tensor>>(at::ArrayRef(index)));
}

// ---- layer norms of strided layout

// The buffer as rows of the normalized sizes, which all tensors end with.
Tensor rows_of(const Tensor& nested, at::IntArrayRef normalized) {
  TORCH_CHECK(nested.is_contiguous(), "layer_norm: expected a contiguous nested tensor");
  const Tensor sizes = nested._nested_tensor_size();
  const auto count = static_cast<int64_t>(normalized.size());
  TORCH_CHECK(count > 0 && count <= sizes.size(1), "Expected normalized_shape to have 1 to ", sizes.size(1),
              " dimensions, but got ", normalized);
  for (int64_t d = 0; d < count; ++d)
    TORCH_CHECK(sizes.select(1, sizes.size(1) - count + d).eq(normalized[static_cast<size_t>(d)]).all().item<bool>(),
                "Given normalized_shape=", normalized, ", expected nested tensors whose last dimensions are these");
  at::DimVector rows{-1};
  rows.append(normalized.begin(), normalized.end());
  return nested.values().view(rows);
}

Tensor like(const Tensor& nested, const Tensor& buffer) {
  return at::native::_nested_view_from_buffer(buffer.reshape({-1}), nested._nested_tensor_size(),
                                              nested._nested_tensor_strides(), nested._nested_tensor_storage_offsets());
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, at::IntArrayRef normalized,
                                              const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                                              double eps) {
  const auto [y, mean, rstd] = at::native_layer_norm(rows_of(input, normalized), normalized, weight, bias, eps);
  return {like(input, y), mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& input,
                                                       at::IntArrayRef normalized, const Tensor& mean,
                                                       const Tensor& rstd, const std::optional<Tensor>& weight,
                                                       const std::optional<Tensor>& bias, std::array<bool, 3> wanted) {
  const Tensor dy = rows_of(grad.contiguous(), normalized), x = rows_of(input, normalized);
  const auto [dx, dw, db] = at::native_layer_norm_backward(dy, x, normalized, mean, rstd, weight, bias, wanted);
  return {wanted[0] ? like(input, dx) : dx, dw, db};
}

}  // namespace

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&nested_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("native_layer_norm", layer_norm);
  m.impl("native_layer_norm_backward", layer_norm_backward);
  for (const char* name : kOnBuffers) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_buffers>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_tensor_from_mask", torch::CppFunction::makeFromBoxedFunction<&on_dense_tensors>());
  m.impl("_nested_from_padded", at::native::nested_from_padded_generic);
  m.impl("_nested_view_from_buffer", at::native::_nested_view_from_buffer);
  m.impl("_jagged_to_padded_dense_forward", jagged_to_padded);
  m.impl("_padded_dense_to_jagged_forward", padded_to_jagged);
}

}  // namespace ocl::aten
