// Quantized tensors: storages of the device with the quantizers of PyTorch. ATen's own code makes them, views them and
// asks them for their parameters; conversion to and from floating numbers is registered in its stubs
// (quantized_conversion.cpp). Most operators on them (quantized::conv2d, quantized::add, ...) run on the CPU, counted
// like any other fallback: their packed weights are objects of the CPU's libraries.
#include "torch/aten/quantized_tensors.h"

#include "torch/aten/sparse.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/quantized/AffineQuantizer.h>
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/_empty_affine_quantized_native.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/_empty_per_channel_affine_quantized_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/dequantize_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/empty_strided_native.h>
#include <ATen/ops/q_per_channel_axis_native.h>
#include <ATen/ops/q_per_channel_scales_native.h>
#include <ATen/ops/q_per_channel_zero_points_native.h>
#include <ATen/ops/q_scale_native.h>
#include <ATen/ops/q_zero_point_native.h>
#include <ATen/ops/qscheme_native.h>
#include <ATen/ops/quantize_per_channel_native.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/quantize_per_tensor_dynamic_native.h>
#include <ATen/ops/quantize_per_tensor_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/squeeze_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/QTensorImpl.h>

namespace ocl::aten {

using at::Tensor;

at::Tensor codes_of(const Tensor& quantized) {
  const auto key = quantized.device().is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::PrivateUse1;
  Tensor codes =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(quantized.storage()), c10::DispatchKeySet(key),
                                               c10::scalarTypeToTypeMeta(c10::toUnderlying(quantized.scalar_type())));
  codes.unsafeGetTensorImpl()->set_sizes_and_strides(quantized.sizes(), quantized.strides(),
                                                     quantized.storage_offset());
  return codes;
}

namespace {

// The quantizer with its parameters on that device.
at::QuantizerPtr quantizer_on(const Tensor& quantized, at::Device device) {
  at::QuantizerPtr quantizer = at::get_qtensorimpl(quantized)->quantizer();
  const at::QScheme scheme = quantizer->qscheme();
  if (scheme != at::kPerChannelAffine && scheme != at::kPerChannelAffineFloatQParams) return quantizer;
  const auto* channels = static_cast<at::PerChannelAffineQuantizer*>(quantizer.get());
  if (channels->scales().device() == device) return quantizer;
  return at::make_per_channel_affine_quantizer(channels->scales().to(device), channels->zero_points().to(device),
                                               channels->axis(), quantizer->scalar_type());
}

void check_per_tensor(const char* name, const Tensor& self) {
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine, name, ": only per-tensor quantized tensors are supported, got ",
              c10::toString(self.qscheme()));
}

Tensor bytes_of(const Tensor& quantized) {
  Tensor bytes = codes_of(quantized);
  bytes.unsafeGetTensorImpl()->set_sizes_and_strides(
      at::IntArrayRef{static_cast<int64_t>(quantized.storage().nbytes())}, at::IntArrayRef{1}, 0);
  return bytes;
}

// Bytes as they are: storages of types that share bytes are dense.
void copy_bytes(const Tensor& destination, const Tensor& source) {
  const Tensor from = bytes_of(source), to = bytes_of(destination);
  TORCH_CHECK(from.numel() == to.numel() && source.is_contiguous() && destination.is_contiguous(),
              "copy_: expected whole contiguous tensors of ", destination.scalar_type(), ", got ", source.sizes(),
              " and ", destination.sizes());
  to.copy_(from);
}

// As at::native::copy_ decides for the CPU's tensors.
Tensor copy_from(const Tensor& self, const Tensor& destination, bool non_blocking) {
  if (!self.is_quantized() && destination.is_quantized()) {
    TORCH_CHECK(self.scalar_type() == at::kFloat, "Quantized copy only works with kFloat as source Tensor");
    TORCH_CHECK(destination.sizes().equals(self.sizes()), "Quantized copy only works with Tensors with the same shape");
    at::QuantizerPtr quantizer = at::get_qtensorimpl(destination)->quantizer();
    return copy_from(quantizer->quantize(self.to(destination.device())), destination, non_blocking);
  }
  TORCH_CHECK(destination.is_quantized(), "Copying from quantized Tensor to non-quantized Tensor is not allowed, ",
              "please use dequantize to get a float Tensor from a quantized Tensor");
  TORCH_CHECK(self.qscheme() == destination.qscheme(), "Quantized Copy only works with same qscheme");
  TORCH_CHECK(self.scalar_type() == destination.scalar_type(), "Quantized copy only works with same scalar type");
  at::set_quantizer_(destination, quantizer_on(self, destination.device()));
  if (self.is_same(destination)) return destination;
  if (shares_bytes(self.scalar_type()))
    copy_bytes(destination, self);
  else
    codes_of(destination).copy_(codes_of(self), non_blocking);
  return destination;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& destination) {
  if (self.sizes() != destination.sizes()) destination.resize_(self.sizes());
  return copy_from(self, destination, false);
}

const Tensor& resize_(const Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  check_per_tensor("resize_", self);
  TORCH_CHECK(!shares_bytes(self.scalar_type()), "resize_ is not implemented for ", self.scalar_type());
  const Tensor codes = codes_of(self);
  codes.resize_(size, format);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(codes.sizes(), codes.strides());
  return self;
}

Tensor int_repr(const Tensor& self) {
  return (shares_bytes(self.scalar_type()) ? bytes_of(self) : codes_of(self)).clone();
}

at::TensorOptions quantized_options(const Tensor& codes) {
  return codes.options().dtype(c10::toQIntType(codes.scalar_type()));
}

Tensor make_per_tensor(const Tensor& self, double scale, int64_t zero_point) {
  const Tensor made = at::_empty_affine_quantized(self.sizes(), quantized_options(self), scale, zero_point);
  codes_of(made).copy_(self);
  return made;
}

Tensor make_per_channel(const Tensor& self, const Tensor& scales, const Tensor& zero_points, int64_t axis) {
  const Tensor made =
      at::_empty_per_channel_affine_quantized(self.sizes(), scales, zero_points, axis, quantized_options(self));
  codes_of(made).copy_(self);
  return made;
}

// As the CPU does it: with the parameters of the first one.
Tensor joined(const std::vector<Tensor>& tensors, int64_t dim, std::optional<double> scale,
              std::optional<int64_t> zero_point) {
  TORCH_CHECK(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  std::vector<Tensor> numbers;
  for (const Tensor& t : tensors) {
    TORCH_CHECK(t.is_quantized() && t.qscheme() == at::kPerTensorAffine,
                "Only per-tensor quantization is supported in 'cat'!");
    TORCH_CHECK(t.scalar_type() == tensors[0].scalar_type(), "All dtypes must be the same.");
    numbers.push_back(t.dequantize());
  }
  return at::quantize_per_tensor(at::cat(numbers, dim), scale ? *scale : tensors[0].q_scale(),
                                 zero_point ? *zero_point : tensors[0].q_zero_point(), tensors[0].scalar_type());
}

Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  return joined({tensors.begin(), tensors.end()}, dim, std::nullopt, std::nullopt);
}

Tensor quantized_cat(const c10::List<Tensor>& tensors, int64_t dim, std::optional<double> scale,
                     std::optional<int64_t> zero_point) {
  return joined(tensors.vec(), dim, scale, zero_point);
}

Tensor& relu_(Tensor& self) {
  check_per_tensor("relu", self);
  codes_of(self).clamp_min_(self.q_zero_point());
  return self;
}

Tensor relu(const Tensor& self) {
  Tensor result = self.clone();
  return relu_(result);
}

void quantized_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::QuantizedCPU), "Could not run '",
                              op.operator_name(), "' with quantized tensors: the CPU has no code for them either.");
  elsewhere_on_cpu(op, stack, "has no OpenCL kernel for quantized tensors");
}

// Everything of ATen that the CPU has for quantized tensors and that is not registered here: many of these operators
// also have code for every device, which the dispatcher would prefer to a fallback, and which quantized tensors do not
// survive.
void register_rest(torch::Library& m) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::QuantizedCPU)) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.getNamespace() != "aten" || op->hasKernelForDispatchKey(c10::DispatchKey::QuantizedPrivateUse1))
      continue;
    m.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&quantized_on_cpu>());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&quantized_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  namespace native = at::native;
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("int_repr", int_repr);
  m.impl("resize_", resize_);
  m.impl("empty.memory_format", native::empty_unknown_quantized);
  m.impl("empty_strided", native::empty_strided_unknown_quantized);
  m.impl("empty_like", native::empty_like_quantized);
  m.impl("empty_quantized", native::empty_quantized);
  m.impl("_empty_affine_quantized", native::empty_affine_quantized);
  m.impl("_empty_per_channel_affine_quantized", native::empty_per_channel_affine_quantized);
  m.impl("clone", native::quantized_clone);
  m.impl("cat", cat);
  m.impl("relu", relu);
  m.impl("relu_", relu_);
  m.impl("dequantize.self", native::dequantize_quantized);
  m.impl("dequantize.tensors", native::dequantize_tensors_quantized_cpu);
  m.impl("q_scale", native::q_scale_quant);
  m.impl("q_zero_point", native::q_zero_point_quant);
  m.impl("q_per_channel_scales", native::q_per_channel_scales);
  m.impl("q_per_channel_zero_points", native::q_per_channel_zero_points);
  m.impl("q_per_channel_axis", native::q_per_channel_axis);
  m.impl("qscheme", native::qscheme_quant);
  m.impl("as_strided", native::as_strided_qtensorimpl);
  m.impl("view", static_cast<Tensor (*)(const Tensor&, at::IntArrayRef)>(native::view));
  m.impl("unfold", native::unfold);
  m.impl("_reshape_alias", native::_reshape_alias);
  m.impl("squeeze", static_cast<Tensor (*)(const Tensor&)>(native::squeeze_quantized));
  m.impl("squeeze.dim", static_cast<Tensor (*)(const Tensor&, int64_t)>(native::squeeze_quantized));
  m.impl("squeeze.dims", static_cast<Tensor (*)(const Tensor&, at::IntArrayRef)>(native::squeeze_quantized));
  m.impl("unsqueeze", native::unsqueeze_quantized);
  m.impl("set_.source_Storage_storage_offset", native::set_storage_quantized_);
  register_rest(m);
}

TORCH_LIBRARY_IMPL(quantized, QuantizedPrivateUse1, m) { m.impl("cat", quantized_cat); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  namespace native = at::native;
  m.impl("_empty_affine_quantized", native::empty_affine_quantized);
  m.impl("_empty_per_channel_affine_quantized", native::empty_per_channel_affine_quantized);
  m.impl("_make_per_tensor_quantized_tensor", make_per_tensor);
  m.impl("_make_per_channel_quantized_tensor", make_per_channel);
  m.impl("dequantize.self", native::dequantize_cpu_or_cuda);
  m.impl("quantize_per_tensor", native::quantize_per_tensor);
  m.impl("quantize_per_tensor.tensor_qparams", native::quantize_per_tensor_tensor_qparams);
  m.impl("quantize_per_tensor.tensors", native::quantize_per_tensor_list_cpu);
  m.impl("quantize_per_tensor_dynamic", native::quantize_per_tensor_dynamic);
  m.impl("quantize_per_channel", native::quantize_per_channel);
}

}  // namespace ocl::aten
